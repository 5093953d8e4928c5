"""Sending: visible with the sender, refused where no arrow points, staged when it is much."""

from __future__ import annotations

import pytest
from runtime_bench import Bench
from waiting import turn

from headrace.core.errors import CallerError, InvalidPayload, UnknownStage
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import AHEAD_ITEMS, Out
from headrace.runtime.flow import Flow

AT_ONCE = RetryPolicy(attempts_max=3, first_s=0)


async def test_what_a_failed_attempt_sent_is_dropped(bench: Bench) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage(feeds="two", retry=AT_ONCE)
    async def one(number: int, out: Out) -> None:
        out.send("two", number)
        calls.append(number)
        if len(calls) < 3:
            raise ValueError("not yet")

    @flow.stage
    async def two(number: int) -> None: ...

    view = await bench.run(flow, 1)
    assert view.stages["two"].total == 1


async def test_sending_where_no_arrow_points_is_refused_by_name(bench: Bench) -> None:
    flow, refusals = Flow("digest"), []

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        for stage in ("three", "nowhere"):
            with pytest.raises(UnknownStage) as refused:
                out.send(stage, number)
            refusals.append(str(refused.value))
        with pytest.raises(InvalidPayload, match="two: payload"):
            out.send("two", "not a number")

    @flow.stage(feeds="three")
    async def two(number: int) -> None: ...

    @flow.stage
    async def three(number: int) -> None: ...

    assert (await bench.run(flow, 1)).state is JobState.FINISHED
    assert refusals[0].startswith("stage 'one' does not feed 'three'")
    assert "nowhere" in refusals[1]


async def test_a_unique_stage_takes_each_key_once_and_only_with_a_key(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        out.send("two", number, key=str(number % 3))
        with pytest.raises(CallerError, match="unique"):
            out.send("two", number)

    @flow.stage(unique=True)
    async def two(number: int) -> None: ...

    view = await bench.run(flow, *range(9))
    assert (view.stages["one"].done, view.stages["two"].done) == (9, 3)


async def test_a_stage_that_feeds_itself_stops_at_its_depth(bench: Bench) -> None:
    flow, refused = Flow("crawl"), []

    @flow.stage(feeds="visit", depth_max=3)
    async def visit(number: int, out: Out) -> None:
        if not out.send("visit", number + 1):
            refused.append(number)

    view = await bench.run(flow, 0)
    assert view.stages["visit"].done == 4
    assert refused == [3]


async def test_a_large_send_becomes_visible_at_once_or_not_at_all(bench: Bench) -> None:
    flow, calls = Flow("digest"), []
    count = 3 * AHEAD_ITEMS + 7

    @flow.stage(feeds="two", retry=AT_ONCE)
    async def one(number: int, out: Out) -> None:
        calls.append(number)
        for sent in range(count):
            out.send("two", sent)
            if sent % 1_000 == 0:
                await turn()
        if len(calls) == 1:
            raise ValueError("after all that")

    @flow.stage(concurrency=50)
    async def two(number: int) -> None: ...

    view = await bench.run(flow, 1)
    assert view.stages["two"].done == view.stages["two"].total == count


async def test_a_large_send_of_a_thread_is_staged_before_it_is_settled(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(feeds="two")
    def one(number: int, out: Out) -> None:
        for sent in range(10_000):
            out.send("two", sent)

    @flow.stage
    async def two(number: int) -> None: ...

    assert (await bench.run(flow, 1)).stages["two"].done == 10_000


async def test_a_job_that_is_older_than_a_renamed_stage_names_its_own_graph(bench: Bench) -> None:
    older, newer, refusals = Flow("digest"), Flow("digest"), list[UnknownStage]()

    @older.stage(feeds="fetch")
    async def find(number: int, out: Out) -> None: ...

    @older.stage
    async def fetch(number: int) -> None: ...

    @newer.stage(name="find", feeds="read")
    async def find_newly(number: int, out: Out) -> None:
        for stage in ("read", "fetch", "nowhere"):
            with pytest.raises(UnknownStage) as refused:
                out.send(stage, number)
            refusals.append(refused.value)

    @newer.stage
    async def read(number: int) -> None: ...

    job = await bench.submit(older, 1)
    async with bench.worker(newer):
        await bench.ended(job)
    renamed, lacking, undeclared = refusals
    assert str(renamed) == "stage 'find' does not feed 'read': in this job it feeds fetch"
    assert "keeps the graph it was submitted with" in renamed.hint
    assert str(lacking) == ("stage 'find' feeds 'fetch' in this job, but the flow of this process has no stage 'fetch'")
    assert "until the jobs that were submitted with it have ended" in lacking.hint
    assert undeclared.hint == "declare it with feeds='nowhere'"
