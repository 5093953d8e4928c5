"""Looking for work: woken by a ring, or by a poll where a ring was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from runtime_bench import QUICK, Bench
from waiting import eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Grant, Want
from headrace.core.retry import RetryPolicy
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow

AT_ONCE = RetryPolicy(attempts_max=3, first_s=0)


async def test_an_idle_worker_is_woken_by_a_submit(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage
    async def one(number: int) -> None: ...

    patient = type(QUICK)(hold_s=30, poll_s=30)
    async with bench.worker(flow, options=patient):
        await bench.ended(await bench.submit(flow, 1))
        await bench.ended(await bench.submit(flow, 2))


async def test_a_chain_of_stages_never_waits_for_a_poll(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        out.send("two", number)

    @flow.stage(feeds="three", retry=AT_ONCE)
    async def two(number: int, out: Out, context: Context) -> None:
        if context.attempt == 1:
            raise ValueError("once more")
        out.send("three", number)

    @flow.stage
    async def three(number: int) -> None: ...

    @flow.stage(after="three")
    async def last() -> None: ...

    job = await bench.submit(flow, *range(10))
    async with bench.worker(flow, options=type(QUICK)(hold_s=30, poll_s=30)):
        assert (await bench.ended(job)).stages["last"].done == 1


async def test_a_busy_stage_does_not_keep_others_from_being_looked_at(bench: Bench) -> None:
    busy, quiet = Flow("busy"), Flow("quiet")

    @busy.stage
    async def endless(number: int) -> None: ...

    @quiet.stage
    async def rare(number: int) -> None: ...

    deaf = Deaf(bench.store)
    first = await bench.submit(busy, *range(20_000))
    async with bench.worker(busy, quiet, store=deaf):
        await eventually(lambda: deaf.claims > 5, "the busy stage is claimed again and again")
        await bench.ended(await bench.submit(quiet, 1))
        assert not await bench.store.finishes(first)


class Deaf:
    """A store that never rings and gives so little that a busy stage always wants more."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self.claims = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        self.claims += 1
        return await self._store.claim(worker, [replace(want, room=1) for want in wants], hold_s)


class Slow(Deaf):
    """A store that rings, and in which a job arrives just after a claim has found nothing and before it says so."""

    def __init__(self, store: SqliteStore, arrive: Callable[[], Awaitable[object]]) -> None:
        super().__init__(store)
        self._arrive, self._rung = arrive, asyncio.Event()

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def heard() -> None:
            ring()
            loop.call_soon_threadsafe(self._rung.set)

        return self._store.on_wake(heard)

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        grant = await super().claim(worker, wants, hold_s)
        if self.claims == 1:
            await self._arrive()
            await self._rung.wait()
        return grant


async def test_a_ring_while_the_store_was_looking_is_not_lost(bench: Bench) -> None:
    flow, jobs = Flow("digest"), []

    @flow.stage
    async def one(number: int) -> None: ...

    async def arrive() -> None:
        jobs.append(await bench.submit(flow, 1))

    patient = type(QUICK)(hold_s=30, poll_s=30)
    async with bench.worker(flow, options=patient, store=Slow(bench.store, arrive)):
        await eventually(lambda: bool(jobs), "the job has arrived")
        await bench.ended(jobs[0])


async def test_a_delayed_item_runs_when_it_is_due(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        out.send("two", number, delay_s=0.1)

    @flow.stage
    async def two(number: int) -> None: ...

    patient = type(QUICK)(hold_s=30, poll_s=30)
    job = await bench.submit(flow, 1)
    async with bench.worker(flow, options=patient):
        assert (await bench.ended(job)).stages["two"].done == 1
