"""What a service works with: the tables and the locks, on Cassandra or in the embedded store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import headrace
from headrace.errors import OperatorError
from headrace.http import IdempotencyStore
from headrace.ports import LeaseOperation, Leases
from headrace.tables import CassandraTables, RequestKeys
from headrace_scheduler.metrics import SchedulerMetrics
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.all_tables import AllTables, utc_now
from headrace_scheduler.tables.cassandra_tables import CassandraJobTables
from headrace_scheduler.tables.embedded_tables import TABLES, EmbeddedJobTables
from headrace_scheduler.tables.installation import Installation, installation
from headrace_scheduler.tables.job_tables import JobTables
from headrace_scheduler.tables.request_keys import CassandraRequestKeys
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.observed_leases import ObservedLeases

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import CollectorRegistry

PACKAGE = "headrace_scheduler"


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """It owns none of it. `answers` is the light query of `/healthz`."""

    settings: SchedulerSettings
    tables: AllTables
    leases: Leases
    installation: Installation
    request_keys: IdempotencyStore
    metrics: SchedulerMetrics
    answers: Callable[[], Awaitable[object]]

    @property
    def locks(self) -> JobLocks:
        return JobLocks(self.leases)

    @property
    def registry(self) -> CollectorRegistry:
        return self.metrics.registry


@dataclass(frozen=True, slots=True)
class OpenedTables:
    """Tables and locks alone, as they lie on their server or in their file."""

    tables: JobTables
    leases: Leases
    request_keys: IdempotencyStore
    answers: Callable[[], Awaitable[object]]
    clock_ahead_s: Callable[[], float] = lambda: 0.0
    now: Callable[[], datetime] = utc_now


@asynccontextmanager
async def open_parts(settings: SchedulerSettings) -> AsyncIterator[SchedulerParts]:
    """Open tables and locks for a service. `SchemaMismatch`: they were made for other settings."""
    from prometheus_client import CollectorRegistry

    metrics = SchedulerMetrics(CollectorRegistry())
    async with open_tables(settings, metrics.lease_used) as opened:
        metrics.watch_clock(opened.clock_ahead_s)
        tables = AllTables.on(opened.tables, opened.now)
        tables.unread.observe = metrics.unread
        yield SchedulerParts(
            settings,
            tables,
            opened.leases,
            await installation(opened.tables, settings.buckets),
            opened.request_keys,
            metrics,
            opened.answers,
        )


@asynccontextmanager
async def open_tables(
    settings: SchedulerSettings, observe: Callable[[LeaseOperation], None] = lambda _: None
) -> AsyncIterator[OpenedTables]:
    """Open tables and locks, and give everything back at the end. The embedded store is made if it is missing; the
    tables of Cassandra are made by `headrace scheduler schema`."""
    if settings.home is None:
        async with CassandraTables.open(settings.cassandra_url, PACKAGE, observe=observe) as session:
            tables = CassandraJobTables(session)
            keys = CassandraRequestKeys(tables)
            skew, now = partial(_clock_ahead_s, session), partial(checked_now, session, settings.lock_ttl_s)
            yield OpenedTables(tables, session.leases, keys, tables.answers, skew, now)
        return
    make_home(settings.home)
    async with headrace.connect(settings.engine_url, tables=TABLES) as engine:
        leases = ObservedLeases(engine.leases, observe)
        yield OpenedTables(EmbeddedJobTables(engine), leases, RequestKeys(engine), engine.answers)


def _clock_ahead_s(session: CassandraTables) -> float:
    return session.leases.skew.offset_s


def checked_now(session: CassandraTables, hold_s: float) -> datetime:
    """The clock by which rows are dated. `ClockSkewed` if it is too wrong for locks: no job would be due when it should
    be, and no schedule fire."""
    session.leases.check_clock(hold_s)
    return utc_now()


def make_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(f"SCHEDULER_HOME = {home} cannot be made: {error.strerror}", "name a directory") from None
