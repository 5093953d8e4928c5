"""The poll: what an idle worker costs, and whether jobs that have finished slow it down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.tables import CassandraTables
from headrace.testing import ServiceProcess
from headrace_scheduler.bench.bench_place import BenchPlace, usage, variables
from headrace_scheduler.bench.bench_plan import FINISHED, IDLE, BenchPlan, Finding
from headrace_scheduler.bench.plain_driver import leave_tombstones, plain_session
from headrace_scheduler.frame import service_program
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cassandra_tables import CassandraJobTables
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import JobSource

WARM_S = 2.0
"""What a worker does once, when it has started, is no part of its idling."""
POLLS = 30
ROOM = 32
LOCK, LOCK_S = "bench:finished", 30.0
HOUR = timedelta(hours=1)
"""Tombstones are gone after an hour, so no more than the jobs of one are there."""


def idle_finding(place: BenchPlace, plan: BenchPlan) -> Finding:
    """The share of a core that a worker takes that finds all its buckets empty."""
    return asyncio.run(_idle(place, plan))


async def _idle(place: BenchPlace, plan: BenchPlan) -> Finding:
    with TemporaryDirectory(prefix="scheduler-bench-") as folder:
        environment = variables(place.direct) | {"WORKER_BUCKETS": str(plan.buckets)}
        async with ServiceProcess(service_program("worker", environment), Path(folder) / "idle.log") as worker:
            await asyncio.sleep(min(WARM_S, plan.idle_s))
            before, began = usage(worker.pid).cpu_s, time.perf_counter()
            await asyncio.sleep(plan.idle_s)
            used, seconds = usage(worker.pid).cpu_s - before, time.perf_counter() - began
    return {
        "part": IDLE,
        "buckets": plan.buckets,
        "seconds": round(seconds, 1),
        "core_share": round(used / seconds, 4),
    }


def finished_finding(place: BenchPlace, plan: BenchPlan) -> Finding:
    """A poll of empty buckets, and a lock that is taken and let go, before and after so many jobs of the last hour have
    finished."""
    before = asyncio.run(_medians_ms(place, plan))
    with plain_session(place.direct) as session:
        leave_tombstones(session, plan.finished, plan.buckets, HOUR)
    after = asyncio.run(_medians_ms(place, plan))
    return {
        "part": FINISHED,
        "jobs": plan.finished,
        "poll_ms_before": round(before[0], 2),
        "poll_ms_after": round(after[0], 2),
        "times": round(after[0] / before[0], 2),
        "lock_ms_before": round(before[1], 2),
        "lock_ms_after": round(after[1], 2),
    }


async def _medians_ms(place: BenchPlace, plan: BenchPlan) -> tuple[float, float]:
    """Of several polls of all buckets in which nothing is found, and of as many locks."""
    async with CassandraTables.open(place.direct, "headrace_scheduler") as tables:
        source = JobSource(AllTables.on(CassandraJobTables(tables)), JobLocks(tables.leases), plan.buckets)

        async def lock() -> None:
            leased = await tables.leases.acquire(LOCK, LOCK, LOCK_S)
            await tables.leases.release(LOCK, leased.lease.fence)

        return await _median_ms(lambda: source.poll(ROOM)), await _median_ms(lock)


async def _median_ms(act: Callable[[], Awaitable[object]]) -> float:
    found = []
    for _ in range(POLLS):
        began = time.perf_counter()
        await act()
        found.append(time.perf_counter() - began)
    return sorted(found)[POLLS // 2] * 1e3
