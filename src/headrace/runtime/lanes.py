"""Lanes: coroutines that pull items, run the handler and note what did not end well.

A lane is one task for many items. Whoever must interrupt a handler cancels the lane's task and says why; the lane
reads the reason where the handler stopped. A handler that swallows the cancellation is given up together with its lane:
the watch notes the outcome, and nothing of what the lane says later counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.runtime.answers import close_unrun, item_answer, list_answers
from headrace.runtime.context import Context, Out
from headrace.runtime.interruptions import interrupts
from headrace.runtime.judgement import NOT_DONE, HandlerTimeout
from headrace.runtime.slices import ListCall, Place, Slice, Spots
from headrace.runtime.verdicts import open_slice, record
from headrace.runtime.yard import Why

if TYPE_CHECKING:
    from headrace.runtime.crew import Crew
    from headrace.runtime.list_crew import ListCrew

OUTPUT_BYTES_DUE = 1024 * 1024


class Lane:
    """One of the lanes of a stage."""

    __slots__ = (
        "abandoned",
        "call",
        "context",
        "crew",
        "hung",
        "interrupted_at",
        "out",
        "place",
        "seen",
        "settling",
        "since",
        "task",
        "thread",
        "why",
    )

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.why: Why | None = None
        self.abandoned = False
        # The handler is over and its outcome is on the way: from here on nothing but the answer counts.
        self.settling = False
        self.interrupted_at = 0.0
        self.since = 0.0
        self.seen: tuple[object, ...] = ()
        self.task: asyncio.Task[None] | None = None
        self.thread: Future[Any] | None = None
        # Its thread has not ended in the time that its handler had, and was counted.
        self.hung = False
        self._renew_place()

    async def run(self) -> None:
        """Work for as long as there is any, rest in between."""
        while not self.abandoned:
            await self._thread_ended()
            if not await self._turn():
                await self.crew.rest()

    async def once(self, work: Coroutine[Any, Any, None]) -> None:
        """Do one piece of work."""
        await work
        await self._thread_ended()

    async def _thread_ended(self) -> None:
        """Nobody can stop a thread. One that goes on after its handler was given up keeps its lane busy until it ends,
        so that there are never more handlers at work than the stage may have."""
        if not self.waiting or self.thread is None:
            return
        ended = asyncio.wrap_future(self.thread)
        try:
            await asyncio.wait([ended])
        finally:
            # A thread that outlives the loop must not try to tell it.
            ended.cancel()
        if not ended.cancelled():
            ended.exception()
        self.thread, self.hung = None, False
        self.crew.yard.bell.set()

    async def _turn(self) -> bool:
        """Do what there is to do; False if there is nothing."""
        return False

    def _renew_place(self) -> None:
        """A place, `Out` and `Context` that nobody else looks at."""
        crew = self.crew
        shape = crew.stage.shape
        self.place = Place()
        self.out = Out(self.place, crew.stages, crew.streams)
        self.context = Context(self.place)
        bound = shape.bind(self.out, self.context)
        self.call: Callable[[Any], Awaitable[Any]] = bound if shape.awaits else partial(self._in_thread, bound)

    async def _in_thread(self, bound: Callable[[Any], Any], item: Any) -> Any:
        answer = self.thread = self.crew.yard.seams.threads.run(partial(_guarded, bound, item))
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(_unheard)
            raise

    @property
    def mark(self) -> tuple[object, ...]:
        """Changes whenever the handler gets something new to do or has committed something."""
        place = self.place
        return (place.slice, place.index, place.batch, place.commits)

    @property
    def handling(self) -> bool:
        return self.place.index >= 0

    @property
    def waiting(self) -> bool:
        """Its handler was given up, and the thread of it goes on."""
        return not self.handling and self.thread is not None and not self.thread.done()

    def interrupt(self, why: Why) -> None:
        """Cancel the handler that runs; it has `grace_s` to end."""
        if self.handling and not self.settling and self.why is None and self.task is not None:
            self.why, self.interrupted_at = why, self.crew.yard.now()
            self.task.cancel()

    def abandon(self) -> None:
        """The handler does not end: nothing of what it still says counts."""
        self.abandoned = True
        self.out.close()

    def _end_interruption(self, work: Slice) -> Why | None:
        why, self.why = self.why, None
        if self.task is not None:
            self.task.uncancel()
        if not self.crew.stage.shape.awaits:
            # The thread goes on with the place and the `Out` it was given.
            self.out.close()
            work.lanes.discard(self.place)
            self._renew_place()
        return why

    def _timeout(self, stopped: BaseException | None) -> HandlerTimeout:
        """A timeout with where the handler stood when it was stopped."""
        timeout = HandlerTimeout(f"no outcome after {self.crew.stage.timeout_s:g} s")
        timeout.__cause__ = stopped
        return timeout

    async def _next_turn(self) -> None:
        yard = self.crew.yard
        if yard.now() >= yard.turn_until:
            await yard.next_turn()

    def _foreign(self, error: BaseException) -> bool:
        """Whether an error is not the handler's: the loop ends this task, or it is interrupted from outside."""
        if interrupts(error, self.task):
            return True
        if not isinstance(error, asyncio.CancelledError) or self.why is not None:
            return False
        if not self.crew.yard.over:
            # The handler cancelled itself. That is its own affair, and an attempt that failed.
            while self.task is not None and self.task.cancelling():
                self.task.uncancel()
        return self.crew.yard.over


class ItemLane(Lane):
    """Runs a handler of one item."""

    __slots__ = ()

    async def _turn(self) -> bool:
        work = self.crew.next_slice()
        if work is None:
            return False
        self.crew.wake()
        await self.work(work)
        return True

    async def work(self, work: Slice) -> None:
        """Pull items from a slice until it has none that may be started."""
        yard, now = self.crew.yard, self.crew.yard.seams.clock.monotonic
        open_slice(work, yard)
        items, wrong = work.items, work.wrong
        place, call = self._enter(work)
        try:
            while (index := work.next) < work.stop:
                work.next = index + 1
                if wrong and index in wrong:
                    continue
                place.index = index
                try:
                    answer = await call(items[index])
                    if answer is not None:
                        answer = await self._answer(answer)
                except BaseException as error:
                    goes_on = await self._ended(work, index, error, raised=True)
                else:
                    if answer is None and self.why is None and not place.loaded:
                        if now() >= yard.turn_until:
                            place.index = -1
                            await yard.next_turn()
                        continue
                    goes_on = await self._ended(work, index, answer, raised=False)
                if not goes_on or self.waiting:
                    return
                place, call = self._enter(work)
                await self._next_turn()
        finally:
            if not self.abandoned:
                self._leave(work)

    def _enter(self, work: Slice) -> tuple[Place, Callable[[Any], Awaitable[Any]]]:
        place = self.place
        place.slice, place.index = work, -1
        work.lanes.add(place)
        return place, self.call

    def _leave(self, work: Slice) -> None:
        self.place.slice, self.place.index = None, -1
        work.lanes.discard(self.place)
        self.crew.left(work)

    async def _answer(self, answer: Any) -> Any:
        """None or an outcome. What can be awaited has not run yet: it is a part of this call, within its timeout."""
        stage = self.crew.stage
        return await item_answer(stage.name, answer, stage.returns)

    async def _ended(self, work: Slice, index: int, answer: Any, raised: bool) -> bool:
        """Note how an item ended if it was not simply done. False: this lane ends here."""
        if self.abandoned:
            return False
        if raised and self._foreign(answer):
            work.forgo(index)
            raise answer
        if self.why is not None:
            why = self._end_interruption(work)
            self.out.discard()
            if why is not Why.TIMEOUT:
                work.forgo(index)
                return True
            answer, raised = self._timeout(answer if raised else None), True
        if raised or isinstance(answer, NOT_DONE):
            self.out.discard()
            if not work.lost:
                record(work, index, answer, self.crew.yard)
            return True
        return await self._send(work, index)

    async def _send(self, work: Slice, index: int) -> bool:
        """The item is done: what it sent goes with it. Until then the item counts as in flight."""
        try:
            flips = await self.out.staged()
        except BaseException as error:
            return await self._ended(work, index, error, raised=True)
        self.out.hand_over(flips)
        if work.output.size > OUTPUT_BYTES_DUE:
            self.crew.streams.soon(work)
        return True


class ListLane(Lane):
    """Runs a handler of a list. A list that fails runs again in halves, until the items that fail stand alone."""

    __slots__ = ("_lists",)

    def __init__(self, crew: ListCrew) -> None:
        super().__init__(crew)
        self._lists = crew

    async def _turn(self) -> bool:
        spots = self._lists.next_batch()
        if spots is None:
            return False
        self._lists.wake()
        await self.handle(spots)
        return True

    async def handle(self, spots: Spots) -> None:
        """One call of the handler. The spots are marked busy already."""
        place = self.place
        place.batch = ListCall(spots)
        place.slice, place.index = spots[0]
        answers: Any = None
        raised: BaseException | None = None
        try:
            answers = await self._answers(await self.call(place.batch.items), len(spots))
        except BaseException as error:
            raised = error
        if self.abandoned:
            return
        if raised is not None and self._foreign(raised):
            raise raised
        why = self._end_interruption(spots[0][0]) if self.why is not None else None
        await self._note(spots, answers, raised, why)
        place.slice, place.index, place.batch = None, -1, None
        await self._next_turn()

    async def _note(self, spots: Spots, answers: Any, raised: BaseException | None, why: Why | None) -> None:
        if why is Why.TIMEOUT:
            raised = self._timeout(raised)
        elif why is not None:
            self.out.discard()
            self._lists.forgo(spots)
            return
        if raised is not None:
            self.out.discard()
            self._lists.fail(spots, raised)
        else:
            self.out.hand_over(but=self._lists.judge(spots, answers))
            self._lists.free(spots)

    async def _answers(self, answers: Any, count: int) -> Any:
        stage = self.crew.stage
        return await list_answers(stage.name, answers, count, stage.returns)


def _unheard(answer: Future[Any]) -> None:
    """A thread that was given up has answered after all."""
    if not answer.cancelled() and answer.exception() is None:
        close_unrun(answer.result())


def _guarded(bound: Callable[[Any], Any], item: Any) -> Any:
    """StopIteration cannot travel through a future, and GeneratorExit would close whoever waits for it."""
    try:
        return bound(item)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
