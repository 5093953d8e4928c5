"""The crew of a list handler: batches of one job, over as many claims as it takes.

A list that fails is put back as two halves, for any lane to run. So only an item that fails alone spends an attempt,
and a list whose handler never ends loses its lane and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from headrace.core.bits import of, ones
from headrace.runtime.context import Streams
from headrace.runtime.crew import Crew
from headrace.runtime.flow import Stage
from headrace.runtime.judgement import NOT_DONE, HandlerTimeout
from headrace.runtime.lanes import OUTPUT_BYTES_DUE, Lane, ListLane
from headrace.runtime.slices import Place, Slice, Spots
from headrace.runtime.verdicts import open_slice, record
from headrace.runtime.yard import Why, Yard


class ListCrew(Crew):
    """One stage of one worker, with a handler of a list."""

    def __init__(self, stage: Stage, stages: Mapping[str, Stage], yard: Yard, streams: Streams) -> None:
        super().__init__(stage, stages, yard, streams)
        self._redo: deque[Spots] = deque()
        self._ripening: asyncio.TimerHandle | None = None

    def _enough(self, unstarted: int, target: int) -> bool:
        return unstarted >= target

    def _has_work(self) -> bool:
        return bool(self._redo) or super()._has_work()

    def _new_lane(self) -> Lane:
        return self._list_lane()

    def _list_lane(self) -> ListLane:
        return ListLane(self)

    def start_alone(self, work: Slice) -> None:
        open_slice(work, self.yard)
        index = work.next
        work.next = work.stop = index + 1
        if index not in work.wrong:
            work.busy = 1 << index
            lane = self._list_lane()
            self._start(lane, lane.once(lane.handle([(work, index)])))

    def interrupt(self, why: Why, work: Slice | None = None) -> None:
        super().interrupt(why, work)
        while why is Why.STOP and self._redo:
            self.forgo(self._redo.popleft())

    def _conclude(self, place: Place, error: HandlerTimeout | None) -> None:
        assert place.batch is not None, "a lane that handles has a batch"
        if error is not None:
            self.fail(place.batch.spots, error)
        else:
            self.forgo(place.batch.spots)

    def next_batch(self) -> Spots | None:
        """Items for one call: all of one job, over as many claims as it takes."""
        while self._redo:
            # Items of a claim that was lost meanwhile are somebody else's.
            if spots := [spot for spot in self._redo.popleft() if not spot[0].lost]:
                return spots
        now = self.yard.now()
        groups: dict[tuple[str, int], list[Slice]] = {}
        for work in self.queue:
            if work.unstarted:
                groups.setdefault((work.claim.job, work.claim.generation), []).append(work)
        ripe_at: float | None = None
        for works in groups.values():
            due_at = min(work.arrived_at for work in works) + self.stage.batch_wait_s
            if sum(work.unstarted for work in works) >= self.stage.batch or now >= due_at:
                return self._take(works, now) or self.next_batch()
            ripe_at = due_at if ripe_at is None else min(ripe_at, due_at)
        if ripe_at is not None:
            self._wake_at(ripe_at - now)
        return None

    def _take(self, works: list[Slice], now: float) -> Spots:
        spots: Spots = []
        self._moved_at = now
        for work in works:
            open_slice(work, self.yard)
            hi = min(work.stop, work.next + self.stage.batch - len(spots))
            spots.extend((work, index) for index in range(work.next, hi) if index not in work.wrong)
            work.busy |= ones(hi) & ~ones(work.next) & ~of(work.wrong)
            work.next = hi
            work.leave()
        self.queue = deque(work for work in self.queue if work.unstarted)
        self.yard.bell.set()
        return spots

    def _wake_at(self, delay_s: float) -> None:
        if self._ripening is None:
            self._ripening = asyncio.get_running_loop().call_later(max(delay_s, 0.0), self._ripe)

    def _ripe(self) -> None:
        self._ripening = None
        self.wake()

    def judge(self, spots: Spots, answers: list[Any] | None) -> set[tuple[Slice, int]]:
        """A list call went through: all done, or one outcome per item. Those that are not done."""
        not_done = {spot: answer for spot, answer in zip(spots, answers or (), strict=False) if _is_outcome(answer)}
        for (work, index), answer in not_done.items():
            if not work.lost:
                record(work, index, answer, self.yard)
        return set(not_done)

    def fail(self, spots: Spots, error: BaseException) -> None:
        """A list call raised: try its halves. Only an item that fails alone spends an attempt. In an outage halves are
        no better off."""
        if len(spots) == 1 or self.yard.outages.found_in(error, self.stage.retry) is not None:
            for work, index in spots:
                if not work.lost:
                    record(work, index, error, self.yard)
            self.free(spots)
        elif self.yard.stopping:
            self.forgo(spots)
        else:
            middle = len(spots) // 2
            self._redo.extend((spots[:middle], spots[middle:]))
            self.wake()

    def rerun(self, spots: Spots) -> None:
        """Nobody is to blame that a call came to nothing: its items run again, those that are still ours."""
        if self.yard.stopping:
            self.forgo(spots)
        elif spots:
            self._redo.append(spots)
            self.wake()

    def forgo(self, spots: Spots) -> None:
        for work, index in spots:
            work.forgo(index)
        self.free(spots)

    def free(self, spots: Spots) -> None:
        works = {id(work): work for work, _ in spots}
        for work, index in spots:
            work.busy &= ~(1 << index)
        for work in works.values():
            if work.output.size > OUTPUT_BYTES_DUE:
                self.streams.soon(work)
            self.left(work)


def _is_outcome(answer: object) -> bool:
    return isinstance(answer, NOT_DONE)
