"""All tables of one installation, as calls: what every part of the scheduler works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace_scheduler.tables.dead_jobs import DeadJobs
from headrace_scheduler.tables.job_rows import JobRows
from headrace_scheduler.tables.job_tables import JobTables
from headrace_scheduler.tables.pending_rows import PendingRows
from headrace_scheduler.tables.run_history import RunHistory


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class AllTables:
    """`now` is the clock by which rows are dated."""

    tables: JobTables
    pending: PendingRows
    jobs: JobRows
    history: RunHistory
    dead: DeadJobs
    now: Callable[[], datetime]

    @classmethod
    def on(cls, tables: JobTables, now: Callable[[], datetime] = utc_now) -> AllTables:
        return cls(tables, PendingRows(tables, now), JobRows(tables, now), RunHistory(tables), DeadJobs(tables), now)
