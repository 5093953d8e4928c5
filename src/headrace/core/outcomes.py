"""What a handler answers for an item, and what that means for its account.

A handler that returns None has answered `Done`; one that raises has answered what its stage's retry policy makes of
the exception. Any other value is no answer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """The item ended well."""


class Retry(Exception):
    """The attempt failed; try again after `after_s`, or when the retry policy says (None). Return it or raise it."""

    def __init__(self, reason: str = "", after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


class Dead(Exception):
    """The item can never succeed. Return it or raise it."""

    def __init__(self, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dead) and (self.reason, self.rule) == (other.reason, other.rule)

    def __hash__(self) -> int:
        return hash((self.reason, self.rule))


class Snooze(Exception):
    """Not now: come back after `after_s`. Spends no attempt. Return it or raise it."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"snooze for {after_s} s")
        self.after_s = after_s


OUTCOMES = (Done, Retry, Dead, Snooze)
Outcome = Done | Retry | Dead | Snooze

_FIELDS: dict[type, dict[str, tuple[type, ...]]] = {
    Retry: {"reason": (str,), "after_s": (int, float, type(None))},
    Dead: {"reason": (str,), "rule": (str,)},
    Snooze: {"after_s": (int, float)},
}


def flaw(outcome: object) -> str:
    """Why an outcome cannot be applied, in words; "" if it can.

    A handler may put anything into one (`Dead(error)`), and a subclass may leave its fields away.
    """
    named = type(outcome).__name__
    for kind, fields in _FIELDS.items():
        for name, types in fields.items() if isinstance(outcome, kind) else ():
            if not hasattr(outcome, name):
                return f"{named} has no {name!r}"
            if not isinstance(value := getattr(outcome, name), types):
                wanted = "text" if str in types else "a number"
                return f"the {name!r} of {named} must be {wanted}, not of the type {type(value).__name__}"
    return ""
