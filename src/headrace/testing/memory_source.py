"""A source in memory: the contract in its shortest form, for tests and for the simulator.

It is one dictionary of rows, and every call is one step of the event loop: nothing can come between a check and the
write that it protects. Real sources need a compare-and-set in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.claims import Loss
from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled, is_worker_lost
from headrace.ports.seams import Clock
from headrace.ports.source import SourceFeatures


@dataclass(slots=True)
class SourceRow:
    """One item. `state` is None while it waits or is held; `until` is when its hold passes, by the source's clock.
    `alone`: it was begun alone under its last hold."""

    payload: Any
    due_at: float = 0.0
    attempts: int = 0
    attempts_max: int | None = None
    timeout_s: float | None = None
    rank: int = 0
    state: ItemState | None = None
    fence: int = 0
    holder: str = ""
    until: float = 0.0
    suspect: bool = False
    alone: bool = False
    crashes: int = 0
    settled: tuple[int, ItemSettlement | None] | None = field(default=None, repr=False)
    failure: Loss | None = None
    result: Any = None
    progress: Mapping[str, object] | None = None


class MemorySource:
    """Rows by key. `clock` is the source's one clock; any number of workers may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rings: list[Callable[[], None]] = []
        self.rows: dict[str, SourceRow] = {}
        self.features = SourceFeatures()

    def add(self, key: str, payload: Any = None, **row: Any) -> None:
        """An item that waits; further values as in `SourceRow`."""
        self.rows[key] = SourceRow(payload, **row)
        self._ring()

    def occupy(self, key: str) -> None:
        """Let somebody hold an item who never lets it go."""
        row = self.rows[key]
        row.fence, row.holder, row.until = row.fence + 1, "somebody", float("inf")

    async def poll(self, count_max: int) -> Polled:
        now, wall = self._clock.monotonic(), self._clock.wall()
        open_rows = [(key, row) for key, row in self.rows.items() if row.state is None]
        free = [(key, row) for key, row in open_rows if not self._is_held(row, now)]
        due = sorted((row.rank, row.due_at, key) for key, row in free if row.due_at <= wall)
        waits = [row.due_at - wall for _, row in free if row.due_at > wall]
        seen = tuple(ItemCandidate(key, rank=rank) for rank, _, key in due[:count_max])
        return Polled(seen, min(waits, default=None))

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        now, row = self._clock.monotonic(), self.rows.get(candidate.key)
        if row is None or row.state is not None:
            return None
        if self._is_held(row, now):
            if row.holder != holder:
                return None
            row.until = max(row.until, now + hold_s)
            return self._held(candidate.key, row)
        if row.due_at > self._clock.wall():
            return None
        if row.holder:
            # Nobody has ended the last hold: it has passed.
            self._lose(row)
        row.fence, row.holder, row.until = row.fence + 1, holder, now + hold_s
        return self._held(candidate.key, row)

    async def begin_alone(self, held: HeldItem) -> bool:
        row = self._under(held)
        if row is not None:
            row.alone = True
        return row is not None

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        row = self._under(held)
        if row is not None:
            row.until = self._clock.monotonic() + hold_s
        return row is not None

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        if self._repeated(held, settlement):
            return True
        row = self._under(held)
        if row is None:
            return False
        row.attempts, row.failure, row.result = settlement.attempts, settlement.failure, settlement.result
        row.state = None if settlement.state is ItemState.AGAIN else settlement.state
        row.due_at = settlement.due_at
        row.suspect = row.suspect and is_worker_lost(settlement)
        self._end(row, held, settlement)
        return True

    async def give_back(self, held: HeldItem) -> bool:
        if self._repeated(held, None):
            return True
        row = self._under(held)
        if row is None:
            return False
        self._end(row, held, None)
        return True

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        row = self._under(held)
        if row is not None:
            row.progress = progress
        return row is not None

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        self._rings.append(ring)
        return lambda: self._rings.remove(ring)

    def _under(self, held: HeldItem) -> SourceRow | None:
        """The row, if this hold of it is alive."""
        row = self.rows.get(held.key)
        alive = row is not None and row.fence == held.fence and self._is_held(row, self._clock.monotonic())
        return row if alive else None

    def _is_held(self, row: SourceRow, now: float) -> bool:
        return bool(row.holder) and now < row.until

    def _repeated(self, held: HeldItem, settlement: ItemSettlement | None) -> bool:
        """Whether the last hold of the item, which was this one, ended just so."""
        row = self.rows.get(held.key)
        return row is not None and row.fence == held.fence and row.settled == (held.fence, settlement)

    def _end(self, row: SourceRow, held: HeldItem, settlement: ItemSettlement | None) -> None:
        row.holder, row.until, row.alone, row.settled = "", 0.0, False, (held.fence, settlement)
        if row.state is None:
            self._ring()

    def _lose(self, row: SourceRow) -> None:
        row.suspect, row.crashes, row.alone = True, row.crashes + row.alone, False

    def _held(self, key: str, row: SourceRow) -> HeldItem:
        limits = (row.attempts_max, row.timeout_s)
        return HeldItem(key, row.payload, row.fence, row.attempts, *limits, row.suspect, row.crashes)

    def _ring(self) -> None:
        for ring in tuple(self._rings):
            ring()
