"""The lanes of one stage and the slices they work on.

How much is claimed fits the work: a stage starts with one item per lane; what it can do in half a second is claimed
ahead, at most twice as much as before; what it will not reach within a second goes back to those who can.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from headrace.core.claims import Want
from headrace.core.parcels import PARCEL_ITEMS_MAX
from headrace.runtime.context import Streams
from headrace.runtime.flow import Stage
from headrace.runtime.judgement import HandlerTimeout
from headrace.runtime.lanes import ItemLane, Lane
from headrace.runtime.slices import Place, Slice
from headrace.runtime.verdicts import record
from headrace.runtime.yard import Why, Yard

Revoke = Callable[[Sequence[int]], Awaitable[None]]
AHEAD_S = 0.5
REACH_S = 1.0
SIZE_MAX = 16_384
BUFFER_BYTES_MAX = 32 * 1024 * 1024


class Crew:
    """One stage of one worker, with a handler of one item."""

    def __init__(self, stage: Stage, stages: Mapping[str, Stage], yard: Yard, streams: Streams) -> None:
        self.stage, self.stages, self.yard, self.streams = stage, stages, yard, streams
        self.queue: deque[Slice] = deque()
        self.lanes: set[Lane] = set()
        # Given up, because their handlers did not end when they were cancelled, and still at work.
        self._abandoned: set[Lane] = set()
        self._resting: list[asyncio.Future[None]] = []
        self._size = stage.concurrency * stage.batch
        self._pace: float | None = None
        self._item_bytes = 0.0
        self._moved_at = 0.0
        self.breaker = yard.outages.breaker(stage)
        self.breaker.on_open = self._hold_back

    @property
    def revokers(self) -> list[Revoke]:
        """Who must hear of lost claims before an item of theirs runs again."""
        return [sink.revoke for sink in self.stage.sinks]

    @property
    def busy(self) -> int:
        """How many lanes run a handler, or wait for the thread of one that was given up."""
        return sum(lane.handling or lane.waiting for lane in self.lanes)

    @property
    def hung(self) -> int:
        """How many threads did not end in the time that their handlers had."""
        return sum(lane.hung for lane in self.lanes)

    @property
    def abandoned(self) -> int:
        """How many handlers on the event loop swallowed their cancellation and go on, beside the lanes."""
        return len(self._abandoned)

    @property
    def unstarted(self) -> int:
        return sum(work.unstarted for work in self.queue)

    def want(self, held: int) -> Want | None:
        """How much to claim now, while so many items are held; None if there is enough."""
        stage = self.stage
        if not self.breaker.closed:
            tried = self.breaker.trial in self.yard.held
            return None if tried or self.breaker.open_at(self.yard.now()) else Want(stage.flow, stage.name, 1, 1)
        free = stage.concurrency - self.busy
        ahead = int(self._pace * AHEAD_S) if self._pace is not None else 0
        target = min(self._size, free * stage.batch + ahead)
        if self._item_bytes:
            target = min(target, max(1, int(BUFFER_BYTES_MAX / self._item_bytes)))
        unstarted = self.unstarted
        room = min(target - unstarted, 4 * self._size - held)
        if room <= 0 or self._enough(unstarted, target):
            return None
        return Want(stage.flow, stage.name, room, min(room, PARCEL_ITEMS_MAX))

    def _enough(self, unstarted: int, target: int) -> bool:
        return unstarted * 2 > target

    def accept(self, work: Slice) -> None:
        """Take up a slice that was claimed for this stage."""
        self._item_bytes += (len(work.claim.payload) / work.claim.count - self._item_bytes) / 8
        work.on_idle = self._idle
        if self.breaker.open_at(self.yard.now()):
            # It was on its way when the outage began.
            self._release(work)
            return
        self.breaker.begin(work.fence)
        if not self.queue:
            self._moved_at = self.yard.now()
        self.queue.append(work)
        self.wake()

    def _idle(self, work: Slice) -> None:
        """A slice that nobody works on any more ends. Its settlement may be a while on the way, and needs no items."""
        if work.started_at is not None and work.next and not work.claim.alone:
            self._learn(work.next / max(self.yard.now() - work.started_at, 1e-6))
        work.items = []
        self.streams.soon(work)

    def _learn(self, pace: float) -> None:
        """Items a second, as the last slice did them."""
        self._pace = pace
        least = self.stage.concurrency * self.stage.batch
        self._size = max(least, min(2 * self._size, int(pace * AHEAD_S), SIZE_MAX))

    def _hold_back(self) -> None:
        """What the handlers need does not answer: what they have not begun waits where everybody can have it."""
        self._pace, self._size = None, self.stage.concurrency * self.stage.batch
        self.release()

    def release(self) -> None:
        """Start nothing more: everything unstarted goes back."""
        queue, self.queue = self.queue, deque()
        for work in queue:
            self._release(work)

    def _release(self, work: Slice) -> None:
        """The rest of a slice goes back now, also while one of its items still runs."""
        work.release()
        if not work.idle:
            self.streams.soon(work)

    def release_unreachable(self, now: float) -> None:
        """Give back what will not be reached soon: slices at the end of the queue, or all if nothing moves."""
        if not self.queue:
            return
        reach_s = REACH_S + self.stage.batch_wait_s
        least = self.stage.concurrency * self.stage.batch
        if now - self._moved_at > reach_s:
            self._pace, self._size = None, least
            self.release()
            return
        reachable = max(least, self._pace * reach_s) if self._pace is not None else least
        while len(self.queue) > 1 and self.unstarted - self.queue[-1].unstarted >= reachable:
            self._release(self.queue.pop())

    def next_slice(self) -> Slice | None:
        while self.queue:
            work = self.queue[0]
            if work.unstarted:
                self._moved_at = self.yard.now()
                return work
            self.queue.popleft()
            self.yard.bell.set()
        return None

    def left(self, work: Slice) -> None:
        """A lane has no more to do in a slice."""
        self._moved_at = self.yard.now()
        if not self.breaker.closed:
            self.yard.outages.passed(self.stage, work.fence)
        if self.queue and self.queue[0] is work and not work.unstarted:
            self.queue.popleft()
        self.yard.bell.set()
        work.leave()

    def wake(self) -> None:
        """One lane more. Each wakes the next as it finds work, so a slice that one lane can eat wakes no crowd."""
        if not self._has_work() or len(self.lanes) - len(self._resting) >= self.stage.concurrency:
            return
        while self._resting:
            rest = self._resting.pop()
            if not rest.done():
                rest.set_result(None)
                return
        if len(self.lanes) < self.stage.concurrency:
            lane = self._new_lane()
            self._start(lane, lane.run())

    def _has_work(self) -> bool:
        return any(work.unstarted for work in self.queue)

    def _new_lane(self) -> Lane:
        return self._item_lane()

    def _item_lane(self) -> ItemLane:
        return ItemLane(self)

    def start_alone(self, work: Slice) -> None:
        """Start the next item of a slice in a lane of its own: if it never ends, only that lane is lost."""
        work.stop = work.next + 1
        lane = self._item_lane()
        self._start(lane, lane.once(lane.work(work)))

    def _start(self, lane: Lane, work: Coroutine[Any, Any, None]) -> None:
        self.lanes.add(lane)
        lane.task = asyncio.get_running_loop().create_task(work)
        lane.task.add_done_callback(lambda task: self._lane_ended(lane, task))

    def _lane_ended(self, lane: Lane, task: asyncio.Task[None]) -> None:
        self.lanes.discard(lane)
        self._abandoned.discard(lane)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.yard.fail(error)

    async def rest(self) -> None:
        rest = asyncio.get_running_loop().create_future()
        self._resting.append(rest)
        await rest

    def interrupt(self, why: Why, work: Slice | None = None) -> None:
        """Cancel the handlers that run, or those that run for one slice."""
        for lane in self.lanes:
            batch = lane.place.batch
            if work is None or lane.place.slice is work or (batch and any(home is work for home, _ in batch.spots)):
                lane.interrupt(why)

    def watch(self, now: float) -> None:
        """Time out what takes too long, and give up lanes whose handler does not end when it is cancelled."""
        for lane in list(self.lanes):
            if lane.waiting and not lane.hung and now - lane.since >= self.stage.timeout_s + self.yard.options.grace_s:
                self._count_hung(lane)
            if not lane.handling or lane.settling:
                continue
            if lane.why is not None:
                if now - lane.interrupted_at >= self.yard.options.grace_s:
                    self._abandon(lane)
            elif lane.mark != lane.seen:
                lane.seen, lane.since = lane.mark, now
            elif now - lane.since >= self.stage.timeout_s:
                lane.interrupt(Why.TIMEOUT)

    def _count_hung(self, lane: Lane) -> None:
        lane.hung, stage = True, self.stage
        self.yard.observer.event(
            "thread.hung", flow=stage.flow, stage=stage.name, hung=self.hung, concurrency=stage.concurrency
        )

    def _abandon(self, lane: Lane) -> None:
        """Go on without a handler that does not end."""
        lane.abandon()
        self.lanes.discard(lane)
        self._abandoned.add(lane)
        self.yard.observer.event("lane.abandoned", flow=self.stage.flow, stage=self.stage.name)
        timed_out = lane.why is Why.TIMEOUT
        words = f"no outcome after {self.stage.timeout_s:g} s, and it did not end when it was cancelled"
        self._conclude(lane.place, HandlerTimeout(words) if timed_out else None)
        self.wake()

    def _conclude(self, place: Place, error: HandlerTimeout | None) -> None:
        """Note how the item of a lane that was given up ended: with an error, or without an outcome."""
        work, index = place.slice, place.index
        assert work is not None, "a lane that handles is in a slice"
        if error is not None and not work.lost:
            record(work, index, error, self.yard)
        else:
            work.forgo(index)
        work.lanes.discard(place)
        self.left(work)
