"""Operator verbs that are more than one call: paging, recounting and watching."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import headrace
from headrace import control
from headrace.core.claims import Want
from headrace.core.errors import CallerError, NotFound
from headrace.core.jobs import JobFilter
from headrace.runtime.engine import Engine

COUNT = control.PAGE * 2 + 5


def numbers() -> headrace.Flow:
    flow = headrace.Flow("numbers")

    @flow.stage
    async def work(number: int) -> None: ...

    return flow


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with headrace.connect("sqlite://") as opened:
        yield opened


async def test_every_job_is_listed_once_and_no_more_than_asked_for(engine: Engine) -> None:
    flow = numbers()
    made = [await engine.submit(flow, number) for number in range(COUNT)]
    assert [job.id async for job in control.every_job(engine.store, JobFilter(limit=0))] == made[::-1]
    asked = control.PAGE + 1
    assert [job.id async for job in control.every_job(engine.store, JobFilter(limit=asked))] == made[::-1][:asked]


async def test_every_item_is_listed_once_and_no_more_than_asked_for(engine: Engine) -> None:
    job = await engine.submit_many(numbers(), range(COUNT))
    seqs = [item.seq async for item in control.every_item(engine.store, job, ["work"], 10_000)]
    assert len(seqs) == len(set(seqs)) == COUNT
    assert seqs == sorted(seqs)
    asked = control.PAGE + 1
    assert [item.seq async for item in control.every_item(engine.store, job, ["work"], asked)] == seqs[:asked]


async def test_a_recount_says_what_is_open_and_why(engine: Engine) -> None:
    job = await engine.submit_many(numbers(), range(3))
    found = [result async for result in control.verify_all(engine.store, JobFilter(limit=0))]
    assert [(result.job, result.findings) for result in found] == [(job, ())]
    assert "3 waiting" in found[0].open[0]
    assert not await control.idle(engine.store)


async def test_watching_ends_with_the_job(engine: Engine) -> None:
    flow = numbers()
    job = await engine.submit_many(flow, range(50))
    async with engine.worker(flow):
        seen = [view async for view in control.watch(engine.store, job)]
    assert [view.state for view in seen[:-1]] == [headrace.JobState.OPEN] * (len(seen) - 1)
    assert (seen[-1].state, seen[-1].stages["work"].done) == (headrace.JobState.FINISHED, 50)
    ended = [view.stages["work"].ended for view in seen]
    assert ended == sorted(ended)
    assert await control.idle(engine.store)


async def test_work_without_a_handler_is_named(engine: Engine) -> None:
    job = await engine.submit(numbers(), 1)
    left = await control.unwanted(engine.store, [("numbers", "other")])
    assert [(work.job, work.stage, work.waiting) for work in left] == [(job, "work", 1)]
    assert await control.unwanted(engine.store, [("numbers", "work")]) == []


async def test_a_stage_that_nobody_takes_from_is_named_after_a_while(engine: Engine) -> None:
    flow = numbers()
    first = await engine.job(await engine.submit_many(flow, range(3)))
    second = await engine.job(await engine.submit_many(flow, range(4)))
    assert await control.unattended(engine.store, first.submitted_at) == []
    (left,) = await control.unattended(engine.store, second.submitted_at + 1)
    assert left == control.Unattended("numbers", "work", 7, first.submitted_at)
    await engine.pause(first.id)
    assert [left.waiting for left in await control.unattended(engine.store, second.submitted_at + 1)] == [4]
    await engine.store.claim("worker", [Want("numbers", "work", 1, 1)], 30.0)
    assert await control.unattended(engine.store, second.submitted_at + 1) == []


async def test_work_that_nobody_can_move_is_named_only_if_it_is_all(engine: Engine) -> None:
    flow, other = numbers(), headrace.Flow("other")

    @other.stage
    async def rest(number: int) -> None: ...

    lacking = await engine.submit(other, 1)
    assert [work.job for work in await control.out_of_reach(engine.store, {("numbers", "work")})] == [lacking]
    assert await control.out_of_reach(engine.store, {("other", "rest")}) == []
    await engine.pause(lacking)
    assert await control.out_of_reach(engine.store, {("numbers", "work")}) == []
    await engine.resume(lacking)
    moving = await engine.submit(flow, 1)
    assert await control.out_of_reach(engine.store, {("numbers", "work")}) == []
    await engine.cancel(moving)
    assert await control.out_of_reach(engine.store, {("numbers", "work")}) != []


async def test_an_event_from_outside_may_move_what_no_handler_can(engine: Engine) -> None:
    flow = numbers()
    flow.external("approve", after="work")
    async with engine.worker(flow):
        job = await engine.submit(flow, 1)
        async for view in control.watch(engine.store, job):
            if view.stages["approve"].sealed:
                break
    assert await control.out_of_reach(engine.store, set()) == []


async def test_a_job_is_meant_by_an_end_that_no_other_has(engine: Engine) -> None:
    jobs = [await engine.submit(numbers(), number) for number in range(2)]
    assert await control.find_job(engine.store, jobs[0]) == jobs[0]
    assert await control.find_job(engine.store, jobs[1][-12:]) == jobs[1]
    with pytest.raises(CallerError, match="several jobs could be meant") as refused:
        await control.find_job(engine.store, jobs[0][:4])
    assert sorted(refused.value.hint.split(", ")) == jobs
    for nobody in ("nobody", jobs[0][-3:], ""):
        with pytest.raises(NotFound):
            await control.find_job(engine.store, nobody)
