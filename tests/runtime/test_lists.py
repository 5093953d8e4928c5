"""List handlers: batches of one job, halves of what fails, and sends that name their parent."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from runtime_bench import Bench

from headrace.core.errors import CallerError, InvalidFlow
from headrace.core.outcomes import Dead, Done, Retry
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow

AT_ONCE = RetryPolicy(attempts_max=2, first_s=0)


class Page(msgspec.Struct):
    number: int


async def test_a_list_handler_gets_batches_of_its_size(bench: Bench) -> None:
    flow, sizes = Flow("digest"), []

    @flow.stage(batch=100, batch_wait_s=0.5, concurrency=1)
    async def read(pages: list[Page]) -> None:
        sizes.append(len(pages))

    view = await bench.run(flow, *(Page(number) for number in range(1_000)))
    assert view.stages["read"].done == 1_000
    assert sizes == [100] * 10


async def test_a_batch_that_does_not_fill_runs_when_its_time_is_up(bench: Bench) -> None:
    flow, sizes = Flow("digest"), []

    @flow.stage(batch=100, batch_wait_s=0.05)
    async def read(pages: list[Page]) -> None:
        sizes.append(len(pages))

    await bench.run(flow, Page(1), Page(2), Page(3))
    assert sizes == [3]


async def test_a_batch_never_mixes_jobs(bench: Bench) -> None:
    flow, batches = Flow("digest"), []

    @flow.stage(batch=100, batch_wait_s=0.05)
    def read(pages: list[int], context: Context) -> None:
        batches.append((context.job, set(pages)))

    jobs = [await bench.submit(flow, *([number] * 10)) for number in range(5)]
    async with bench.worker(flow):
        for job in jobs:
            await bench.ended(job)
    assert sorted(batches) == sorted((job, {number}) for number, job in enumerate(jobs))


async def test_a_failing_list_is_run_in_halves_and_only_the_culprit_spends_an_attempt(bench: Bench) -> None:
    flow, calls = Flow("digest"), Counter[int]()

    @flow.stage(batch=64, batch_wait_s=0.2, concurrency=1, retry=AT_ONCE, tolerate=1)
    async def read(pages: list[Page], context: Context) -> None:
        for page in pages:
            calls[page.number] += 1
        if any(page.number == 13 for page in pages):
            raise ValueError("thirteen")

    job = await bench.submit(flow, *(Page(number) for number in range(64)))
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert (view.state, view.stages["read"].done, view.stages["read"].dead) == (JobState.FINISHED, 63, 1)
    (letter,) = await bench.dead(job)
    assert (letter.reason, letter.attempts) == ("ValueError", 2)
    assert calls[13] == 8
    assert calls[63] == 2


async def test_a_list_handler_may_answer_item_by_item(bench: Bench) -> None:
    flow, calls = Flow("digest"), Counter[int]()

    @flow.stage(batch=10, batch_wait_s=0.05, retry=AT_ONCE, tolerate=1)
    async def read(pages: list[Page]) -> list[Any]:
        calls.update(page.number for page in pages)
        answers: dict[int, Any] = {1: Dead("one"), 2: Retry("two", 0) if calls[2] == 1 else Done()}
        return [answers.get(page.number) for page in pages]

    view = await bench.run(flow, *(Page(number) for number in range(5)))
    assert (view.stages["read"].done, view.stages["read"].dead) == (4, 1)
    assert calls == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}


async def test_a_list_of_answers_must_be_as_long_as_its_items(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(batch=10, batch_wait_s=0.05, retry=RetryPolicy(attempts_max=1))
    async def read(pages: list[Page]) -> list[Any]:
        return [None] * 3

    job = await bench.submit(flow, Page(1), Page(2))
    async with bench.worker(flow):
        await bench.ended(job)
    letters = await bench.dead(job)
    assert len(letters) == 2
    assert "3 outcomes for 1 items" in letters[0].error


async def test_sends_of_a_list_belong_to_their_parent(bench: Bench) -> None:
    flow, got = Flow("digest"), []

    @flow.stage(feeds="keep", batch=10, batch_wait_s=0.05, tolerate=5)
    async def read(pages: list[Page], out: Out) -> list[Any]:
        for index, page in enumerate(pages):
            out.send("keep", page.number, parent=page)
            out.send("keep", page.number + 100, parent=index)
        return [Dead("odd") if page.number % 2 else None for page in pages]

    @flow.stage
    async def keep(number: int) -> None:
        got.append(number)

    view = await bench.run(flow, *(Page(number) for number in range(6)))
    assert view.stages["read"].dead == 3
    assert sorted(got) == [0, 2, 4, 100, 102, 104]


async def test_a_list_handler_must_name_a_parent_it_has(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(feeds="keep")
    async def read(pages: list[Page], out: Out) -> None:
        with pytest.raises(CallerError, match="which item"):
            out.send("keep", 1)
        with pytest.raises(CallerError, match="not one item"):
            out.send("keep", 1, parent=Page(1))
        with pytest.raises(CallerError, match="not one item"):
            out.send("keep", 1, parent=len(pages))
        with pytest.raises(InvalidFlow, match="handler of one item"):
            await out.commit(cursor=1)

    @flow.stage
    async def keep(number: int) -> None: ...

    assert (await bench.run(flow, Page(1), Page(2))).state is JobState.FINISHED


async def test_each_item_of_a_list_has_a_context(bench: Bench) -> None:
    flow, keys = Flow("digest"), set()

    @flow.stage(batch=10)
    async def read(pages: list[Page], context: Context) -> None:
        with pytest.raises(CallerError, match="many items"):
            _ = context.seq
        for page in pages:
            keys.add(context.of(page).effect_key)
        assert context.of(0).fence > 0
        with pytest.raises(CallerError, match="not one item"):
            context.of(Page(9))

    view = await bench.run(flow, *(Page(number) for number in range(5)))
    assert view.state is JobState.FINISHED
    assert len(keys) == 5


async def test_a_list_that_hangs_is_halved_until_the_culprit_stands_alone(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(batch=4, batch_wait_s=0.1, timeout_s=0.05, retry=RetryPolicy(attempts_max=1), tolerate=1)
    async def read(pages: list[Page]) -> None:
        if any(page.number == 2 for page in pages):
            await asyncio.Event().wait()

    job = await bench.submit(flow, *(Page(number) for number in range(4)))
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert (view.stages["read"].done, view.stages["read"].dead) == (3, 1)
    (letter,) = await bench.dead(job)
    assert letter.reason == "timeout"
