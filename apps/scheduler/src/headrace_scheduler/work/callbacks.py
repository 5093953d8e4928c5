"""Callbacks: whoever created a job is told how it ended, by another job.

The call is a job of the type `http`, so it is retried, allowed or refused like any other, and a target that stays away
leaves a row in the dead-letter table. It is created before the run is said to be over, with an id that follows from the
run: a run that ends is announced at least once, and a repeated settlement announces nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.texts import payload_text
from headrace_scheduler.jobs.values import Job, JobKey, JobRun, JobStatus, JobTerms
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_tables import micros
from headrace_scheduler.tenants.tenant_queue import bucket_beside

CALLBACKS = UUID("0f2d6d55-2f0e-5a0f-8a9d-3c1b7e6a9d21")
"""The namespace of the ids of callbacks."""
CALL_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that is about to be over; `end` is what is told of it beside its ids."""

    job: Job
    run: JobRun
    at: datetime
    end: Mapping[str, Any]


def callback_payload(url: str) -> dict[str, Any]:
    """The call, but for what it tells."""
    return {"type": "http", "method": "POST", "url": url}


async def announce(tables: AllTables, buckets: int, ended: EndedRun) -> None:
    """Enqueue the call that tells of this run's end, if somebody asked for one."""
    terms, run = ended.job.terms, ended.run
    if terms.callback_url is None:
        return
    job_id = uuid5(CALLBACKS, str(run.run_id))
    body = {"job_id": str(run.job_id), "run_id": str(run.run_id), "fencing_token": run.fencing_token, **ended.end}
    payload = payload_text({**callback_payload(terms.callback_url), "body": body})
    key = JobKey(bucket_beside(ended.job.key.bucket_id, job_id, buckets), whole_ms(ended.at), job_id)
    own = JobTerms(CALL_S_MAX, None, terms.correlation_id)
    call = Job(key, payload, JobStatus.PENDING, 0, micros(ended.at), own)
    await tables.add_waiting(call)
