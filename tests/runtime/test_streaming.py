"""Streaming: what is committed is visible at once, and the next holder starts from the cursor."""

from __future__ import annotations

import asyncio

import pytest
from runtime_bench import QUICK, Bench

from headrace.core.errors import InvalidFlow
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import Out
from headrace.runtime.flow import Flow

AT_ONCE = RetryPolicy(attempts_max=3, first_s=0)


async def test_what_is_committed_is_worked_on_while_its_sender_still_runs(bench: Bench) -> None:
    flow, got = Flow("crawl"), asyncio.Event()

    @flow.stage(feeds="read")
    async def find(query: str, out: Out) -> None:
        assert out.cursor is None
        out.send("read", 1)
        await out.commit(cursor={"page": 1})
        assert out.cursor == {"page": 1}
        await asyncio.wait_for(got.wait(), 5)

    @flow.stage
    async def read(number: int) -> None:
        got.set()

    assert (await bench.run(flow, "q")).state is JobState.FINISHED


async def test_the_next_attempt_starts_from_the_cursor(bench: Bench) -> None:
    flow, starts, got = Flow("crawl"), [], []

    @flow.stage(feeds="read", retry=AT_ONCE)
    async def find(query: str, out: Out) -> None:
        start = out.cursor or 0
        starts.append(start)
        for page in range(start, 6):
            out.send("read", page)
            await out.commit(cursor=page + 1)
            if page in (1, 3):
                out.send("read", 99)
                raise ValueError("connection reset")

    @flow.stage
    async def read(number: int) -> None:
        got.append(number)

    assert (await bench.run(flow, "q")).state is JobState.FINISHED
    assert starts == [0, 2, 4]
    assert sorted(got) == [0, 1, 2, 3, 4, 5]


async def test_another_worker_takes_over_from_the_cursor(bench: Bench) -> None:
    flow, starts, got, hanging = Flow("crawl"), [], [], asyncio.Event()

    @flow.stage(feeds="read")
    async def find(query: str, out: Out) -> None:
        start = out.cursor or 0
        starts.append(start)
        for page in range(start, 4):
            out.send("read", page)
            await out.commit(cursor=page + 1)
            if page == 1:
                hanging.set()
                await asyncio.Event().wait()

    @flow.stage
    async def read(number: int) -> None:
        got.append(number)

    job = await bench.submit(flow, "q")
    async with bench.worker(flow):
        await hanging.wait()
    async with bench.worker(flow):
        assert (await bench.ended(job)).state is JobState.FINISHED
    assert starts == [0, 2]
    assert sorted(got) == [0, 1, 2, 3]


async def test_many_streams_of_one_slice_commit_side_by_side(bench: Bench) -> None:
    flow = Flow("crawl")

    @flow.stage(feeds="read", concurrency=8)
    async def find(number: int, out: Out) -> None:
        for page in range(5):
            out.send("read", number * 10 + page)
            await out.commit(cursor=page)
            assert out.cursor == page

    @flow.stage
    async def read(number: int) -> None: ...

    view = await bench.run(flow, *range(20))
    assert (view.stages["find"].done, view.stages["read"].done) == (20, 100)


async def test_a_commit_is_a_sign_of_life(bench: Bench) -> None:
    flow = Flow("crawl")

    @flow.stage(timeout_s=0.2, retry=RetryPolicy(attempts_max=1))
    async def find(number: int, out: Out) -> None:
        for page in range(8):
            await asyncio.sleep(0.05)
            await out.commit(cursor=page)

    assert (await bench.run(flow, 1)).state is JobState.FINISHED


async def test_a_large_stream_is_committed_with_what_was_staged(bench: Bench) -> None:
    flow = Flow("crawl")

    @flow.stage(feeds="read")
    async def find(number: int, out: Out) -> None:
        for _ in range(2):
            for page in range(5_000):
                out.send("read", page)
            await out.commit(cursor=1)

    @flow.stage
    async def read(number: int) -> None: ...

    assert (await bench.run(flow, 1, options=QUICK)).stages["read"].done == 10_000


async def test_a_sync_handler_cannot_stream_and_is_told(bench: Bench) -> None:
    flow, told = Flow("crawl"), []

    @flow.stage
    def find(number: int, out: Out) -> None:
        with pytest.raises(InvalidFlow, match="async handler") as refused:
            out.commit(cursor=1)
        told.append(refused.value.hint)

    assert (await bench.run(flow, 1)).state is JobState.FINISHED
    assert told
