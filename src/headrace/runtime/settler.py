"""Settlements: whatever has ended since the last call goes to the store in the next one.

One call is under way at a time, so what ends meanwhile gathers and shares the next commit, and a claim never has two
steps under way. After an answer that was lost the same settlement is sent again, with the same step, for as long as the
claim may be ours; the account knows whether it has seen it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from headrace.core.claims import Settled, Settlement
from headrace.core.errors import Conflict, HeadraceError
from headrace.core.parcels import Parcel
from headrace.ports.store import Store
from headrace.runtime.claim_output import Send, parcels_of
from headrace.runtime.pacing import Pauses
from headrace.runtime.slices import Commit, Place, Slice
from headrace.runtime.verdicts import RecordedFailure, record
from headrace.runtime.yard import Yard

SETTLEMENTS_MAX = 64
BYTES_MAX = 8 * 1024 * 1024
PARCELS_AT_ONCE = 8


class Outage:
    """Waits out a store or a sink that does not answer."""

    __slots__ = ("_pauses", "_yard")

    def __init__(self, yard: Yard) -> None:
        self._yard, self._pauses = yard, Pauses(yard.seams.chance)

    async def wait(self, event: str, error: BaseException) -> None:
        self._yard.moved()
        self._yard.observer.event(event, error=type(error).__name__, detail=str(error))
        await asyncio.sleep(self._pauses.next_s())

    def reset(self) -> None:
        self._pauses.reset()


class Settler:
    """Sends settlements; `on_drop` is told of claims that turned out not to be ours any more."""

    def __init__(self, store: Store, yard: Yard, on_drop: Callable[[Slice, str], None]) -> None:
        self._store, self._yard, self._on_drop = store, yard, on_drop
        self._ready: dict[Slice, None] = {}
        self._news = asyncio.Event()
        self._staging: set[asyncio.Task[list[int]]] = set()
        self._outage = Outage(yard)

    def soon(self, work: Slice) -> None:
        """This slice has something to settle."""
        if not work.lost and not work.ended:
            self._ready[work] = None
            self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            batch = self._take()
            if not self._ready:
                self._news.clear()
            await self._settle([work for work in batch if self.ours(work)])

    def close(self) -> None:
        """Stage nothing more."""
        for task in self._staging:
            task.cancel()

    def _take(self) -> list[Slice]:
        """What goes into one call: one commit, bounded by count and by bytes."""
        batch: list[Slice] = []
        size = 0
        for work in self._ready:
            size += work.output.size
            if batch and (len(batch) == SETTLEMENTS_MAX or size > BYTES_MAX):
                break
            batch.append(work)
        for work in batch:
            del self._ready[work]
        return batch

    def ours(self, work: Slice) -> bool:
        """By our own clock, counted from before the last renewal was asked for."""
        if work.lost or work.ended:
            return False
        if self._yard.now() >= work.good_until:
            self._on_drop(work, "expired")
            return False
        return True

    async def _settle(self, batch: list[Slice]) -> None:
        """Send until every settlement has its answer or its claim is gone."""
        self._outage.reset()
        while batch:
            try:
                prepared = [(work, settlement) for work in batch if (settlement := await self._prepared(work))]
                answers = await self._store.settle([settlement for _, settlement in prepared]) if prepared else []
            except Exception as error:
                if isinstance(error, HeadraceError) and error.heals:
                    await self._outage.wait("store.failing", error)
                    batch = [work for work in batch if self.ours(work)]
                    continue
                await self._refused([work for work in batch if not work.lost], error)
                return
            for (work, _), answer in zip(prepared, answers, strict=True):
                self._answered(work, answer)
            return

    async def _prepared(self, work: Slice) -> Settlement | None:
        """The settlement of a slice. What it sends beyond a few parcels is staged first and only flipped by it."""
        if work.travelling:
            # Its settlement belongs to an open transaction; this slice is heard of again when that has ended.
            return None
        settlement = work.settlement()
        if len(settlement.sends) <= PARCELS_AT_ONCE:
            return settlement
        # The numbers are kept with the settlement: after a lost answer the same parcels are staged again.
        parcels = tuple(p if p.number else replace(p, number=next(work.numbers)) for p in settlement.sends)
        work.sent = replace(settlement, sends=parcels)
        for start in range(0, len(parcels), PARCELS_AT_ONCE):
            if not await self._store.send(work.fence, parcels[start : start + PARCELS_AT_ONCE]):
                self._on_drop(work, "lost")
                return None
        work.sent = replace(settlement, sends=(), flips=(*settlement.flips, *(p.number for p in parcels)))
        return work.sent

    async def _refused(self, batch: list[Slice], error: Exception) -> None:
        """An error that repeating cannot heal: find the settlement that causes it, and drop that claim alone."""
        if len(batch) != 1:
            for work in batch:
                if self.ours(work):
                    await self._settle([work])
            return
        self._yard.observer.event("settle.failed", error=type(error).__name__, detail=str(error))
        self._on_drop(batch[0], "unsettleable")

    def _answered(self, work: Slice, answer: Settled) -> None:
        self._yard.moved()
        if not answer.accepted:
            self._not_accepted(work, answer)
            return
        sent = work.accepted(self._yard.now())
        observer = self._yard.observer
        observer.count("items.done", sent.done.bit_count())
        claim = work.claim
        for loss in sent.dead:
            observer.event(
                "item.settled",
                job=claim.job,
                stage=claim.stage,
                seq=claim.seqs[loss.index],
                state="dead",
                reason=loss.reason,
                rule=loss.rule,
                attempt=loss.attempts,
            )
        observer.count("items.again", len(sent.again))
        if sent.sends or sent.flips or sent.again:
            self._yard.ring()
        if sent.end:
            self._yard.let_go(work)
        elif work.over or work.commits:
            # What ended while the call was under way.
            self.soon(work)
        self._yard.tell()

    def applied(self, work: Slice) -> None:
        """The open transaction in which a settlement of this slice travelled was committed."""
        self._answered(work, Settled(work.fence, True))
        if work.has_news():
            self.soon(work)

    def drop(self, work: Slice, reason: str) -> None:
        """The claim turned out not to be ours."""
        self._on_drop(work, reason)

    def _not_accepted(self, work: Slice, answer: Settled) -> None:
        """A claim that is lost is dropped. If single items are the reason, they have failed and the rest goes again."""
        reason, _, stage = answer.reason.partition(":")
        faults = dict(answer.faults)
        if stage and reason in ("sealed", "unknown"):
            words = f"the stage {stage!r} takes no items in this job: {reason}"
            faults = dict.fromkeys(work.sent_output.senders_to(stage), words)
        in_commit = bool(stage) and work.sent_commit is not None and not faults
        if not faults and not in_commit:
            self._on_drop(work, answer.reason)
            return
        work.refused(frozenset(faults), Conflict(f"the store refused what was sent: {answer.reason}"))
        for index, words in faults.items():
            record(work, index, RecordedFailure(words), self._yard)
        self.soon(work)

    async def commit(self, place: Place, cursor: bytes | None, sends: list[Send], flips: list[int]) -> None:
        work = place.slice
        if work is None or work.lost:
            raise Conflict("the claim was lost")
        parcels = parcels_of(work.claim, sends)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work.commits.append(Commit(place.index, cursor, parcels, tuple(flips), answer))
        self.soon(work)
        await answer
        place.commits += 1

    def stage_ahead(self, work: Slice, sends: list[Send]) -> Awaitable[list[int]]:
        parcels = parcels_of(work.claim, sends, work.numbers)
        task = asyncio.get_running_loop().create_task(self._stage(work, parcels))
        # A handler that fails forgets what it staged; somebody must hold the task and hear how it ended.
        self._staging.add(task)
        task.add_done_callback(self._staged)
        return task

    def _staged(self, task: asyncio.Task[list[int]]) -> None:
        self._staging.discard(task)
        if not task.cancelled():
            task.exception()

    async def _stage(self, work: Slice, parcels: Sequence[Parcel]) -> list[int]:
        outage = Outage(self._yard)
        while True:
            if not self.ours(work):
                raise Conflict("the claim was lost")
            try:
                kept = await self._store.send(work.fence, parcels)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await outage.wait("store.failing", error)
                continue
            if not kept:
                self._on_drop(work, "lost")
                raise Conflict("the claim was lost")
            return [parcel.number for parcel in parcels]
