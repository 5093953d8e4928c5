"""Whoever works under a lock without renewing it, and is frozen until it has expired, writes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from scheduler_losses import run_out
from scheduler_world import World
from waiting import eventually

from headrace.errors import Conflict, Unknown
from headrace_scheduler.api.job_requests import JobRequests
from headrace_scheduler.handlers.registry import HandlerRegistry
from headrace_scheduler.jobs.values import Job, JobStatus
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler

# So long a request or a reconciler has, on a busy machine as well, to come to where it is frozen.
BRIEF_S = 2.0


def quick_requests(world: World) -> JobRequests:
    """Whose locks soon expire."""
    return JobRequests(world.tables, world.parts.locks, HandlerRegistry({}), world.parts.installation.buckets, BRIEF_S)


@asynccontextmanager
async def frozen_at(world: World, statement: str, work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """While somebody stands still before a statement, under a lock that has expired; then it goes on."""
    world.recorded.names.clear()
    world.recorded.gates[statement] = gate = asyncio.Event()
    working = asyncio.ensure_future(work)
    await eventually(lambda: statement in world.recorded.names, "it is there")
    del world.recorded.gates[statement]

    async def free() -> bool:
        return all([lease.free async for lease in world.parts.leases.leases()])

    await eventually(free, "its lock has expired")
    yield working
    gate.set()
    await asyncio.wait([working])


async def run_through(world: World, job_id: UUID) -> None:
    item = await world.hold(job_id, "another")
    assert item is not None
    assert await world.source.settle(item, world.settlement())


async def test_a_late_cancel_changes_no_end(embedded: World) -> None:
    job = await embedded.create()
    async with frozen_at(embedded, "job_status", quick_requests(embedded).cancel(job.job_id)) as cancelling:
        await run_through(embedded, job.job_id)
    with pytest.raises(Unknown):
        await cancelling
    assert await embedded.status(job.job_id) == JobStatus.COMPLETED


async def ended(world: World) -> Job:
    job = await world.create()
    await run_through(world, job.job_id)
    return job


async def test_a_late_rerun_runs_nothing_twice(embedded: World) -> None:
    """The client was not answered and asks again: the job waits already, and the reconciler does the rest."""
    job = await ended(embedded)
    async with frozen_at(embedded, "pending_add", quick_requests(embedded).run_again(job.job_id)) as first:
        with pytest.raises(Conflict):
            await embedded.requests.run_again(job.job_id)
        embedded.clock.move(seconds=YOUNG.total_seconds() + 1)
        assert await JobReconciler(embedded.parts).look() == 1
        await run_through(embedded, job.job_id)
    with pytest.raises(Unknown):
        await first
    assert await embedded.candidates() == []
    assert await embedded.status(job.job_id) == JobStatus.COMPLETED


async def test_a_late_reconciler_puts_back_nothing_that_has_run(embedded: World) -> None:
    world = embedded
    job = await world.create()
    assert await world.hold(job.job_id, "gone") is not None
    await run_out(world, job.job_id)
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    quick = replace(world.parts, settings=replace(world.parts.settings, lock_ttl_ms=int(BRIEF_S * 1_000)))
    async with frozen_at(world, "pending_add", JobReconciler(quick).look()) as first:
        assert await JobReconciler(world.parts).look() == 1
        await run_through(world, job.job_id)
    assert await first == 0
    assert await world.candidates() == []
    assert await world.status(job.job_id) == JobStatus.COMPLETED
