"""Handlers that take too long, and those that do not even end when they are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from runtime_bench import Bench
from waiting import PATIENCE_S, eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Renewed
from headrace.core.errors import Conflict
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import Out
from headrace.runtime.flow import Flow
from headrace.runtime.watch import Watch
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

ONCE = RetryPolicy(attempts_max=1)
SHORT = WorkerOptions(hold_s=0.4, poll_s=0.05, partial_s=0.05, grace_s=0.1)


class Forgetful:
    """A store that knows nothing of the claims it is asked to renew first."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._asked = store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def renew(self, worker: str, fences: Sequence[int], hold_s: float) -> Renewed:
        if self._asked or not fences:
            return self._store.renew(worker, fences, hold_s)
        self._asked = True
        return Renewed(frozenset(), frozenset())


async def test_a_handler_that_takes_too_long_is_cancelled_and_has_failed(bench: Bench) -> None:
    flow, cancelled = Flow("digest"), []

    @flow.stage(timeout_s=0.05, retry=ONCE, tolerate=1)
    async def one(number: int) -> None:
        if number == 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

    job = await bench.submit(flow, *range(10))
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert (view.stages["one"].done, view.stages["one"].dead) == (9, 1)
    (letter,) = await bench.dead(job)
    assert letter.reason == "timeout"
    assert cancelled == [3]


async def test_a_timeout_spends_one_attempt(bench: Bench) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage(timeout_s=0.03, retry=RetryPolicy(attempts_max=3, first_s=0))
    async def one(number: int) -> None:
        calls.append(number)
        if len(calls) < 3:
            await asyncio.Event().wait()

    assert (await bench.run(flow, 1)).state is JobState.FINISHED
    assert len(calls) == 3


async def test_a_handler_that_turns_its_cancellation_into_success_has_still_timed_out(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(feeds="two", timeout_s=0.03, retry=ONCE)
    async def one(number: int, out: Out) -> None:
        out.send("two", number)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    @flow.stage
    async def two(number: int) -> None: ...

    view = await bench.run(flow, 1)
    assert (view.stages["one"].dead, view.stages["two"].total) == (1, 0)


async def test_a_handler_that_swallows_its_cancellation_loses_its_lane_and_not_the_worker(bench: Bench) -> None:
    flow, release, late = Flow("digest"), asyncio.Event(), []

    @flow.stage(feeds="two", timeout_s=0.03, retry=ONCE, concurrency=1, tolerate=1)
    async def one(number: int, out: Out) -> None:
        while number == 0 and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        if number == 0:
            with pytest.raises(Conflict):
                out.send("two", number)
            late.append(number)

    @flow.stage
    async def two(number: int) -> None: ...

    job = await bench.submit(flow, *range(5))
    async with bench.worker(flow) as worker:
        view = await bench.ended(job)
        assert (view.stages["one"].done, view.stages["one"].dead) == (4, 1)
        assert worker.observer.counts["lane.abandoned"] == 1
        release.set()
        await eventually(lambda: bool(late), "the handler has gone on")
    assert view.stages["two"].total == 0


class WatchesWhatIsHeld(Watch):
    """Does not see a handler that goes on after its claim was lost."""

    def _needed(self) -> bool:
        return bool(self._yard.held)


class ForgetsLostHandlers(Worker):
    """Waits for such a handler for as long as it takes."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self._watch = WatchesWhatIsHeld(self._yard, list(self._crews.values()), self._settler, self._watch._ends)


async def _lose_a_stubborn_handler(bench: Bench, kind: type[Worker], timeout_s: float) -> Worker:
    """A claim is lost, its handler does not end, and nothing else is held: the only lane must come free."""
    flow, release, calls = Flow("digest"), asyncio.Event(), []

    @flow.stage(concurrency=1)
    async def one(number: int) -> None:
        calls.append(number)
        while len(calls) == 1 and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job = await bench.submit(flow, 1)
    worker = kind(Forgetful(bench.store), [flow], None, SHORT)
    running = asyncio.ensure_future(worker.run())
    try:
        await eventually(lambda: bench.store.finishes(job), "the job ends", timeout_s, otherwise=TimeoutError)
    finally:
        release.set()
        worker.stop_now()
        await asyncio.wait_for(running, PATIENCE_S)
    return worker


async def test_a_handler_that_goes_on_after_its_claim_was_lost_loses_its_lane(bench: Bench) -> None:
    worker = await _lose_a_stubborn_handler(bench, Worker, PATIENCE_S)
    assert worker.observer.counts["lane.abandoned"] == 1


async def test_a_lane_that_waits_for_a_lost_handler_is_noticed(bench: Bench) -> None:
    with pytest.raises(TimeoutError):
        await _lose_a_stubborn_handler(bench, ForgetsLostHandlers, 5 * SHORT.hold_s)


async def test_a_thread_that_hangs_is_left_behind(bench: Bench) -> None:
    flow, release, refused = Flow("digest"), threading.Event(), threading.Event()

    @flow.stage(feeds="two", timeout_s=0.05, retry=ONCE, concurrency=2, tolerate=1)
    def one(number: int, out: Out) -> None:
        if number == 0:
            release.wait()
            try:
                out.send("two", number)
            except Conflict:
                refused.set()
        else:
            out.send("two", number)

    @flow.stage
    async def two(number: int) -> None: ...

    job = await bench.submit(flow, *range(5))
    async with bench.worker(flow):
        view = await bench.ended(job)
    release.set()
    assert refused.wait(5)
    assert (view.stages["one"].done, view.stages["one"].dead, view.stages["two"].done) == (4, 1, 4)


async def test_a_list_that_swallows_its_cancellation_is_halved_by_others(bench: Bench) -> None:
    flow, release = Flow("digest"), asyncio.Event()

    @flow.stage(batch=4, batch_wait_s=0.1, timeout_s=0.03, retry=ONCE, concurrency=2, tolerate=1)
    async def one(numbers: list[int]) -> None:
        while 0 in numbers and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job = await bench.submit(flow, *range(4))
    async with bench.worker(flow):
        view = await bench.ended(job)
        release.set()
    assert (view.stages["one"].done, view.stages["one"].dead) == (3, 1)
