"""A scheduler for tests: its parts, its source and its requests, with a clock that can be set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import uuid_utils

from headrace.adapters.cassandra.session import CassandraSession
from headrace.adapters.cassandra.statements import CqlStatement
from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState
from headrace.tables import CassandraOptions, Row
from headrace_scheduler.api.job_requests import JobRequests, JobWish
from headrace_scheduler.handlers.registry import HandlerRegistry, builtin_handlers
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import NO_TERMS, Job, JobKey, JobTerms, Pending
from headrace_scheduler.parts import SchedulerParts, open_parts
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_rows import ScannedJob
from headrace_scheduler.tables.job_tables import JobTables, Write, micros
from headrace_scheduler.tables.pending_rows import LONG_AGO
from headrace_scheduler.work.job_source import JobSource

BUCKETS = "4"
HOLD_S = 30.0
STRAYS = (-7, 99, 1_999_999)
# The last write time there is; at the same time a deletion wins.
LAST_US = 2**63 - 1
"""Buckets that nobody of ours writes to."""
_JOB = ("bucket_id", "scheduled_time", "job_id")
KEYS = {
    "jobs_sharded": _JOB,
    "jobs_pending_by_bucket": _JOB,
    "jobs_dlq": ("job_id",),
    "cron_schedules": ("schedule_id",),
}


class HandClock:
    """The clock by which rows are dated: the machine's, moved by hand."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def move(self, **span: float) -> None:
        self.ahead += timedelta(**span)


@dataclass
class RecordedTables:
    """The statements that pass, by name; one whose name is in `broken` fails once, and one in `gates` waits there. Of
    writes that go together the others are applied by then: a part may be."""

    inner: JobTables
    names: list[str] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        await self._pass(name)
        return await self.inner.rows(name, **values)

    async def together(self, *writes: Write) -> None:
        at_once = [write for write in writes if write[0] not in self.broken | self.gates]
        self.names += [name for name, _ in at_once]
        if at_once:
            await self.inner.together(*at_once)
        for name, values in writes:
            if name in self.broken | self.gates:
                await self.rows(name, **values)

    async def _pass(self, name: str) -> None:
        self.names.append(name)
        if name in self.broken:
            raise self.broken.pop(name)
        if name in self.gates:
            await self.gates[name].wait()

    def written(self) -> list[str]:
        """Statements that change something, since the last call."""
        found = [name for name in self.names if name.endswith(("_add", "_delete", "_status", "_begin", "_end"))]
        self.names.clear()
        return found


@dataclass
class World:
    """`source` is one worker's, `requests` what clients ask."""

    parts: SchedulerParts
    clock: HandClock
    recorded: RecordedTables
    tables: AllTables
    source: JobSource
    requests: JobRequests

    async def create(
        self, payload: dict[str, Any] | None = None, schedule: str = "now", terms: JobTerms = NO_TERMS
    ) -> Job:
        return await self.requests.create(JobWish(schedule, payload or {}, terms), str(uuid_utils.uuid7()))

    async def insert_foreign(
        self, bucket_id: int, at: datetime, payload: str = "{}", written: datetime | None = None
    ) -> UUID:
        """The two rows that a program writes that knows nothing of ours."""
        job_id, at = uuid4(), whole_ms(at)
        key = {"bucket_id": bucket_id, "scheduled_time": at, "job_id": job_id}
        written_us = micros(written or self.clock())
        await self.recorded.inner.rows("job_add", **key, payload=payload, status="pending", written_us=written_us)
        await self.tables.pending.add(Pending(bucket_id, at, job_id, payload, written_us))
        return job_id

    async def candidates(self) -> list[ItemCandidate]:
        return list((await self.source.poll(1_000)).candidates)

    async def hold(self, job_id: UUID, holder: str = "one", hold_s: float = HOLD_S) -> HeldItem | None:
        """Hold a job as a worker would: found by a poll."""
        found = [each for each in await self.candidates() if each.key == str(job_id)]
        return await self.source.hold(found[0], holder, hold_s) if found else None

    def settlement(self, state: ItemState = ItemState.DONE, **more: Any) -> ItemSettlement:
        return ItemSettlement(state, more.pop("attempts", 0), self.clock().timestamp(), **more)

    async def rows(self) -> list[ScannedJob]:
        """Every job that is due within the hour."""
        until = self.clock() + timedelta(hours=1)
        first = [JobKey(bucket, LONG_AGO, UUID(int=0)) for bucket in range(self.parts.installation.polled)]
        pages = [await self.tables.jobs.scan(key.bucket_id, key, until, 500) for key in first]
        return [row for page in pages for row in page]

    async def status(self, job_id: UUID) -> str:
        job = await self.tables.jobs.find(job_id)
        return job.status if job is not None else "unknown"


@asynccontextmanager
async def open_world(settings: SchedulerSettings) -> AsyncIterator[World]:
    async with open_parts(settings) as opened:
        clock, recorded = HandClock(), RecordedTables(opened.tables.tables)
        tables = AllTables.on(recorded, clock)
        parts = replace(opened, tables=tables)
        handlers = HandlerRegistry(builtin_handlers(settings))
        buckets = parts.installation.buckets
        source = JobSource(tables, parts.locks, parts.installation.polled)
        yield World(parts, clock, recorded, tables, source, JobRequests(tables, parts.locks, handlers, buckets, HOLD_S))


def patient(options: CassandraOptions) -> CassandraOptions:
    """For a server that is busy with other tests."""
    return replace(options, timeout_s=60.0, connect_timeout_s=60.0)


async def clean(options: CassandraOptions) -> None:
    """Empty the tables row by row, which is faster than truncating them. What was written at the last time there is
    goes as well, and a deletion that is dated so hides nothing but the row of a job that is over."""
    session = await CassandraSession.open(patient(options))
    try:
        for table, key in KEYS.items():
            found = f"all_{table}"
            await session.prepare({found: CqlStatement.of(found, f"SELECT {', '.join(key)} FROM {table}")})
            where = " AND ".join(f"{name} = :{name}" for name in key)
            one = CqlStatement.of(f"one_{table}", f"DELETE FROM {table} USING TIMESTAMP {LAST_US} WHERE {where}")
            await session.prepare({one.name: one})
            for row in (await session.run(found)).rows:
                await session.run(one.name, dict(zip(key, row, strict=True)))
        for bucket in (*range(int(BUCKETS) + 4), *STRAYS):
            await session.define(f"DELETE FROM jobs_overdue WHERE bucket_id = {bucket}")
        for name in ("buckets", "buckets_polled"):
            await session.define(f"DELETE FROM scheduler_settings WHERE name = '{name}' IF EXISTS")
        await session.define("DELETE FROM locks WHERE resource_id = 'scheduler:reconciler' IF EXISTS")
    finally:
        await session.close()
