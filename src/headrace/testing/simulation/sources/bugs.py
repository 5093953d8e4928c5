"""Planted bugs: every guard of a source and of its worker has a broken twin here, and the seeds must notice each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from headrace.core.outcomes import Retry
from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, Polled
from headrace.runtime.fenced import Fenced
from headrace.runtime.sources.endings import Endings
from headrace.runtime.sources.handler_run import Answer, HandlerRun
from headrace.runtime.sources.holds import Hold
from headrace.runtime.sources.turns import Turns
from headrace.runtime.sources.worker import SourceWorker
from headrace.testing.memory_source import MemorySource, SourceRow
from headrace.testing.simulation.sources.world import SourceParts

FAR = 1e9


class SettlesUnfenced(MemorySource):
    """Takes a settlement from whoever held the item once."""

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        row = self.rows[held.key]
        row.fence, row.holder, row.until = held.fence, row.holder or "late", FAR
        return await super().settle(held, settlement)


class HoldsUnread(MemorySource):
    """Believes the poll: what was seen waiting is held and run, also if it has ended since."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        self.rows[candidate.key].state = None
        return await super().hold(candidate, holder, hold_s)


class ShowsHeld(MemorySource):
    """Shows what somebody holds as if it waited, and no more than was asked for."""

    async def poll(self, count_max: int) -> Polled:
        wall = self._clock.wall()
        due = sorted((row.due_at, key) for key, row in self.rows.items() if row.state is None and row.due_at <= wall)
        return Polled(tuple(ItemCandidate(key) for _, key in due[:count_max]))


class GivesBackToNobody(MemorySource):
    """Ends the hold of what is given back, and forgets to let it wait again."""

    async def give_back(self, held: HeldItem) -> bool:
        given = await super().give_back(held)
        if given:
            self.rows[held.key].due_at = float("inf")
        return given


class ChargesGivenBack(MemorySource):
    """Counts what was given back as an attempt."""

    def _end(self, row: SourceRow, held: HeldItem, settlement: ItemSettlement | None) -> None:
        row.attempts += settlement is None
        super()._end(row, held, settlement)


class ChargesLostHolds(MemorySource):
    """Counts a hold that has passed as an attempt."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        row = self.rows[candidate.key]
        if row.holder and not self._is_held(row, self._clock.monotonic()):
            row.attempts += 1
        return await super().hold(candidate, holder, hold_s)


class FencesAnew(MemorySource):
    """Counts the fences of an item from 1 again after its hold has ended."""

    def _end(self, row: SourceRow, held: HeldItem, settlement: ItemSettlement | None) -> None:
        super()._end(row, held, settlement)
        row.fence = 0


class RevivesHolds(MemorySource):
    """Renews a hold that has passed, as long as no other worker has the item."""

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        row = self.rows[held.key]
        if row.holder and row.fence == held.fence:
            row.until = FAR
        return await super().renew(held, hold_s)


class ForgetsLosses(MemorySource):
    """Takes an item whose hold has passed for one that was never held."""

    def _lose(self, row: SourceRow) -> None:
        row.alone = False


class ForgetsCrashes(MemorySource):
    """Knows suspects, and not how often they were alone."""

    def _lose(self, row: SourceRow) -> None:
        row.alone = False
        super()._lose(row)


class ChargesEveryLoss(MemorySource):
    """Takes each lost hold for the item's own fault, whoever ran beside it."""

    def _lose(self, row: SourceRow) -> None:
        row.alone = True
        super()._lose(row)


class AcquitsGivenBack(MemorySource):
    """A suspect that is given back is none any more."""

    async def give_back(self, held: HeldItem) -> bool:
        given = await super().give_back(held)
        if given:
            self.rows[held.key].suspect = False
        return given


class BeginsUnfenced(MemorySource):
    """Believes whoever says that the item runs alone."""

    async def begin_alone(self, held: HeldItem) -> bool:
        self.rows[held.key].alone = True
        return True


class NeverLost(Hold):
    """A hold whose holder does not look at the clock."""

    __slots__ = ()

    @property
    def drop_at(self) -> float:
        return FAR

    @property
    def left_s(self) -> float:
        return self._options.hold_s

    def over(self) -> bool:
        return False

    def lose(self, reason: str) -> None:
        """Goes on."""


class CountsFromTheAnswer(Hold):
    """A renewal is taken to be good from when its answer came."""

    __slots__ = ()

    def granted_until(self, asked_at: float) -> float:
        return self._clock.monotonic() + self._options.hold_s


class TimersOnly(HandlerRun):
    """Trusts that the timer comes before the handler's next step."""

    def fenced(self, call: Coroutine[Any, Any, Answer]) -> Coroutine[Any, Any, Answer]:
        return Fenced(call, lambda: False)


class AllAtOnce(Turns):
    """Starts suspects beside others."""

    def may_start(self, hold: Hold) -> bool:
        return True


class TurnsForEver(Turns):
    """A suspect that has ended keeps its turn."""

    def end(self, hold: Hold) -> None:
        self._started.discard(hold.number)
        self.tell()


class SilentEndings(Endings):
    """Starts suspects without a word."""

    async def begin_alone(self, hold: Hold) -> bool:
        return True


class StartsBeside(SourceWorker):
    """Does not isolate suspects."""

    def make_turns(self) -> Turns:
        return AllAtOnce(self.calls.now, lambda: False)


class WaitsForEver(SourceWorker):
    """Isolates a suspect that is gone."""

    def make_turns(self) -> Turns:
        return TurnsForEver(self.calls.now, lambda: self._pace.draining)


class StartsUnsaid(SourceWorker):
    """Isolates suspects and does not tell the source."""

    def make_endings(self) -> Endings:
        return SilentEndings(self.calls, self.options, self._outages)


class RunsTheCondemned(SourceWorker):
    """Starts an item however often it was lost alone."""

    crashes_max = 1_000


class FencesNothing(SourceWorker):
    """Does not fence itself."""

    def make_hold(self, held: HeldItem, asked_at: float) -> Hold:
        return NeverLost(held, next(self._numbers), asked_at, self._seams.clock, self.options)


class TrustsAnswers(SourceWorker):
    """Counts renewals from their answers."""

    def make_hold(self, held: HeldItem, asked_at: float) -> Hold:
        return CountsFromTheAnswer(held, next(self._numbers), asked_at, self._seams.clock, self.options)


class TrustsGrants(SourceWorker):
    """Counts holds from their answers."""

    def make_hold(self, held: HeldItem, asked_at: float) -> Hold:
        return super().make_hold(held, self.calls.now())


class TrustsTimers(SourceWorker):
    """Leaves self-fencing to timers."""

    def make_run(self, hold: Hold) -> HandlerRun:
        return TimersOnly(hold, self.calls, self._handler, self.options, self._give_up)


class ChargesLost(SourceWorker):
    """Takes a lost hold for a failed attempt, and says so while there is time."""

    async def lost(self, hold: Hold, run: HandlerRun) -> None:
        hold.lost = ""
        await self._endings.settle(hold, Retry("the hold was lost"), run)


class DeafAfterErrors(SourceWorker):
    """Polls no more after the first poll that failed."""

    async def _poll(self, room: int) -> None:
        await super()._poll(room)
        if self.observer.counts["source.failing"]:
            await asyncio.Event().wait()


class ForgetsPlaces(SourceWorker):
    """Keeps the place of an item whose hold was lost."""

    def _served(self, key: str, task: asyncio.Task[None]) -> None:
        super()._served(key, task)
        if self.observer.counts["hold.lost"]:
            self._in_hand[f"lost {key}"] = None


@dataclass(frozen=True, slots=True)
class SourceBug:
    """What was broken, in words, and the parts that break it."""

    what: str
    parts: SourceParts


SOURCE_BUGS: dict[str, SourceBug] = {
    "settles_unfenced": SourceBug("a settlement is accepted under an old fence", SourceParts(SettlesUnfenced)),
    "holds_unread": SourceBug("a stale candidate runs again", SourceParts(HoldsUnread)),
    "held_shown": SourceBug("what somebody holds hides the rest", SourceParts(ShowsHeld)),
    "give_back_lost": SourceBug("what is given back waits for nobody", SourceParts(GivesBackToNobody)),
    "give_back_charged": SourceBug("a drain spends an attempt", SourceParts(ChargesGivenBack)),
    "crash_charged": SourceBug("a crash spends an attempt", SourceParts(ChargesLostHolds)),
    "fences_anew": SourceBug("a fence is not above those before", SourceParts(FencesAnew)),
    "holds_revived": SourceBug("a hold that has passed is renewed", SourceParts(RevivesHolds)),
    "losses_forgotten": SourceBug("an item of a lost hold is no suspect", SourceParts(ForgetsLosses)),
    "crashes_forgotten": SourceBug("a lone crash is not counted", SourceParts(ForgetsCrashes)),
    "losses_charged": SourceBug("a loss in company is a crash of the item", SourceParts(ChargesEveryLoss)),
    "given_back_acquitted": SourceBug("what is given back is no suspect", SourceParts(AcquitsGivenBack)),
    "alone_unfenced": SourceBug("a late holder says that it runs alone", SourceParts(BeginsUnfenced)),
    "suspects_beside": SourceBug("a suspect is started beside others", SourceParts(worker=StartsBeside)),
    "suspects_unsaid": SourceBug("a suspect is started without a word", SourceParts(worker=StartsUnsaid)),
    "condemned_run": SourceBug("an item that kills its worker runs for ever", SourceParts(worker=RunsTheCondemned)),
    "turn_kept": SourceBug("a suspect that is gone keeps its turn", SourceParts(worker=WaitsForEver)),
    "no_self_fence": SourceBug("a handler goes on without its hold", SourceParts(worker=FencesNothing)),
    "renewal_from_answer": SourceBug("a renewal counts from its answer", SourceParts(worker=TrustsAnswers)),
    "hold_from_answer": SourceBug("a hold counts from its answer", SourceParts(worker=TrustsGrants)),
    "timers_only": SourceBug("a step comes before the timer", SourceParts(worker=TrustsTimers)),
    "lost_hold_charged": SourceBug("a lost hold spends an attempt", SourceParts(worker=ChargesLost)),
    "deaf_after_errors": SourceBug("a worker polls no more after an error", SourceParts(worker=DeafAfterErrors)),
    "places_forgotten": SourceBug("lost holds keep their places", SourceParts(worker=ForgetsPlaces)),
}
