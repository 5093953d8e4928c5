"""Handlers in threads that do not end keep their lanes, are counted, and end the worker before they are too many."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest
from runtime_bench import QUICK, Bench
from waiting import eventually

from headrace.core.errors import HandlersHang
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.flow import Flow
from headrace.runtime.watch import HUNG_MAX
from headrace.runtime.worker import Worker

ONCE = RetryPolicy(attempts_max=1)
RUN_S_MAX = 20.0


class Hanging:
    """Handlers that wait until a test lets them go, and how many of them are at work."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self._lock = threading.Lock()
        self.running = self.most = 0

    def work(self, hangs: bool) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        if hangs:
            self.release.wait()
        with self._lock:
            self.running -= 1


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.release.set()


async def test_threads_that_hang_keep_their_lanes_and_cost_one_attempt_each(bench: Bench, hanging: Hanging) -> None:
    flow = Flow("digest")

    @flow.stage(timeout_s=0.05, retry=ONCE, concurrency=4, tolerate="100%")
    def one(number: int) -> None:
        hanging.work(hangs=number in (0, 1))

    job = await bench.submit(flow, *range(40))
    async with bench.worker(flow) as worker:
        view = await bench.ended(job)
        await eventually(lambda: worker.observer.counts["thread.hung"] == 2, "both are counted")
        assert (view.stages["one"].done, view.stages["one"].dead) == (38, 2)
        assert {(letter.reason, letter.attempts) for letter in await bench.dead(job)} == {("timeout", 1)}
        assert hanging.most <= 4


async def test_a_thread_that_ends_after_all_gives_its_lane_free(bench: Bench, hanging: Hanging) -> None:
    flow, ran = Flow("digest"), threading.Event()

    @flow.stage(timeout_s=0.3, retry=ONCE, concurrency=1, tolerate=1)
    def one(number: int) -> None:
        hanging.work(hangs=number == 0)
        ran.set()

    job = await bench.submit(flow, 0)
    async with bench.worker(flow) as worker:
        assert (await bench.ended(job)).stages["one"].dead == 1
        # Late, but before it is given up for good.
        hanging.release.set()
        other = await bench.submit(flow, 1)
        assert (await bench.ended(other)).stages["one"].done == 1
        assert worker.observer.counts["worker.gave_up"] == 0
    assert hanging.most == 1


async def test_a_worker_without_a_lane_left_finishes_what_it_can_and_says_why_it_ends(
    bench: Bench, hanging: Hanging
) -> None:
    flow, started, go_on = Flow("digest"), asyncio.Event(), asyncio.Event()

    @flow.stage(timeout_s=0.05, retry=ONCE, concurrency=2, tolerate="100%")
    def one(number: int) -> None:
        hanging.work(hangs=True)

    beside = Flow("beside")

    @beside.stage
    async def other(number: int) -> None:
        started.set()
        await go_on.wait()

    hung, held = await bench.submit(flow, *range(40)), await bench.submit(beside, 1)
    worker = Worker(bench.store, [flow, beside], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await started.wait()
    await eventually(lambda: worker.observer.counts["worker.gave_up"] == 1, "it gives up")
    assert not running.done()
    go_on.set()
    with pytest.raises(HandlersHang, match=r"2 handlers did not end .* in stage 'one'"):
        await asyncio.wait_for(running, RUN_S_MAX)
    assert hanging.most == 2
    assert (await bench.store.job(held)).state is JobState.FINISHED
    tally = (await bench.store.job(hung)).stages["one"]
    # Those that hung have failed; nobody else has lost anything.
    assert (tally.dead, tally.waiting, tally.held) == (2, 38, 0)


async def test_a_worker_ends_before_too_many_threads_hang(bench: Bench, hanging: Hanging) -> None:
    flow = Flow("digest")

    @flow.stage(timeout_s=0.05, retry=ONCE, concurrency=10 * HUNG_MAX, tolerate="100%")
    def one(number: int) -> None:
        hanging.work(hangs=number % 8 == 0)

    await bench.submit(flow, *range(16 * HUNG_MAX))
    with pytest.raises(HandlersHang):
        await asyncio.wait_for(Worker(bench.store, [flow], options=QUICK).run(), RUN_S_MAX)


async def test_a_worker_ends_before_too_many_handlers_have_swallowed_their_cancellation(bench: Bench) -> None:
    flow, release = Flow("digest"), asyncio.Event()
    running = most = 0

    @flow.stage(timeout_s=0.05, retry=ONCE, concurrency=4, tolerate="100%")
    async def one(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        running -= 1

    await bench.submit(flow, *range(4 * HUNG_MAX))
    try:
        with pytest.raises(HandlersHang, match="handlers did not end after their timeout"):
            await asyncio.wait_for(Worker(bench.store, [flow], options=QUICK).run(), RUN_S_MAX)
    finally:
        release.set()
        await eventually(lambda: running == 0, "all have ended")
    assert most <= HUNG_MAX + 4
