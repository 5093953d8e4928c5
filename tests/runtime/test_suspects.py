"""Suspects: the unsettled items of a lost claim run as the only thing their process does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from runtime_bench import Bench
from waiting import eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Grant
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import Context
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

SHORT = WorkerOptions(hold_s=0.4, poll_s=0.05, partial_s=0.05, grace_s=0.1)


async def _lose_a_claim(bench: Bench, flow: Flow, started: asyncio.Event) -> None:
    """A worker that ends without a word: its claims expire."""
    running = asyncio.ensure_future(Worker(bench.store, [flow], options=SHORT).run())
    await started.wait()
    running.cancel()
    await asyncio.wait([running])
    started.clear()


@pytest.mark.parametrize("as_list", [False, True])
async def test_suspects_run_one_at_a_time_and_nothing_beside_them(bench: Bench, as_list: bool) -> None:
    flow, started, lost = Flow("digest"), asyncio.Event(), False
    running: set[str] = set()
    beside: list[set[str]] = []
    waves: list[int] = []

    async def work(name: str) -> None:
        started.set()
        if not lost:
            await asyncio.Event().wait()
        running.add(name)
        if name.startswith("suspect"):
            beside.append(set(running))
        await asyncio.sleep(0.002)
        running.discard(name)

    if as_list:

        @flow.stage(batch=5, name="one", concurrency=4)
        async def many(names: list[str]) -> None:
            waves.append(len(names))
            for name in names:
                await work(name)

    else:

        @flow.stage(concurrency=4, name="one")
        async def single(name: str) -> None:
            await work(name)

    job = await bench.submit(flow, *(f"suspect {number}" for number in range(6)))
    await _lose_a_claim(bench, flow, started)
    held = (await bench.store.job(job)).stages["one"].held
    assert held > 0
    lost = True
    other = await bench.submit(flow, *(f"other {number}" for number in range(200)))
    async with bench.worker(flow, options=SHORT):
        view = await bench.ended(job)
        await bench.ended(other)
    assert view.stages["one"].done == 6
    assert len([names for names in beside if len(names) == 1]) >= held
    assert waves.count(1) >= held or not as_list


async def test_a_suspect_is_settled_before_the_next_one_starts(bench: Bench) -> None:
    flow, started, lost, seen = Flow("digest"), asyncio.Event(), False, []

    @flow.stage(concurrency=8)
    async def one(number: int, context: Context) -> Any:
        started.set()
        if not lost:
            await asyncio.Event().wait()
        tally = (await bench.store.job(context.job)).stages["one"]
        seen.append(tally.done)

    job = await bench.submit(flow, *range(8))
    await _lose_a_claim(bench, flow, started)
    held = (await bench.store.job(job)).stages["one"].held
    lost = True
    async with bench.worker(flow, options=SHORT):
        assert (await bench.ended(job)).state is JobState.FINISHED
    alone = seen[-held:]
    assert alone == list(range(8 - held, 8))


async def test_a_suspect_that_fails_or_hangs_is_judged_like_any_other(bench: Bench) -> None:
    flow, started, lost = Flow("digest"), asyncio.Event(), False

    @flow.stage(concurrency=4, timeout_s=0.3, retry=RetryPolicy(attempts_max=1), tolerate=2)
    async def one(number: int) -> None:
        started.set()
        if not lost:
            await asyncio.Event().wait()
        if number == 0:
            raise ValueError("zero")
        while number == 1 and lost:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    job = await bench.submit(flow, *range(4))
    await _lose_a_claim(bench, flow, started)
    lost = True
    async with bench.worker(flow, options=SHORT):
        view = await bench.ended(job)
        lost = False
    assert (view.stages["one"].done, view.stages["one"].dead) == (2, 2)
    assert {letter.reason for letter in await bench.dead(job)} == {"ValueError", "timeout"}


async def test_a_worker_that_drains_gives_its_suspects_back(bench: Bench) -> None:
    flow, started, lost, release = Flow("digest"), asyncio.Event(), False, asyncio.Event()

    @flow.stage(concurrency=4)
    async def one(number: int) -> None:
        started.set()
        await (release if lost else asyncio.Event()).wait()

    job = await bench.submit(flow, *range(4))
    await _lose_a_claim(bench, flow, started)
    lost = True

    async def no_claim_is_left() -> bool:
        await bench.store.sweep()
        return (await bench.store.job(job)).stages["one"].held == 0

    await eventually(no_claim_is_left, "no claim is left")
    worker = Worker(bench.store, [flow], options=SHORT)
    running = asyncio.ensure_future(worker.run())
    await started.wait()
    worker.drain()
    release.set()
    await asyncio.wait_for(running, 5)
    tally = (await bench.store.job(job)).stages["one"]
    assert (tally.held, tally.dead) == (0, 0)
    assert tally.done >= 1


async def test_nothing_else_is_held_while_a_suspect_runs(bench: Bench) -> None:
    flow, started, lost = Flow("digest"), asyncio.Event(), False
    held: dict[int, tuple[int, list[int]]] = {}

    @flow.stage(concurrency=50)
    async def one(number: int, context: Context) -> None:
        started.set()
        if not lost:
            await asyncio.Event().wait()
        claims = [claim.fence for claim in (await bench.store.audit(context.job)).claims if claim.live]
        held[context.seq] = context.fence, claims

    job = await bench.submit(flow, *range(100))
    await _lose_a_claim(bench, flow, started)
    suspects = [claim for claim in (await bench.store.audit(job)).claims if claim.live]
    assert sum(claim.hi - claim.lo for claim in suspects) > 32, "more than one claim of suspects at a time"
    lost = True
    async with bench.worker(flow, options=SHORT):
        await bench.ended(job)
    for claim in suspects:
        for index in range(claim.lo, claim.hi):
            fence, fences = held[claim.chunk * 1024 + index]
            assert fences == [fence]


class Noting:
    """A store that notes when it grants a claim of suspects."""

    def __init__(self, store: SqliteStore, notes: list[str]) -> None:
        self._store, self._notes = store, notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *arguments: Any) -> Grant:
        grant = await self._store.claim(*arguments)
        self._notes += ["granted" for claim in grant.claims if claim.alone]
        return grant


async def test_nothing_is_started_between_the_grant_of_a_suspect_and_its_start(bench: Bench) -> None:
    risky, busy = Flow("risky"), Flow("busy")
    started, lost, notes = asyncio.Event(), False, list[str]()

    @risky.stage
    async def one(number: int) -> None:
        started.set()
        notes.append("suspect")
        if not lost:
            await asyncio.Event().wait()

    @busy.stage(concurrency=1)
    async def other(number: int) -> None:
        notes.append("other")
        await asyncio.sleep(0.002)

    job = await bench.submit(risky, 1)
    await _lose_a_claim(bench, risky, started)
    lost = True
    notes.clear()
    beside = await bench.submit(busy, *range(2_000))
    async with bench.worker(risky, busy, options=SHORT, store=Noting(bench.store, notes)):
        await bench.ended(job)
        await bench.store.cancel(beside)
    granted = notes.index("granted")
    assert "other" in notes[:granted]
    assert notes[granted + 1] == "suspect"
