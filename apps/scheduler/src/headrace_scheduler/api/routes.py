"""The routes of jobs, dead jobs, and what is told of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from headrace.http import PAGE_DEFAULT, PAGE_MAX, Problem, decode_cursor, encode_cursor, paged, seed_of, traceparent_of
from headrace_scheduler.api.desk import JobDesk, JobWish
from headrace_scheduler.api.documents import (
    created_document,
    dead_document,
    job_document,
    run_document,
    scanned_document,
)
from headrace_scheduler.cron.cron_schedule import is_cron
from headrace_scheduler.cron.documents import JobOrCronBody, schedule_document
from headrace_scheduler.cron.operations import CronOperations
from headrace_scheduler.jobs.texts import payload_value, time_text
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.observe.spans import step, traceparent
from headrace_scheduler.tables.job_list import JobList, JobQuestion
from headrace_scheduler.tables.pending_rows import LONG_AGO

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
# Later than any job may be scheduled.
FAR_AHEAD = timedelta(days=10_000)


def job_routes(desk: JobDesk, jobs: JobList, cron: CronOperations) -> APIRouter:
    router = APIRouter()

    @router.post("/jobs", status_code=201)
    async def create(body: JobOrCronBody, request: Request, response: Response) -> dict[str, Any]:
        given = traceparent_of(request)
        if is_cron(body.schedule):
            desk.check(body.payload)
            schedule = await cron.add(UUID(seed_of(request)), body.rule(), body.payload, body.terms(given))
            response.headers["Location"] = f"/schedules/{schedule.schedule_id}"
            return schedule_document(schedule, cron.now())
        with step("request", given) as span:
            wish = JobWish(body.schedule, body.payload, body.terms(traceparent(span, given) or given))
            job = await desk.create(wish, seed_of(request), "idempotency-key" in request.headers)
        response.headers["Location"] = f"/jobs/{job.job_id}"
        return created_document(job)

    @router.get("/jobs")
    async def list_jobs(
        status: JobStatus | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: Limit = PAGE_DEFAULT,
        cursor: str = "",
    ) -> dict[str, Any]:
        upper = _aware("before", before) or datetime.now(UTC) + FAR_AHEAD
        if cursor:
            (ms,) = decode_cursor(cursor, int)
            upper = datetime.fromtimestamp(ms / 1_000, UTC)
        rows, more = await jobs.page(JobQuestion(_aware("since", since) or LONG_AGO, upper, status), limit)
        next_cursor = None if more is None else encode_cursor(round(more.timestamp() * 1_000))
        return {"jobs": [scanned_document(row) for row in rows], "next": next_cursor}

    @router.get("/jobs/{job_id}")
    async def show(job_id: UUID) -> dict[str, Any]:
        found = await desk.find(job_id)
        return job_document(found.job, found.last_run)

    @router.get("/jobs/{job_id}/runs")
    async def runs(job_id: UUID) -> dict[str, Any]:
        await desk.find(job_id)
        return {"runs": [run_document(run) for run in await desk.tables.history.runs(job_id)]}

    @router.get("/jobs/{job_id}/progress")
    async def progress(job_id: UUID) -> dict[str, Any]:
        found = await desk.find(job_id)
        told = await desk.tables.jobs.outcome(job_id)
        return {"job_id": str(job_id), "status": found.job.status, "progress": payload_value(told.progress)}

    @router.get("/jobs/{job_id}/result")
    async def result(job_id: UUID) -> dict[str, Any]:
        found = await desk.find(job_id)
        if found.job.status != JobStatus.COMPLETED:
            raise Problem(409, "not-completed", f"job {job_id} is {found.job.status}, so it has no result")
        told = await desk.tables.jobs.outcome(job_id)
        return {"job_id": str(job_id), "result": payload_value(told.result)}

    @router.post("/jobs/{job_id}/run", status_code=202)
    async def run(job_id: UUID) -> dict[str, Any]:
        return created_document(await desk.run_again(job_id))

    @router.post("/jobs/{job_id}/cancel", status_code=202)
    async def cancel(job_id: UUID) -> dict[str, Any]:
        return created_document(await desk.cancel(job_id))

    return router


def dead_routes(desk: JobDesk) -> APIRouter:
    router = APIRouter()

    @router.get("/dlq")
    async def list_dead(limit: Limit = PAGE_DEFAULT, cursor: str = "") -> dict[str, Any]:
        after = UUID(decode_cursor(cursor, str)[0]) if cursor else None
        found = await desk.tables.dead.page(after, limit + 1)
        page, more = paged(found, limit, lambda dead: encode_cursor(str(dead.job_id)))
        return {"jobs": [dead_document(dead) for dead in page], "next": more}

    @router.post("/dlq/{job_id}/redrive", status_code=202)
    async def redrive(job_id: UUID) -> dict[str, Any]:
        return created_document(await desk.redrive(job_id))

    return router


def _aware(name: str, moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise Problem(
            422, "invalid", f"{name} = {time_text(moment)} names no time zone", hint="write 2026-01-31T09:00:00Z"
        )
    return moment
