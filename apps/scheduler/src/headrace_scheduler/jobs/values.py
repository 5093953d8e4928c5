"""What the tables hold of a job, as values.

A job has one row in `jobs_sharded`, whose key (`JobKey`) never changes. Whenever it shall run there is also a row in
`jobs_pending_by_bucket`, with a time of its own: the first is that of the job, a retry or a rerun writes a later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

RESOURCE = "job:"


class JobStatus(StrEnum):
    """The states of a job in `jobs_sharded.status`; a row that another program wrote may hold any other word.

    `cancelled` is ours: somebody asked that the job runs no more.
    """

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    DLQ = "dlq"
    CANCELLED = "cancelled"


ENDED = frozenset({JobStatus.COMPLETED, JobStatus.DLQ, JobStatus.CANCELLED})
"""States that nothing follows by itself. `failed` is none: a retry does."""


def resource_of(job_id: UUID) -> str:
    """The lock of a job."""
    return f"{RESOURCE}{job_id}"


@dataclass(frozen=True, slots=True)
class JobKey:
    """Where the job's row in `jobs_sharded` is."""

    bucket_id: int
    scheduled_time: datetime
    job_id: UUID


@dataclass(frozen=True, slots=True)
class Pending:
    """A row of `jobs_pending_by_bucket`. `written_us` is when it was written, by the clock of its writer."""

    bucket_id: int
    scheduled_time: datetime
    job_id: UUID
    payload: str | None = None
    written_us: int = 0


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What was asked for with a job beside its payload; a row that another program wrote has none of it."""

    max_duration_seconds: float | None = None
    callback_url: str | None = None
    correlation_id: str | None = None


NO_TERMS = JobTerms()


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its row in `jobs_sharded` and our row in `jobs_by_id` tell it.

    `status_us` is the `WRITETIME` of the status: a later status must be written above it.
    """

    key: JobKey
    payload: str | None
    status: str
    attempts: int
    status_us: int
    terms: JobTerms = NO_TERMS

    @property
    def job_id(self) -> UUID:
        return self.key.job_id

    @property
    def ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class JobRun:
    """A row of `job_history`: one run of a job by one worker under one token."""

    job_id: UUID
    run_id: UUID
    worker_id: str | None
    fencing_token: int | None
    start_at: datetime | None
    end_at: datetime | None = None
    status: str | None = JobStatus.RUNNING


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A row of `jobs_dlq`. What is behind `payload` may be missing in rows of other programs."""

    job_id: UUID
    attempts: int
    last_error: str
    last_attempt_at: datetime
    payload: str | None
    error_class: str | None = None
    stack: str | None = None
    correlation_id: str | None = None
