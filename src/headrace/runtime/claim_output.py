"""What done items leave for the account: sends, staged parcels to flip, recorded statements.

It is kept by item until it is settled: if the store finds one item's part impossible, that item fails and the others go
through without it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.core.claims import Claim, Statement
from headrace.core.parcels import PARCEL_BYTES_MAX, PARCEL_ITEMS_MAX, Parcel

Send = tuple[int, str, float, bytes, str | None]
"""Index of the sender in its claim, stage, delay in seconds, encoded payload, key."""


@dataclass(slots=True)
class ClaimOutput:
    """What gathered since the last settlement of one claim."""

    sends: list[Send] = field(default_factory=list)
    flips: list[tuple[int, int]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    size: int = 0

    def add(self, sends: Iterable[Send] = (), flips: Iterable[tuple[int, int]] = ()) -> None:
        before = len(self.sends)
        self.sends.extend(sends)
        self.size += sum(len(send[3]) for send in self.sends[before:])
        self.flips.extend(flips)

    def record(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self.statements.append(statement)
            self.size += len(statement.sql)

    def without(self, indexes: frozenset[int]) -> ClaimOutput:
        """The same without what some items left."""
        rest = ClaimOutput()
        rest.add((s for s in self.sends if s[0] not in indexes), (f for f in self.flips if f[0] not in indexes))
        rest.record(s for s in self.statements if s.index not in indexes)
        return rest

    def join(self, other: ClaimOutput) -> None:
        self.add(other.sends, other.flips)
        self.record(other.statements)

    def senders_to(self, stage: str) -> frozenset[int]:
        return frozenset(send[0] for send in self.sends if send[1] == stage)


def parcels_of(claim: Claim, sends: Iterable[Send], numbers: Iterator[int] | None = None) -> tuple[Parcel, ...]:
    """Sends as parcels, by stage and delay; `numbers` are for those that are staged ahead of their settlement."""
    groups: dict[tuple[str, float], list[Send]] = {}
    for send in sends:
        groups.setdefault((send[1], send[2]), []).append(send)
    return tuple(
        parcel
        for (stage, delay_s), group in groups.items()
        for parcel in _pack(stage, group, (claim.depth + 1 if stage == claim.stage else 0, delay_s), numbers)
    )


def _pack(
    stage: str, sends: Iterable[Send], where: tuple[int, float], numbers: Iterator[int] | None
) -> Iterator[Parcel]:
    pieces: list[bytes] = []
    keys: list[str | None] = []
    ends = array("I")
    size = 0

    def parcel() -> Parcel:
        named = tuple(keys) if any(key is not None for key in keys) else None
        return Parcel(stage, b"".join(pieces), ends, named, *where, next(numbers) if numbers else 0)

    for _, _, _, payload, key in sends:
        if pieces and (len(pieces) >= PARCEL_ITEMS_MAX or size + len(payload) > PARCEL_BYTES_MAX):
            yield parcel()
            pieces, keys, ends, size = [], [], array("I"), 0
        size += len(payload)
        pieces.append(payload)
        keys.append(key)
        ends.append(size)
    if pieces:
        yield parcel()
