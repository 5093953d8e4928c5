"""Cuts that wait for their moment, and the look-out for it on one direction of one connection.

The proxy does not know where a request begins or ends, only which bytes have passed. So a cut before a pattern lets
pass what stands before it: earlier requests arrive whole, this one never does. A pattern is found however it was split
into pieces, from the bytes that pass after the cut was set. What is encrypted cannot be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.testing.rig.proxy.faults import Cut, CutAfter, CutBefore, CutReply


@dataclass(slots=True, eq=False)
class Trap:
    """A cut that is set, and how often it is still to happen."""

    cut: Cut
    left: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.left = None if self.cut.times == "every" else self.cut.times

    @property
    def spent(self) -> bool:
        return self.left == 0

    def spring(self) -> None:
        if self.left is not None:
            self.left -= 1

    def rest(self) -> Cut:
        """What is still to come."""
        return self.cut if self.left is None else replace(self.cut, times=self.left)


@dataclass(frozen=True, slots=True)
class Sighting:
    """The first cut in a piece: how many bytes of the piece still pass, and what happens then."""

    at: int
    cut: Cut


class LookOut:
    """Watches the bytes that go one way over one connection."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._passed: dict[Trap, int] = {}
        self._tails: dict[Trap, bytes] = {}

    def look(self, traps: Sequence[Trap], piece: bytes) -> Sighting | None:
        """The first of these traps that springs in this piece. Call it for each piece, in order."""
        found = [(at, trap) for trap in traps if not trap.spent and (at := self._find(trap, piece)) is not None]
        if not found:
            return None
        at, trap = min(found, key=lambda each: each[0])
        trap.spring()
        return Sighting(at, trap.cut)

    def _find(self, trap: Trap, piece: bytes) -> int | None:
        match trap.cut:
            case CutAfter(byte_count, way) if way in (self._way, "both"):
                passed = self._passed.get(trap, 0)
                self._passed[trap] = passed + len(piece)
                return byte_count - passed if passed + len(piece) >= byte_count else None
            case CutBefore(pattern) if self._way == "requests":
                at = self._search(trap, pattern, piece)
                return None if at is None else max(0, at)
            case CutReply(pattern) if self._way == "requests":
                # The request goes on to its end, and others in the same piece with it.
                return None if self._search(trap, pattern, piece) is None else len(piece)
        return None

    def _search(self, trap: Trap, pattern: bytes, piece: bytes) -> int | None:
        """Where the pattern begins; below zero if it began in an earlier piece."""
        tail = self._tails.get(trap, b"")
        seen = tail + piece
        keep = len(pattern) - 1
        self._tails[trap] = seen[-keep:] if keep else b""
        at = seen.find(pattern)
        return None if at < 0 else at - len(tail)
