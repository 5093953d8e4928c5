"""Draining and stopping: what was not started goes back, and nobody is charged."""

from __future__ import annotations

import asyncio

from runtime_bench import QUICK, Bench
from waiting import eventually, turn

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.tally import JobState
from headrace.runtime.context import Context
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker


async def _tally(store: SqliteStore, job: str) -> tuple[int, int, int]:
    tally = (await store.job(job)).stages["one"]
    return tally.waiting, tally.held, tally.done


async def test_a_drained_worker_finishes_what_it_started_and_gives_back_the_rest(bench: Bench) -> None:
    flow, started, release = Flow("digest"), asyncio.Semaphore(0), asyncio.Event()

    @flow.stage(concurrency=2)
    async def one(number: int) -> None:
        started.release()
        await release.wait()

    job = await bench.submit(flow, *range(10))
    worker = Worker(bench.store, [flow], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await started.acquire()
    await started.acquire()
    worker.drain()
    release.set()
    await asyncio.wait_for(running, 5)
    assert await _tally(bench.store, job) == (8, 0, 2)


async def test_a_stopped_worker_gives_everything_back_and_spends_no_attempt(bench: Bench) -> None:
    flow, started, attempts, stopped = Flow("digest"), asyncio.Event(), [], False

    @flow.stage(concurrency=4)
    async def one(number: int, context: Context) -> None:
        attempts.append(context.attempt)
        if not stopped:
            started.set()
            await asyncio.Event().wait()

    job = await bench.submit(flow, *range(4))
    worker = Worker(bench.store, [flow], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await started.wait()
    worker.stop_now()
    await asyncio.wait_for(running, 5)
    assert await _tally(bench.store, job) == (4, 0, 0)
    stopped = True
    async with bench.worker(flow):
        assert (await bench.ended(job)).state is JobState.FINISHED
    assert set(attempts) == {1}


async def test_a_second_call_stops_a_drain_that_waits(bench: Bench) -> None:
    flow, started = Flow("digest"), asyncio.Event()

    @flow.stage
    async def one(number: int) -> None:
        started.set()
        await asyncio.Event().wait()

    job = await bench.submit(flow, 1)
    worker = Worker(bench.store, [flow], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await started.wait()
    worker.drain()
    await turn()
    assert not running.done()
    worker.stop_now()
    await asyncio.wait_for(running, 5)
    assert await _tally(bench.store, job) == (1, 0, 0)


async def test_a_handler_that_swallows_cancellation_does_not_hold_up_a_stop(bench: Bench) -> None:
    flow, started, release = Flow("digest"), asyncio.Event(), asyncio.Event()

    @flow.stage
    async def one(number: int) -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job = await bench.submit(flow, 1)
    worker = Worker(bench.store, [flow], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await started.wait()
    worker.stop_now()
    await asyncio.wait_for(running, 5)
    assert await _tally(bench.store, job) == (1, 0, 0)
    release.set()


async def test_a_stopped_list_is_given_back_whole(bench: Bench) -> None:
    flow, started = Flow("digest"), asyncio.Event()

    @flow.stage(batch=10)
    async def one(numbers: list[int]) -> None:
        started.set()
        await asyncio.Event().wait()

    job = await bench.submit(flow, *range(10))
    worker = Worker(bench.store, [flow], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await started.wait()
    worker.stop_now()
    await asyncio.wait_for(running, 5)
    assert await _tally(bench.store, job) == (10, 0, 0)


async def test_an_idle_worker_drains_at_once(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage
    async def one(number: int) -> None: ...

    worker = Worker(bench.store, [flow])
    running = asyncio.ensure_future(worker.run())
    await turn()
    worker.drain()
    await asyncio.wait_for(running, 1)


async def test_a_long_slice_is_settled_in_parts(bench: Bench) -> None:
    flow, release = Flow("digest"), asyncio.Event()

    @flow.stage(concurrency=10)
    async def one(number: int) -> None:
        if number == 5:
            await release.wait()

    job = await bench.submit(flow, *range(10))
    async with bench.worker(flow):

        async def nine_are_done() -> bool:
            return (await _tally(bench.store, job))[2] == 9

        await eventually(nine_are_done, "nine are done")
        release.set()
        await bench.ended(job)


async def test_what_a_worker_will_not_reach_soon_goes_to_others(bench: Bench) -> None:
    flow, blocked, release, done = Flow("digest"), asyncio.Event(), asyncio.Event(), []

    @flow.stage(concurrency=1)
    async def one(number: int) -> None:
        if number == 2_000:
            blocked.set()
            await release.wait()
        done.append(number)

    async def only_the_one_that_is_stuck_is_left() -> bool:
        tally = (await bench.store.job(job)).stages["one"]
        return (tally.done, tally.held) == (9_999, 1)

    job = await bench.submit(flow, *range(10_000))
    options = type(QUICK)(hold_s=30, poll_s=0.05)
    async with bench.worker(flow, options=options):
        await blocked.wait()
        async with bench.worker(flow, options=options):
            await eventually(only_the_one_that_is_stuck_is_left, "only the one that is stuck is left")
            release.set()
            await bench.ended(job)
    assert sorted(done) == list(range(10_000))


async def test_a_list_that_timed_out_is_not_halved_by_a_worker_that_stops(bench: Bench) -> None:
    flow, cancelled, release, calls = Flow("digest"), asyncio.Event(), asyncio.Event(), []

    @flow.stage(batch=4, batch_wait_s=0.1, timeout_s=0.03)
    async def one(numbers: list[int]) -> None:
        calls.append(len(numbers))
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.set()

    job = await bench.submit(flow, *range(4))
    worker = Worker(bench.store, [flow], options=QUICK)
    running = asyncio.ensure_future(worker.run())
    await cancelled.wait()
    worker.stop_now()
    await asyncio.wait_for(running, 5)
    release.set()
    assert calls == [4]
    assert await _tally(bench.store, job) == (4, 0, 0)
