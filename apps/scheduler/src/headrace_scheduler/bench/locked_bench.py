"""Rows that another program has locked: how long they hide a job that waits behind them."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from headrace.tables import CassandraTables
from headrace_scheduler.bench.bench_place import BenchPlace
from headrace_scheduler.bench.bench_plan import LOCKED, BenchPlan, Finding
from headrace_scheduler.bench.plain_driver import WaitingJob, fill, lock, new_jobs, plain_session
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cassandra_tables import CassandraJobTables
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import JobSource

ROOM = 16
"""What a worker with the default of WORKER_MAX_IN_PROGRESS polls for."""
POLL_S = 0.5
HIDDEN_S_MAX = 600.0
HOUR = timedelta(hours=1)


def locked_finding(place: BenchPlace, plan: BenchPlan) -> Finding:
    """Until a job is held that is due behind so many of one bucket, which are locked for an hour."""
    *locked, behind = new_jobs(plan.locked + 1, 1)
    with plain_session(place.direct) as session:
        fill(session, [*locked, behind])
        lock(session, locked, datetime.now(UTC) + HOUR)
    seconds, refused = asyncio.run(_hidden(place, behind))
    return {"part": LOCKED, "locked": plan.locked, "hidden_s": round(seconds, 2), "refused": refused}


async def _hidden(place: BenchPlace, behind: WaitingJob) -> tuple[float, int]:
    async with CassandraTables.open(place.direct, "headrace_scheduler") as tables:
        source = JobSource(AllTables.on(CassandraJobTables(tables)), JobLocks(tables.leases), 1)
        began, refused = time.perf_counter(), 0
        async with asyncio.timeout(HIDDEN_S_MAX):
            while True:
                found = (await source.poll(ROOM)).candidates
                held = await asyncio.gather(*(source.hold(each, "bench", 30.0) for each in found))
                refused += held.count(None)
                for each in filter(None, held):
                    if each.key == str(behind.job_id):
                        return time.perf_counter() - began, refused
                if not found:
                    await asyncio.sleep(POLL_S)
