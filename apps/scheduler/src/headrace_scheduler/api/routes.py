"""The routes of jobs, dead jobs, and what is told of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from headrace.http import (
    PAGE_DEFAULT,
    PAGE_MAX,
    Problem,
    decode_cursor,
    encode_cursor,
    seed_of,
    tenant_of,
    traceparent_of,
)
from headrace_scheduler.api.documents import (
    created_document,
    dead_document,
    job_document,
    listed_document,
    run_document,
)
from headrace_scheduler.api.job_requests import JobRequests, JobWish
from headrace_scheduler.cron.cron_schedule import CronJob, is_cron
from headrace_scheduler.cron.documents import JobOrCronBody, schedule_document
from headrace_scheduler.cron.operations import CronOperations
from headrace_scheduler.jobs.texts import Milliseconds, payload_text, payload_value, time_text
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.observe.spans import step, traceparent
from headrace_scheduler.tables.dead_list import DeadList
from headrace_scheduler.tables.job_list import JobList, JobQuestion
from headrace_scheduler.tables.pending_rows import LONG_AGO
from headrace_scheduler.tenants.open_jobs import OpenJobs
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT, QueueName, checked_tenant

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
# Later than any job may be scheduled.
FAR_AHEAD = timedelta(days=10_000)


class JobListQuery(BaseModel):
    """Which jobs `GET /jobs` shall list."""

    status: JobStatus | None = None
    since: datetime | None = None
    before: datetime | None = None
    limit: int = Field(PAGE_DEFAULT, ge=1, le=PAGE_MAX)
    cursor: str = ""

    def question(self, tenant: str) -> JobQuestion:
        upper = _aware("before", self.before) or datetime.now(UTC) + FAR_AHEAD
        if self.cursor:
            (ms,) = decode_cursor(self.cursor, Milliseconds)
            upper = datetime.fromtimestamp(ms / 1_000, UTC)
        return JobQuestion(_aware("since", self.since) or LONG_AGO, upper, self.status, tenant)


@dataclass(frozen=True, slots=True)
class JobSurface:
    """What the routes of jobs call."""

    requests: JobRequests
    jobs: JobList
    cron: CronOperations
    open_jobs: OpenJobs


def job_routes(surface: JobSurface) -> APIRouter:
    router = APIRouter()

    def requests_of(request: Request) -> JobRequests:
        return surface.requests.of_tenant(tenant_of(request))

    @router.post("/jobs", status_code=201)
    async def create(body: JobOrCronBody, request: Request, response: Response) -> dict[str, Any]:
        given, requests, tenant = traceparent_of(request), surface.requests, tenant_of(request) or DEFAULT_TENANT
        queue = QueueName(checked_tenant(tenant), body.priority)
        if is_cron(body.schedule):
            requests.check(body.payload, body.callback_url)
            cron, made = surface.cron, CronJob(payload_text(body.payload), body.terms(given), queue)
            schedule = await cron.add(UUID(seed_of(request)), body.rule(), made)
            response.headers["Location"] = f"/schedules/{schedule.schedule_id}"
            return schedule_document(schedule, cron.now())
        again = "idempotency-key" in request.headers
        await surface.open_jobs.admit(tenant, UUID(seed_of(request)) if again else None)
        with step("request", given) as span:
            wish = JobWish(body.schedule, body.payload, body.terms(traceparent(span, given) or given), queue)
            job = await requests.create(wish, seed_of(request), again)
        response.headers["Location"] = f"/jobs/{job.job_id}"
        return created_document(job)

    @router.get("/jobs")
    async def list_jobs(asked: Annotated[JobListQuery, Query()], request: Request) -> dict[str, Any]:
        rows, more = await surface.jobs.page(asked.question(tenant_of(request)), asked.limit)
        next_cursor = None if more is None else encode_cursor(round(more.timestamp() * 1_000))
        return {"jobs": [listed_document(job) for job in await surface.jobs.told(rows)], "next": next_cursor}

    @router.get("/jobs/{job_id}")
    async def show(job_id: UUID, request: Request) -> dict[str, Any]:
        return job_document(await requests_of(request).find(job_id))

    @router.post("/jobs/{job_id}/run", status_code=202)
    async def run(job_id: UUID, request: Request) -> dict[str, Any]:
        requests = requests_of(request)
        await surface.open_jobs.admit((await requests.find(job_id)).queue.tenant)
        return created_document(await requests.run_again(job_id))

    @router.post("/jobs/{job_id}/cancel", status_code=202)
    async def cancel(job_id: UUID, request: Request) -> dict[str, Any]:
        return created_document(await requests_of(request).cancel(job_id))

    return router


def told_routes(surface: JobSurface) -> APIRouter:
    """What came of a job's runs."""
    router = APIRouter()

    def requests_of(request: Request) -> JobRequests:
        return surface.requests.of_tenant(tenant_of(request))

    @router.get("/jobs/{job_id}/runs")
    async def runs(job_id: UUID, request: Request) -> dict[str, Any]:
        await requests_of(request).find(job_id)
        return {"runs": [run_document(run) for run in await surface.requests.tables.history.runs(job_id)]}

    @router.get("/jobs/{job_id}/progress")
    async def progress(job_id: UUID, request: Request) -> dict[str, Any]:
        found = await requests_of(request).find(job_id)
        told = await surface.requests.tables.jobs.outcome(job_id)
        return {"job_id": str(job_id), "status": found.job.status, "progress": payload_value(told.progress)}

    @router.get("/jobs/{job_id}/result")
    async def result(job_id: UUID, request: Request) -> dict[str, Any]:
        found = await requests_of(request).find(job_id)
        if found.job.status != JobStatus.COMPLETED:
            raise Problem(409, "not-completed", f"job {job_id} is {found.job.status}, so it has no result")
        told = await surface.requests.tables.jobs.outcome(job_id)
        return {"job_id": str(job_id), "result": payload_value(told.result)}

    return router


def dead_routes(surface: JobSurface) -> APIRouter:
    router = APIRouter()
    dead_list = DeadList(surface.requests.tables)

    @router.get("/dlq")
    async def list_dead(request: Request, limit: Limit = PAGE_DEFAULT, cursor: str = "") -> dict[str, Any]:
        (after,) = decode_cursor(cursor, UUID) if cursor else (None,)
        page, more = await dead_list.page(tenant_of(request), after, limit)
        return {"jobs": [dead_document(dead) for dead in page], "next": more and encode_cursor(str(more))}

    @router.post("/dlq/{job_id}/redrive", status_code=202)
    async def redrive(job_id: UUID, request: Request) -> dict[str, Any]:
        requests = surface.requests.of_tenant(tenant_of(request))
        await surface.open_jobs.admit(await requests.dead_tenant(job_id))
        return created_document(await requests.redrive(job_id))

    return router


def _aware(name: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        detail = f"{name} = {time_text(moment)} names no time zone"
        raise Problem(422, "invalid", detail, hint="write 2026-01-31T09:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Problem(422, "invalid", f"{name} is not in the years 1 to 9999 in UTC") from None
