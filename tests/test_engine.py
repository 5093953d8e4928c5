"""The engine as a program uses it, on a real file and in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.core.claims import Want
from headrace.core.errors import CallerError, SchemaMismatch, Unknown
from headrace.core.jobs import DeadFilter, Submission, Submitted
from headrace.runtime.engine import Engine
from headrace.runtime.seams import Seams
from headrace.runtime.submission import UPLOAD_BYTES
from headrace.wiring import open_store


@dataclass(frozen=True)
class Page:
    url: str
    body: str = ""


def crawl() -> tuple[headrace.Flow, list[str]]:
    flow, read = headrace.Flow("crawl"), []

    @flow.stage(feeds="fetch")
    async def find(page: Page, out: headrace.Out) -> None:
        for number in range(3):
            out.send("fetch", Page(f"{page.url}/{number}"))

    @flow.stage
    async def fetch(page: Page) -> None:
        read.append(page.url)

    @flow.stage(after="fetch")
    async def report(done: headrace.Tally) -> None:
        read.append(f"{done.done} done")

    return flow, read


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "file" else "sqlite://"
    async with headrace.connect(url) as opened:
        yield opened


async def test_an_embedded_worker_finishes_a_fan_out(engine: Engine) -> None:
    flow, read = crawl()
    async with engine.worker(flow):
        job = await engine.submit(flow, Page("a"))
        view = await engine.wait(job, 10)
    assert view.state is headrace.JobState.FINISHED
    assert sorted(read) == ["3 done", "a/0", "a/1", "a/2"]
    assert await engine.verify(job) == []
    assert [found.id for found in await engine.jobs()] == [job]


async def test_a_block_that_raises_stops_its_worker_at_once(engine: Engine) -> None:
    flow, started = headrace.Flow("stuck"), asyncio.Event()

    @flow.stage
    async def work(number: int) -> None:
        started.set()
        await asyncio.Event().wait()

    job = await engine.submit(flow, 1)
    with pytest.raises(RuntimeError, match="enough"):
        async with engine.worker(flow):
            await started.wait()
            raise RuntimeError("enough")
    tally = (await engine.job(job)).stages["work"]
    assert (tally.waiting, tally.held) == (1, 0)


async def test_a_worker_that_cannot_go_on_ends_the_block() -> None:
    store = await open_store("sqlite://")

    class Old:
        """The real store, as one that has another schema would answer."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def claim(self, *_: Any) -> Any:
            raise SchemaMismatch("the store is newer than this code")

    with pytest.raises(SchemaMismatch):
        async with Engine(Old(), Seams()).worker(crawl()[0]):
            await asyncio.Event().wait()
    await store.close()


async def test_the_same_key_with_the_same_items_is_the_same_job(engine: Engine) -> None:
    flow, _ = crawl()
    first = await engine.submit(flow, Page("a"), key="k")
    assert await engine.submit(flow, Page("a"), key="k") == first
    assert await engine.submit(flow, Page("a"), key="k", tenant="other") != first
    with pytest.raises(headrace.Conflict):
        await engine.submit(flow, Page("b"), key="k")
    with pytest.raises(headrace.Conflict):
        await engine.submit(flow, Page("a"), key="k", item_key=lambda page: page.url)


async def test_how_items_arrive_does_not_change_what_was_submitted(engine: Engine) -> None:
    flow, _ = crawl()
    pages = [Page(f"{number}", "x" * (number % 900)) for number in range(1_500)]

    async def stream() -> AsyncIterator[Page]:
        for page in pages:
            yield page

    first = await engine.submit_many(flow, pages, key="k", item_key=lambda page: page.url)
    assert await engine.submit_many(flow, stream(), key="k", item_key=lambda page: page.url) == first
    assert (await engine.job(first)).stages["find"].total == 1_500


async def test_a_large_upload_is_visible_whole_or_not_at_all(engine: Engine) -> None:
    flow, _ = crawl()
    body = "x" * 10_000
    count = UPLOAD_BYTES * 2 // len(body)

    def broken() -> Any:
        for number in range(count):
            yield Page(str(number), body)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        await engine.submit_many(flow, broken())
    assert await engine.jobs() == []
    grant = await engine.store.claim("w", [Want("crawl", "find", 10, 10)], 5)
    assert grant.claims == ()
    job = await engine.submit_many(flow, (Page(str(number), body) for number in range(count)))
    assert (await engine.job(job)).stages["find"].total == count
    assert await engine.verify(job) == []


async def test_a_submit_whose_answer_was_lost_is_sent_again_and_opens_one_job() -> None:
    store = await open_store("sqlite://")
    flow, _ = crawl()
    told: list[Submission] = []
    heard = store.submit

    class Deaf:
        """The real store behind a line that loses the first two answers."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def submit(self, submission: Submission) -> Submitted:
            answer = await heard(submission)
            told.append(submission)
            if len(told) < 3:
                raise Unknown("the answer was lost")
            return answer

    job = await Engine(Deaf(), Seams()).submit(flow, Page("a"))
    assert [submission.job for submission in told] == [job] * 3
    engine = Engine(store, Seams())
    assert [view.id for view in await engine.jobs()] == [job]
    await store.close()


async def test_waiting_ends_with_the_timeout(engine: Engine) -> None:
    flow, _ = crawl()
    job = await engine.submit(flow, Page("a"))
    with pytest.raises(TimeoutError, match=job):
        await engine.wait(job, 0.05)


async def test_a_job_is_steered(engine: Engine) -> None:
    flow, _ = crawl()
    job = await engine.submit(flow, Page("a"), delay_s=60)
    assert await engine.pause(job)
    assert await engine.resume(job)
    assert not await engine.resume(job)
    assert await engine.cancel(job)
    assert (await engine.job(job)).state is headrace.JobState.CANCELLED
    with pytest.raises(headrace.NotFound):
        await engine.job("nobody")


async def test_dead_items_are_redriven_into_a_new_generation(engine: Engine) -> None:
    flow, broken = headrace.Flow("once"), [True]

    @flow.stage(retry=headrace.backoff(1))
    async def work(number: int) -> None:
        if broken[0] and number == 2:
            raise ValueError("not today")

    async with engine.worker(flow):
        job = await engine.submit_many(flow, range(5))
        assert (await engine.wait(job, 10)).state is headrace.JobState.FAILED
        letters = await engine.dead(DeadFilter(job=job))
        assert [letter.rule for letter in letters] == ["attempts_max"]
        broken.clear()
        broken.append(False)
        assert await engine.redrive(DeadFilter(job=job)) == 1
        view = await engine.wait(job, 10)
    assert (view.state, view.generation) == (headrace.JobState.FINISHED, 2)
    assert await engine.verify(job) == []


@pytest.mark.parametrize(
    "options",
    [{"priority": 101}, {"delay_s": -1}, {"keep_s": float("inf")}, {"key": ""}, {"tenant": "t" * 501}, {"prio": 1}],
)
async def test_options_that_cannot_work_are_refused(options: Any) -> None:
    async with headrace.connect("sqlite://") as engine:
        with pytest.raises(headrace.CallerError):
            await engine.submit(crawl()[0], Page("a"), **options)
        assert await engine.jobs() == []


async def test_a_payload_that_does_not_fit_opens_nothing() -> None:
    async with headrace.connect("sqlite://") as engine:
        with pytest.raises(headrace.InvalidPayload, match="url"):
            await engine.submit_many(crawl()[0], [Page("a"), {"address": "b"}])
        assert await engine.jobs() == []


async def test_only_a_root_stage_takes_submitted_items() -> None:
    async with headrace.connect("sqlite://") as engine:
        with pytest.raises(headrace.CallerError, match="other stages feed it"):
            await engine.submit(crawl()[0], Page("a"), stage="fetch")
        with pytest.raises(headrace.CallerError, match="no stage 'nothing'"):
            await engine.submit(crawl()[0], Page("a"), stage="nothing")


async def test_the_name_of_a_flow_is_refused_with_what_to_pass_instead(engine: Engine) -> None:
    name: Any = "crawl"
    with pytest.raises(CallerError, match="'crawl' is not a Flow") as refused:
        await engine.submit(name, Page("a"))
    assert refused.value.hint == "pass the object itself: flow = headrace.Flow(…)"
    with pytest.raises(CallerError, match="is not a Flow"):
        engine.submission(name, Page("a"))
    with pytest.raises(CallerError, match="is not a Flow"):
        engine.worker(name)


async def test_payloads_are_shown_as_values(engine: Engine) -> None:
    flow = headrace.Flow("odd")

    @flow.stage(retry=headrace.backoff(1))
    async def work(thing: Any) -> None:
        raise headrace.Dead("unwanted")

    sent = {"text": "ü", "raw": b"\xff", "at": datetime(2026, 1, 2, tzinfo=UTC), 7: [None, 1.5]}
    shown = {"text": "ü", "raw": "/w==", "at": "2026-01-02T00:00:00Z", "7": [None, 1.5]}
    async with engine.worker(flow):
        job = await engine.submit(flow, sent)
        await engine.wait(job, 10)
    (item,) = await engine.items(job, "work")
    (letter,) = await engine.dead()
    assert item.payload == letter.payload == shown
    assert json.loads(json.dumps(item.payload)) == shown
