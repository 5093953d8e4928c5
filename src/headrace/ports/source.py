"""A source: work that lies in rows of a foreign contract, each held by a lease.

A worker walks one way: **poll → hold → (renew …) → settle**, or `give_back` in place of the last. Everything that is
written for an item between `hold` and `settle` is written under its hold, and a hold that was lost writes nothing.

- *Every call may be repeated as it is after a lost answer*, and a worker does repeat it. A broken connection is an
  error that heals (`Unreachable` if nothing was sent, `Unknown` if something may have been done); a refusal is a value.
- *A call may be cancelled at any await.* What became of it is then unknown, as after a lost answer.
- *Fences* of one item rise over all its holds ever. A call under an old fence changes nothing.
- *Expiry* is judged by the source. A worker counts a hold from before it asked, on its monotonic clock, and lets go
  before it ends; so clocks that differ cost time and never truth.
- *Nothing is lost*: an item whose hold has passed is a candidate again, by the poll itself or by a sweep that the
  source runs beside its workers. A lost hold spends no attempt.
- *Suspects*: an item whose hold was lost may be what killed its worker. It is answered as `suspect` (after
  `features.suspected_after` losses in a row), and the worker starts it only when nothing else is started in its
  process, after `begin_alone`. A hold that is lost behind that is a crash of the item. One with `CRASHES_MAX` of them
  is settled dead (`worker_lost`) and not started again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, Polled


@dataclass(frozen=True, slots=True)
class SourceFeatures:
    """What a source cannot do is said here, and the contract suite leaves out the tests that need it.

    `holds_repeat`: a repeated `hold` of a live holder gets the same hold again; without it the worker does not ask
    again after a lost answer, and the item waits for the hold to pass. `reports`: `report` keeps what it is given.
    `suspects`: lost holds are counted; without it an item that kills its worker is run again for ever. An item is
    suspected after so many losses in a row: more than one where a worker that is lost takes many long items with it,
    which would all have to wait for each other, and costs as many crashes more until the guilty one is found.
    """

    holds_repeat: bool = True
    reports: bool = True
    suspects: bool = True
    suspected_after: int = 1


class Source(Protocol):
    @property
    def features(self) -> SourceFeatures: ...

    async def poll(self, count_max: int) -> Polled:
        """See up to `count_max` items that wait and are due, most urgent first. Nothing is held by it.

        Items held by a live hold may be among them, and so may items that have just ended: a candidate is a hint. But
        what cannot be held may not hide the rest from all polls. Where rows lie in several places, begin at a random
        one, so that workers do not all see the same items first.
        """

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        """Hold an item for `hold_s`, under a fence above all before, and then read it: what a poll saw may be stale.

        None: it does not wait any more, is not due, or another worker holds it. It is None whenever a settlement has
        ended or moved the item since the poll, else it would run twice. `holder` names the worker; its own live hold of
        this item is answered again with the same fence, and lasts `hold_s` from then on: the worker counts from this
        request, and an earlier one may have been carried out long ago (`features.holds_repeat`; without it, None).
        """

    async def begin_alone(self, held: HeldItem) -> bool:
        """Record that a suspect is started now, and nothing beside it: if this hold is lost, that is a crash of the
        item. A hold that is lost before this charges nobody, one that is given back or settled neither. False as in
        `settle`; repeated likewise."""

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        """Hold on for another `hold_s` from now. False: the hold was lost or has ended; one that has passed is not
        revived."""

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        """End the hold: the item is done, waits again with its attempts, or is dead with its letter; all of it or
        nothing.

        False: the hold was lost, and nothing was written. A repeat of what was applied is True for as long as nobody
        has held the item since, and changes nothing. The item is no suspect any more, unless it died as one
        (`worker_lost`); its crashes are kept.
        """

    async def give_back(self, held: HeldItem) -> bool:
        """End the hold as if it had not been: the item waits at once, its attempts as they were, and a suspect is still
        one. False as in `settle`; repeated likewise."""

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        """Keep what the handler says of its progress, for people to see; the newest replaces the one before. False: the
        hold was lost, and nothing was written."""

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring`, from any thread, when items may have become available. The answer undoes it. Nothing depends on
        it: a worker polls anyway, and a source that cannot know never rings."""
