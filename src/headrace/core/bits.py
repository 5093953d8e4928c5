"""Bit planes: the ends of a chunk's items, two bits each, as Python integers.

`low` and `high` together say where an item of a chunk stands: open, done, ended otherwise, or moved to another chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def ones(count: int) -> int:
    return (1 << count) - 1


def indexes(bits: int) -> Iterator[int]:
    """Positions of set bits, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def of(positions: Iterable[int]) -> int:
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def to_bytes(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def from_bytes(data: bytes | None) -> int:
    return int.from_bytes(data or b"", "little")


WAITING = "waiting"
MOVED = "moved"
ENDED = "ended"
_STATES = {(0, 0): "held", (1, 0): "done", (0, 1): ENDED, (1, 1): MOVED}


def states(count: int, mark: int, low: int, high: int) -> Iterator[str]:
    """The state of each item of a chunk: what is open waits from `mark` on, and is held before it."""
    for index in range(count):
        state = _STATES[low >> index & 1, high >> index & 1]
        yield WAITING if index >= mark and state == "held" else state


def state_of(state: str, has_letter: bool) -> str:
    """What people call it: the planes do not tell dead from cancelled, a dead letter does."""
    return state if state != ENDED else ("dead" if has_letter else "cancelled")
