"""All tables of one installation, as calls: what every part of the scheduler works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace_scheduler.jobs.values import Job, Pending
from headrace_scheduler.tables.cancel_requests import CancelRequests
from headrace_scheduler.tables.dead_jobs import DeadJobs
from headrace_scheduler.tables.job_rows import JobRows
from headrace_scheduler.tables.job_tables import JobTables
from headrace_scheduler.tables.pending_rows import PendingRows
from headrace_scheduler.tables.refused_jobs import RefusedJobs
from headrace_scheduler.tables.run_history import RunHistory
from headrace_scheduler.tables.unread_rows import UnreadRows
from headrace_scheduler.tenants.queue_registry import QueueRegistry


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class AllTables:
    """`refused` is what polls leave out, `now` the clock by which rows are dated."""

    tables: JobTables
    pending: PendingRows
    jobs: JobRows
    history: RunHistory
    dead: DeadJobs
    queues: QueueRegistry
    cancels: CancelRequests
    refused: RefusedJobs
    unread: UnreadRows
    now: Callable[[], datetime]

    async def add_waiting(self, job: Job) -> None:
        """A new job that shall run. By its id it is found from the first write on; its row and its pending row come
        together."""
        key = job.key
        waiting = Pending(key.bucket_id, key.scheduled_time, key.job_id, job.payload, job.status_us)
        await self.jobs.add(job, await self.pending.addition(waiting))

    @classmethod
    def on(cls, tables: JobTables, now: Callable[[], datetime] = utc_now) -> AllTables:
        unread = UnreadRows()
        queues, refused = QueueRegistry(tables, now, unread), RefusedJobs(now)
        pending = PendingRows(tables, now, queues=queues, refused=refused)
        return cls(
            tables,
            pending,
            JobRows(tables, now, unread),
            RunHistory(tables),
            DeadJobs(tables),
            queues,
            CancelRequests(tables),
            refused,
            unread,
            now,
        )
