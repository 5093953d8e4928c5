"""Effect keys: the name under which a sink knows one effect of one item, in every attempt and redrive.

`job/stage/seq`, or `job/stage/seq/name` for one of several effects. An effect is *left behind* when its item did not
end done and the sink could not take it back.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import CallerError, TooLarge

EFFECT_KEY_CHARS_MAX = 1_000
ANSWER_BYTES_MAX = 64 * 1024
TRANSACTIONAL = "transactional"
CONDITIONAL = "conditional"
_NOT_DONE = ("dead", "cancelled")


@dataclass(frozen=True, slots=True)
class EffectOwner:
    """The item that an effect key speaks of."""

    job: str
    stage: str
    seq: int
    name: str = ""


def effect_key(owner: EffectOwner) -> str:
    """The key of an item's effect."""
    key = f"{owner.job}/{owner.stage}/{owner.seq}"
    return f"{key}/{owner.name}" if owner.name else key


def owner_of(key: str) -> EffectOwner | None:
    """The item a key belongs to; None for a key that is not made from an item."""
    parts = key.split("/", 3)
    if len(parts) < 3 or not parts[0] or not parts[1] or not (parts[2].isascii() and parts[2].isdigit()):
        return None
    return EffectOwner(parts[0], parts[1], int(parts[2]), parts[3] if len(parts) == 4 else "")


def check_key(key: str) -> None:
    """Refuse a key that no sink could keep."""
    if not key or "\0" in key:
        raise CallerError(f"{key!r} cannot be an effect key", "use context.effect() or a name of your own")
    if len(key) > EFFECT_KEY_CHARS_MAX:
        raise TooLarge(
            f"an effect key of {len(key):,} characters is over EFFECT_KEY_CHARS_MAX = {EFFECT_KEY_CHARS_MAX}"
        )


def check_answer(size: int) -> None:
    """Refuse an answer that is too large to be kept for repeats."""
    if size > ANSWER_BYTES_MAX:
        raise TooLarge(
            f"an answer of {size:,} bytes is over ANSWER_BYTES_MAX = {ANSWER_BYTES_MAX:,}", "return fewer rows"
        )


def is_left_behind(guarantee: str, state: str) -> bool:
    """Whether an effect of an item in this state is one that nobody will complete or take back."""
    return guarantee != TRANSACTIONAL and state in _NOT_DONE
