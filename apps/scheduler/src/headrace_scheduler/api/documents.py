"""Jobs as JSON: what clients send, and what they get."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

from headrace_scheduler.api.job_requests import JobDetail
from headrace_scheduler.jobs.texts import payload_value, time_text
from headrace_scheduler.jobs.values import DeadJob, Job, JobRun, JobStatus, JobTerms
from headrace_scheduler.tables.job_list import ListedJob
from headrace_scheduler.tables.job_rows import JobSummary
from headrace_scheduler.tenants.tenant_queue import JobPriority

DURATION_S_MAX = 86_400.0
DURATION_S_DEFAULT = 60.0


class JobBody(BaseModel):
    """The body of `POST /jobs`."""

    model_config = ConfigDict(extra="forbid")

    schedule: StrictStr = Field("now", max_length=200)
    payload: dict[str, Any] = Field(default_factory=dict)
    max_duration_seconds: Annotated[StrictInt | StrictFloat, Field(gt=0, le=DURATION_S_MAX)] = DURATION_S_DEFAULT
    callback_url: StrictStr | None = Field(None, max_length=2_000, pattern=r"^https?://[^\s]+$")
    priority: JobPriority = JobPriority.NORMAL

    def terms(self, correlation_id: str) -> JobTerms:
        return JobTerms(float(self.max_duration_seconds), self.callback_url, correlation_id)


def created_document(job: Job) -> dict[str, Any]:
    return {
        "job_id": str(job.job_id),
        "status": job.status,
        "scheduled_time": time_text(job.key.scheduled_time),
    }


def job_document(found: JobDetail) -> dict[str, Any]:
    job, queue, last_run = found.job, found.queue, found.last_run
    return {
        "job_id": str(job.job_id),
        "status": job.status,
        "attempts": job.attempts,
        "scheduled_time": time_text(job.key.scheduled_time),
        "payload": payload_value(job.payload),
        "last_run": None if last_run is None else run_document(last_run),
        "tenant": queue.tenant,
        "priority": queue.priority,
        **_told(job.status, job.attempts, found.summary),
    }


def run_document(run: JobRun) -> dict[str, Any]:
    return {
        "run_id": str(run.run_id),
        "worker_id": run.worker_id,
        "fencing_token": run.fencing_token,
        "start_at": time_text(run.start_at),
        "end_at": time_text(run.end_at),
        "status": run.status,
    }


def listed_document(job: ListedJob) -> dict[str, Any]:
    row = job.row
    return {
        "job_id": str(row.key.job_id),
        "status": row.status,
        "attempts": row.attempts,
        "scheduled_time": time_text(row.key.scheduled_time),
        "tenant": job.queue.tenant,
        "priority": job.queue.priority,
        **_told(row.status, row.attempts, job.summary),
    }


def _told(status: str, attempts: int, summary: JobSummary) -> dict[str, Any]:
    """`due_at` and `waits_for` are for a job that waits: when its own time, or that of a retry or rerun, comes, and
    what it waits for."""
    waits = status == JobStatus.PENDING
    return {
        "type": summary.payload_type,
        "due_at": time_text(summary.pending_time) if waits else None,
        "waits_for": _reason(attempts, summary) if waits else None,
        "last_error": summary.last_error,
    }


def _reason(attempts: int, summary: JobSummary) -> str:
    if summary.suspect:
        return "alone"
    return "retry" if attempts else "worker"


def dead_document(dead: DeadJob) -> dict[str, Any]:
    return {
        "job_id": str(dead.job_id),
        "attempts": dead.attempts,
        "last_error": dead.last_error,
        "last_attempt_at": time_text(dead.last_attempt_at),
        "payload": payload_value(dead.payload),
        "error_class": dead.error_class,
        "correlation_id": dead.correlation_id,
    }
