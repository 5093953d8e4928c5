"""What a service works with: the tables and the locks, on Cassandra or in the embedded store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import headrace
from headrace.errors import OperatorError
from headrace.http import IdempotencyStore
from headrace.ports import Leases
from headrace.tables import CassandraTables, RequestKeys
from headrace_scheduler.metrics import SchedulerMetrics
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cassandra_tables import CassandraJobTables
from headrace_scheduler.tables.embedded_tables import TABLES, EmbeddedJobTables
from headrace_scheduler.tables.installation import Installation, installation
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


@asynccontextmanager
async def open_parts(settings: SchedulerSettings) -> AsyncIterator[SchedulerParts]:
    """Open tables and locks, and give everything back at the end. The embedded store is made if it is missing; the
    tables of Cassandra are made by `headrace scheduler schema`."""
    from prometheus_client import CollectorRegistry

    metrics = SchedulerMetrics(CollectorRegistry())
    opened = _cassandra if settings.home is None else _embedded
    async with opened(settings, metrics) as parts:
        yield parts


@asynccontextmanager
async def _embedded(settings: SchedulerSettings, metrics: SchedulerMetrics) -> AsyncIterator[SchedulerParts]:
    assert settings.home is not None
    make_home(settings.home)
    async with headrace.connect(settings.engine_url, tables=TABLES) as engine:
        tables = EmbeddedJobTables(engine)
        yield SchedulerParts(
            settings,
            AllTables.on(tables),
            ObservedLeases(engine.leases, metrics.lease_used),
            await installation(tables, settings.buckets),
            RequestKeys(engine),
            metrics,
            engine.answers,
        )


@asynccontextmanager
async def _cassandra(settings: SchedulerSettings, metrics: SchedulerMetrics) -> AsyncIterator[SchedulerParts]:
    async with CassandraTables.open(settings.cassandra_url, PACKAGE, observe=metrics.lease_used) as session:
        tables = CassandraJobTables(session)
        yield SchedulerParts(
            settings,
            AllTables.on(tables),
            session.leases,
            await installation(tables, settings.buckets),
            CassandraRequestKeys(tables),
            metrics,
            tables.answers,
        )


def make_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(f"SCHEDULER_HOME = {home} cannot be made: {error.strerror}", "name a directory") from None
