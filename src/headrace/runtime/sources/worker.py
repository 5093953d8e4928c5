"""The worker of a source: poll → hold → handle → settle, for several items at a time.

    worker = SourceWorker(source, handle, SourceOptions(name="jobs"))
    await worker.run()          # until somebody calls worker.drain()

Everything it does may be cut off at any point: what it held comes back to others when its hold has passed, and nobody
has spent an attempt. A hold that could not be renewed ends its handler before it passes, and nothing more is written
for that item.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import count

from headrace.core.claims import CRASHES_MAX
from headrace.core.errors import CallerError, HandlersHang, HeadraceError
from headrace.core.sources import HeldItem, ItemCandidate
from headrace.ports.source import Source
from headrace.runtime.observe import Observer
from headrace.runtime.outages import Outages
from headrace.runtime.pacing import Pace, Pauses
from headrace.runtime.seams import Seams
from headrace.runtime.sources.calls import FAILING, SourceCalls
from headrace.runtime.sources.endings import Endings
from headrace.runtime.sources.handler_run import Answer, HandlerRun, SourceHandler
from headrace.runtime.sources.holds import Hold
from headrace.runtime.sources.options import SourceOptions
from headrace.runtime.sources.stock import Stock
from headrace.runtime.sources.turns import Turns
from headrace.runtime.watch import HUNG_MAX
from headrace.runtime.yard import Why

# Lost fences are remembered for as many items, so that one is not taken up again under the same hold.
FENCES_MAX = 1_024
WAIT_S_MIN = 0.01


class SourceWorker:
    """Runs one handler over one source; `run` is for one use. Any number of workers may share a source.

    Give each process one: a suspect is the only thing that its worker has started, but a second worker would not know.
    """

    crashes_max = CRASHES_MAX

    def __init__(
        self, source: Source, handler: SourceHandler, options: SourceOptions | None = None, seams: Seams | None = None
    ) -> None:
        self.options, self._seams = options or SourceOptions(), seams or Seams()
        self.id = self.options.id or self._seams.identity.new()
        self.observer = Observer(self.id)
        self._source, self._handler = source, handler
        self.calls = SourceCalls(source, self._seams, self.observer)
        self._pace = Pace(self._seams, self.observer)
        self._outages = Outages(self._seams.chance, self.observer, self.calls.now)
        self._endings = self.make_endings()
        self._stock = Stock(self._seams.chance, self.options.poll_s)
        self._turns = self.make_turns()
        self._numbers = count(1)
        # By key: items in hand, from before they are held until they are settled; None while the source is asked.
        self._in_hand: dict[str, Hold | None] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._hung: set[asyncio.Task[Answer]] = set()
        self._trying: str | None = None
        self._lost_fences: dict[str, int] = {}
        # The time that a poll has, while there is one.
        self._polling: asyncio.Timeout | None = None
        self._stopping = False
        self._failure: BaseException | None = None

    # For those who run it

    @property
    def in_progress(self) -> int:
        """How many places are taken, by items in hand and by handlers that do not end."""
        return len(self._in_hand) + len(self._hung)

    @property
    def hung(self) -> int:
        """How many handlers swallowed their cancellation and go on."""
        return len(self._hung)

    @property
    def handling_s_max(self) -> float:
        """How long a handler may hold the interpreter: after a hold time it has lost whatever it works for."""
        return self.options.hold_s

    def still_s(self) -> float:
        """For how long it has not got on, though it could; any thread may ask. Polls and renewals go on all the time,
        so a source that neither answers nor fails, or a loop that is stuck, shows here."""
        options = self.options
        patience_s = max(options.poll_s, options.hold_s)
        return max(0.0, self.calls.now() - self.calls.moved_at - patience_s)

    def drain(self) -> None:
        """Poll nothing more and let handlers end for `drain_s`; what has not ended then is given back. Then `run`
        returns, whether the source answers or not."""
        self._stock.clear()
        self._pace.drain()
        self._turns.tell()
        if self._polling is not None:
            self._polling.reschedule(asyncio.get_running_loop().time())

    def stop_now(self) -> None:
        """Cancel what runs and give it back; no attempt is spent. Then `run` returns."""
        self._stopping = True
        for hold in self._in_hand.values():
            if hold is not None:
                hold.interrupt(Why.STOP)
        self.drain()

    def renew_now(self, keys: Collection[str]) -> set[str]:
        """Renew the holds of these items at once: a source that has reason to refuse is heard. Those in hand."""
        found = {key: hold for key, hold in self._in_hand.items() if hold is not None and key in keys}
        for hold in found.values():
            hold.renew_now()
        return set(found)

    async def run(self) -> None:
        """Work until drained or stopped. Raises what made going on impossible."""
        self._pace.start()
        self.calls.moved_at = self.calls.now()
        unsubscribe = self._source.on_wake(self._ring)
        self.observer.event("worker.started", source=self.options.name)
        try:
            await self._take_for_ever()
            await self._serve_out()
        finally:
            unsubscribe()
            tasks = (*self._serving, *self._hung)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=self.options.grace_s)
            self.observer.event("worker.ended", counts=dict(self.observer.counts))
        if self._failure is not None:
            raise self._failure

    async def _serve_out(self) -> None:
        """Wait for what is in hand; after `drain_s` it is given back. A source that does not answer that either keeps
        nobody from the end: the holds pass by themselves."""
        if self._serving and not self._stopping:
            await asyncio.wait(self._serving, timeout=self.options.drain_s)
        self.stop_now()
        if self._serving:
            await asyncio.wait(self._serving, timeout=self.options.answer_s_max + self.options.grace_s)

    def _ring(self) -> None:
        """Items may be available; called from any thread."""
        self._stock.due = True
        self._pace.ring()

    def _fail(self, error: BaseException) -> None:
        """Going on is impossible: give back what is in hand, and let `run` raise this."""
        if self._failure is None:
            self._failure = error
            self.observer.event("worker.gave_up", error=type(error).__name__, detail=str(error))
        self.stop_now()

    # Taking items

    async def _take_for_ever(self) -> None:
        pace, stock = self._pace, self._stock
        while not pace.draining:
            pace.listen()
            room, now = self._room(), self.calls.now()
            candidate = stock.take(now) if room > 0 else None
            if candidate is not None:
                self._start(candidate)
            elif room > 0 and stock.polls_in_s(now) <= 0:
                await self._poll(room)
            else:
                await pace.rest(self._rest_s(room, now))

    def _room(self) -> int:
        """How many items may be taken now. Beside a suspect none; while an outage lasts none, and then one to try."""
        if self._turns.taken:
            return 0
        room = self.options.in_progress_max - self.in_progress
        breaker = self._outages.breaker(self._endings)
        if breaker.closed:
            return room
        if self._trying is not None or breaker.open_at(self.calls.now()):
            return 0
        return min(room, 1)

    def _rest_s(self, room: int, now: float) -> float:
        """Everything that makes room rings; what does not is the end of an outage's pause."""
        until_s = self._stock.polls_in_s(now) if room > 0 else self.options.poll_s
        opens_at = self._outages.next_at()
        return max(WAIT_S_MIN, until_s if opens_at is None else min(until_s, opens_at - now))

    async def _poll(self, room: int) -> None:
        count_max = self._stock.begin(room)
        try:
            async with asyncio.timeout(None) as self._polling:
                try:
                    polled = await self.calls.ask("poll", self._source.poll(count_max), self.options.hold_s)
                finally:
                    self._polling = None
        except TimeoutError:
            # Cut off by a drain.
            return
        except HeadraceError as error:
            if not error.heals:
                self._fail(error)
                return
            await self._pace.back_off(FAILING, error)
            return
        except Exception as error:  # an adapter's own fault ends this worker, and its items go back first
            self._fail(error)
            return
        self._pace.recovered()
        self._stock.fill(polled, count_max, self.calls.now())

    def _start(self, candidate: ItemCandidate) -> None:
        if candidate.key in self._in_hand:
            return
        self._in_hand[candidate.key] = None
        if not self._outages.breaker(self._endings).closed:
            self._trying = candidate.key
        task = asyncio.get_running_loop().create_task(self._serve(candidate))
        self._serving.add(task)
        task.add_done_callback(lambda done: self._served(candidate.key, done))

    def _served(self, key: str, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        del self._in_hand[key]
        if self._trying == key:
            self._trying = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        self._pace.ring()

    # One item

    async def _serve(self, candidate: ItemCandidate) -> None:
        """hold → handle → settle, with renewals beside."""
        hold = await self._hold(candidate)
        if hold is None:
            return
        self._in_hand[candidate.key] = hold
        self._stock.gained = True
        self._pace.ring()
        keeping = asyncio.get_running_loop().create_task(hold.keep(self.calls))
        try:
            await self._work(hold)
        finally:
            keeping.cancel()
            if hold.lost:
                self._remember(hold.held)

    async def _work(self, hold: Hold) -> None:
        if hold.held.crashes >= self.crashes_max:
            await self._endings.bury(hold)
            return
        began = not self._rests() and await self._turns.begin(hold, self.options.hold_s / 2)
        try:
            if hold.over():
                self._endings.lost(hold, hold.lost or "expired")
            elif not began or self._rests():
                await self._endings.give_back(hold)
            elif not hold.held.suspect or await self._endings.begin_alone(hold):
                await self._handle(hold)
        finally:
            self._turns.end(hold)

    def _rests(self) -> bool:
        """Whether nothing is to be started now: a drain, or an outage of what handlers need."""
        return self._pace.draining or self._outages.breaker(self._endings).open_at(self.calls.now())

    async def _handle(self, hold: Hold) -> None:
        self._outages.breaker(self._endings).begin(hold.number)
        run = self.make_run(hold)
        answer = await run.answer()
        if answer is Why.STOP:
            await self._endings.give_back(hold)
        elif answer is Why.LOST:
            await self.lost(hold, run)
        else:
            assert not isinstance(answer, Why), "a timeout is an answer"
            await self._endings.settle(hold, answer, run)

    async def lost(self, hold: Hold, run: HandlerRun) -> None:
        """The handler was stopped because the item is not ours any more: nothing is written."""
        self._endings.lost(hold, hold.lost or "expired")

    def make_endings(self) -> Endings:
        return Endings(self.calls, self.options, self._outages)

    def make_turns(self) -> Turns:
        return Turns(self.calls.now, lambda: self._pace.draining)

    def make_run(self, hold: Hold) -> HandlerRun:
        return HandlerRun(hold, self.calls, self._handler, self.options, self._give_up)

    def make_hold(self, held: HeldItem, asked_at: float) -> Hold:
        return Hold(held, next(self._numbers), asked_at, self._seams.clock, self.options)

    async def _hold(self, candidate: ItemCandidate) -> Hold | None:
        """Hold an item, counted from before the first request: which of several was carried out cannot be known."""
        calls, options, pauses = self.calls, self.options, Pauses(self._seams.chance)
        asked_at = calls.now()
        while True:
            try:
                call = self._source.hold(candidate, self.id, options.hold_s)
                held = await calls.ask(
                    "hold", call, options.answer_s_max, lambda: calls.now() >= asked_at + options.hold_s
                )
                break
            except CallerError as error:
                # What is wrong with this item no repeat heals, and the others must not suffer for it. It stays where it
                # is, and is told of at every poll that finds it.
                self.observer.event("hold.failed", key=candidate.key, error=type(error).__name__, detail=str(error))
                return None
            except HeadraceError as error:
                if not error.heals:
                    raise
                calls.failing("hold", error)
            await asyncio.sleep(pauses.next_s())
            if not self._source.features.holds_repeat or calls.now() - asked_at >= options.hold_s / 2:
                return None
        if held is None:
            self.observer.count("holds.missed", 1)
            return None
        hold = self.make_hold(held, asked_at)
        if self.is_stale(held):
            await self._endings.give_back(hold)
            return None
        return hold

    def is_stale(self, held: HeldItem) -> bool:
        """Whether this is a hold that was given up before, and is alive after all: the next one has a new fence."""
        return held.fence <= self._lost_fences.get(held.key, held.fence - 1)

    def _remember(self, held: HeldItem) -> None:
        self._lost_fences.pop(held.key, None)
        self._lost_fences[held.key] = held.fence
        if len(self._lost_fences) > FENCES_MAX:
            del self._lost_fences[next(iter(self._lost_fences))]

    def _give_up(self, task: asyncio.Task[Answer]) -> None:
        """A handler swallowed its cancellation: it keeps its place until it ends, so that there are never more at work
        than there may be. A worker with too many of them, or nothing else, drains and ends."""
        self._hung.add(task)
        task.add_done_callback(self._ended_late)
        self.observer.event("handler.hung", source=self.options.name, hung=self.hung)
        if self.hung >= min(HUNG_MAX, self.options.in_progress_max):
            hint = "only the end of the process ends them: start it again, and let no handler swallow its cancellation"
            words = f"{self.hung} handlers of {self.options.name!r} did not end after they were cancelled"
            self._failure = self._failure or HandlersHang(words, hint)
            self.drain()

    def _ended_late(self, task: asyncio.Task[Answer]) -> None:
        self._hung.discard(task)
        self._pace.ring()
