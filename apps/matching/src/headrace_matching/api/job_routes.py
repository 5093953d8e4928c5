"""What people ask of jobs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi import Path as PathPart
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace.http import PAGE_DEFAULT, PAGE_MAX, EventStream, Problem, last_event_id, seed_of
from headrace_matching.api.desk import ApiDesk
from headrace_matching.api.orders import JobRequest, understood
from headrace_matching.api.stream import watch_job
from headrace_matching.assets.match_store import shown
from headrace_matching.events.names import Phase
from headrace_matching.phases.transitions import CANCELLED, COMPLETED, FAILED, RUNNING

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Cursor = Annotated[str | None, Query(max_length=1_024)]
JobId = Annotated[str, PathPart(max_length=200)]
STATES = (RUNNING, COMPLETED, FAILED, CANCELLED)


def job_routes(desk: ApiDesk) -> list[APIRouter]:
    return [_orders(desk), _views(desk), _steering(desk)]


def _orders(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    @router.post("/jobs", status_code=201)
    async def create(order: JobRequest, request: Request) -> Response:
        """Look for products in videos. With an Idempotency-Key the same request again is the same job."""
        job = await desk.jobs.open(understood(order, desk.settings.folders), seed_of(request))
        body = {"job_id": job, "phase": Phase.COLLECTION.value}
        return JSONResponse(body, 201, {"Location": f"/jobs/{job}"})

    return router


def _views(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    @router.get("/jobs")
    async def listed(limit: Limit = PAGE_DEFAULT, cursor: Cursor = None, state: str = "", phase: str = "") -> Any:
        """Jobs, newest first, a page at a time: `next` is the cursor of the page that follows."""
        if state and state not in STATES:
            raise Problem(422, "invalid", f"state: is one of {', '.join(STATES)}")
        if phase and phase not in tuple(Phase):
            raise Problem(422, "invalid", f"phase: is one of {', '.join(Phase)}")
        return await desk.jobs.newest(limit, cursor, state, phase)

    @router.get("/jobs/{job_id}")
    async def one(job_id: JobId) -> Any:
        """Where a job is, what its phase still waits for, and how many assets are ready."""
        return await desk.jobs.view(job_id)

    @router.get("/jobs/{job_id}/stream")
    async def stream(job_id: JobId, request: Request) -> Response:
        """The same as Server-Sent Events, whenever something changes; the stream ends with the job."""
        await desk.jobs.known(job_id)
        return EventStream(watch_job(desk.jobs, job_id, last_event_id(request)))

    @router.get("/jobs/{job_id}/duplicates")
    async def duplicates(job_id: JobId) -> Any:
        """Events that were dropped because their name had come, with the time of the first."""
        return {"duplicates": await desk.jobs.duplicates(job_id)}

    @router.get("/jobs/{job_id}/results")
    async def results(job_id: JobId, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Any:
        """Products that appear in videos, best first."""
        rows, following = await desk.matches.results(job_id, limit, cursor)
        base = str(request.base_url).rstrip("/")
        found = []
        for row in rows:
            *_, time_s, has_evidence = row
            product, video = quote(row[0], safe=""), quote(row[1], safe="")
            url = f"{base}/jobs/{job_id}/evidence/{product}/{video}" if has_evidence else None
            found.append({**shown(row), "time_s": time_s, "evidence_url": url})
        return {"results": found, "next": following}

    return router


def _steering(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["steering"])

    @router.post("/jobs/{job_id}/cancel")
    async def cancel(job_id: JobId) -> Any:
        """End a job. Nothing is announced any more; what was announced stays so. Again: the same answer."""
        state = await desk.transitions.cancel(job_id)
        if state != CANCELLED:
            raise Problem(409, "conflict", f"the job is {state}: it has ended")
        return await desk.jobs.view(job_id)

    @router.post("/jobs/{job_id}/resume")
    async def resume(job_id: JobId) -> Any:
        """Give a failed job another generation: its phase is announced again and waits for what is missing."""
        state = await desk.transitions.resume(job_id)
        if state != RUNNING:
            raise Problem(409, "conflict", f"the job is {state}: only a failed one can be resumed")
        return await desk.jobs.view(job_id)

    return router
