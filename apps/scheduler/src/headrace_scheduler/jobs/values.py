"""What the tables hold of a job, as values.

A job has one row in `jobs_sharded`, whose key (`JobKey`) never changes. Whenever it shall run there is also a row in
`jobs_pending_by_bucket`, with a time of its own: the first is that of the job, a retry or a rerun writes a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

RESOURCE = "job:"
TOKENS_COUNTED_MAX = 2**40
"""Tokens above are moments: no lock is granted so often, and no clock is set to the first two weeks of 1970."""
STATUSES_MAX = 8
"""More statuses than one holder of a job's lock writes: `running`, `failed`, and `pending` or `dlq`."""


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


def job_of(resource: str) -> UUID | None:
    """The job whose lock this is; programs may keep locks of their own."""
    try:
        return UUID(resource.removeprefix(RESOURCE)) if resource.startswith(RESOURCE) else None
    except ValueError:
        return None


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
class JobLosses:
    """Runs of a job whose workers were lost.

    `suspect`: the last one was, and nobody knows whether the job did it. `alone_token` is the run that was begun alone
    last, `crash_tokens` are such runs that were lost.
    """

    suspect: bool = False
    alone_token: int | None = None
    crash_tokens: frozenset[int] = frozenset()


NO_LOSSES = JobLosses()


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its row in `jobs_sharded` and our row in `jobs_by_id` tell it.

    `status_us` is the `WRITETIME` of the status: a later status must be written above it, and is written one above.
    `cancel_asked_at`: somebody wanted it to run no more while it could not be locked.
    """

    key: JobKey
    payload: str | None
    status: str
    attempts: int
    status_us: int
    terms: JobTerms = NO_TERMS
    losses: JobLosses = NO_LOSSES
    cancel_asked_at: datetime | None = None

    @property
    def job_id(self) -> UUID:
        return self.key.job_id

    def under(self, token: int) -> Job:
        """The job as it was read under its lock: what is written from here on outlives all that earlier holders wrote.

        Let two holders have read the times u and v, and have the tokens s < t. Whatever the first has written before is
        read by the second, so u <= v, and u + 8s + 7 < v + 8t. No clock is in it: a status that was long on its way
        loses against one of a later holder, also if that has never seen it. Clocks of other programs only run: times
        that are made so stay behind theirs, and theirs are read and passed like any other.

        The embedded store's tokens are the microseconds of their grants, which rise by themselves and are never so
        close together: there they are the times.
        """
        counted = token < TOKENS_COUNTED_MAX
        return replace(self, status_us=self.status_us + STATUSES_MAX * token if counted else max(self.status_us, token))

    def turned(self, status: str, attempts: int) -> Job:
        """The job with its next status, read under its lock: to be written one above the status before."""
        return replace(self, status=status, attempts=attempts, status_us=self.status_us + 1)

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
