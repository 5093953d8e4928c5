"""What clients ask of the project service."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from headrace.http import PAGE_DEFAULT, PAGE_MAX, EventStream, Problem, last_event_id, seed_of, traceparent_of
from headrace_smap.count.progress_routes import ProjectName
from headrace_smap.project.export import form_of
from headrace_smap.project.links import LinkedReader, Links
from headrace_smap.project.operations import ProjectOperations
from headrace_smap.project.orders import ProjectOrder, understood
from headrace_smap.project.recrawls import EVERY_S_MAX, EVERY_S_MIN
from headrace_smap.project.stream import watch_newest
from headrace_smap.receivers import Receivers
from headrace_smap.values import CANCELLED

TOTAL_MAX = 1_000_000_000
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Cursor = Annotated[str | None, Query(max_length=1_024)]


class Rhythm(BaseModel):
    """How often to crawl again: one of the three."""

    model_config = ConfigDict(extra="forbid")

    every_s: Annotated[int, Field(ge=EVERY_S_MIN, le=EVERY_S_MAX)] | None = None
    every_hours: Annotated[float, Field(gt=0, le=EVERY_S_MAX / 3_600)] | None = None
    every_days: Annotated[float, Field(gt=0, le=EVERY_S_MAX / 86_400)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Rhythm:
        if sum(value is not None for value in (self.every_s, self.every_hours, self.every_days)) != 1:
            raise ValueError("say one of every_s, every_hours and every_days")
        if self.seconds < EVERY_S_MIN:
            raise ValueError(f"that is under EVERY_S_MIN = {EVERY_S_MIN} s")
        return self

    @property
    def seconds(self) -> int:
        return round(self.every_s or (self.every_hours or 0) * 3_600 or (self.every_days or 0) * 86_400)


class SealOrder(BaseModel):
    """Without a total the one that is known by now."""

    model_config = ConfigDict(extra="forbid")

    total: Annotated[int, Field(ge=0, le=TOTAL_MAX)] | None = None


class ProjectChanges(BaseModel):
    """What can be changed of a project that there is."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    receivers: Receivers | None


def project_routes(desk: ProjectOperations) -> list[APIRouter]:
    """All routes but progress and pages."""
    links = Links(desk.parts.settings.report_url)
    return [_making(desk, links), _reading(desk, links), _steering(desk), _schedules(desk)]


def _making(desk: ProjectOperations, links: Links) -> APIRouter:
    router = APIRouter(tags=["projects"])

    @router.post("/projects", status_code=201)
    async def create(order: ProjectOrder, request: Request) -> Response:
        """Order a project. With an Idempotency-Key the same request again is the same project."""
        wanted = understood(order, desk.wishes)
        project = order.id or f"proj_{seed_of(request)}"
        await desk.creator.create(project, wanted, order.receivers, traceparent_of(request))
        made = {"id": project, "project_id": project, "status": "INITIALIZING", **wanted.payload()}
        made["receivers"] = order.receivers.shown() if order.receivers else None
        return JSONResponse({**made, "links": links.of(project)}, 201, {"Location": f"/projects/{project}"})

    @router.patch("/projects/{project}")
    async def change(project: ProjectName, changes: ProjectChanges) -> Any:
        """Say who is told of a project from now on; null: those of the settings."""
        await desk.reader.get(project)
        await desk.receivers.set(project, changes.receivers)
        return await LinkedReader(desk, links).get(project)

    @router.delete("/projects/{project}", status_code=204)
    async def delete(project: ProjectName) -> Response:
        """Delete a project with its posts, results, counts and blobs; blobs that other projects have too stay. It is
        gone for everybody at once and swept away after that. Again: the same answer."""
        if not await desk.deleter.delete(project):
            raise _unknown(project)
        return Response(status_code=204)

    return router


def _reading(desk: ProjectOperations, links: Links) -> APIRouter:
    router = APIRouter(tags=["projects"])

    @router.get("/projects")
    async def listed(limit: Limit = PAGE_DEFAULT, cursor: Cursor = None, status: str | None = None) -> Any:
        """Projects, newest first, a page at a time: `next` is the cursor of the page that follows."""
        return await LinkedReader(desk, links).list(limit, cursor, status)

    @router.get("/projects/stream")
    async def stream(request: Request) -> Response:
        """The progress of the newest projects as Server-Sent Events, whenever one changes."""
        return EventStream(watch_newest(LinkedReader(desk, links), last_event_id(request)))

    @router.get("/projects/{project}")
    async def one(project: ProjectName) -> Any:
        """A project, its progress and its schedule."""
        return {**await LinkedReader(desk, links).get(project), "schedule": await desk.recrawls.get(project)}

    @router.get("/projects/{project}/failures")
    async def failures(project: ProjectName, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Any:
        """Posts that ended as errors, and why."""
        return await desk.reader.failures(project, limit, cursor)

    @router.get("/projects/{project}/export")
    async def export(project: ProjectName, form: Annotated[str, Query(alias="format")] = "csv") -> Response:
        """The results as a file: csv, xlsx or parquet."""
        name = form.lower()
        kind = form_of(name)
        await desk.reader.known(project)
        headers = {"Content-Disposition": f'attachment; filename="{_file_name(project)}.{name}"'}
        return StreamingResponse(kind.pieces(desk.parts.database, project), 200, headers, kind.media_type)

    return router


def _steering(desk: ProjectOperations) -> APIRouter:
    router = APIRouter(tags=["steering"])

    @router.post("/projects/{project}/cancel")
    async def cancel(project: ProjectName) -> Any:
        """Stop at what was found by now. What is not analysed yet is let go; nobody is notified."""
        await desk.reader.known(project)
        cancelled = await desk.accountant.cancel(project)
        if cancelled:
            await desk.recrawls.drop(project)
        status = (await desk.reader.known(project))["status"]
        return {"id": project, "cancelled": status == CANCELLED, "status": status}

    @router.post("/projects/{project}/retry")
    async def retry(project: ProjectName, request: Request) -> Any:
        """Try all posts again that ended as errors; how many there are."""
        await desk.reader.known(project)
        return {"id": project, "retried": await desk.retrier.retry(project, seed_of(request), traceparent_of(request))}

    @router.post("/projects/{project}/seal")
    async def seal(project: ProjectName, order: SealOrder | None = None) -> Any:
        """Say that nobody will find more posts, for a collector that does not say so itself."""
        await desk.reader.known(project)
        await desk.accountant.seal(project, order.total if order else None)
        return {"id": project, "progress": await desk.accountant.progress(project)}

    return router


def _schedules(desk: ProjectOperations) -> APIRouter:
    router = APIRouter(tags=["schedules"])

    @router.post("/projects/{project}/recrawl")
    async def recrawl(project: ProjectName, rhythm: Rhythm) -> Any:
        """Crawl again every so often, each time from where the last crawl ended; every crawl is a project of its own
        that names this one as its parent."""
        return {"id": project, **await desk.recrawls.set(project, rhythm.seconds)}

    @router.get("/projects/{project}/recrawl")
    async def schedule(project: ProjectName) -> Any:
        """The schedule of a project."""
        found = await desk.recrawls.get(project)
        if found is None:
            raise Problem(404, "not-found", f"project {project} has no schedule")
        return {"id": project, **found}

    @router.delete("/projects/{project}/recrawl", status_code=204)
    async def unschedule(project: ProjectName) -> Response:
        """Crawl it no more; what has begun goes on."""
        await desk.recrawls.drop(project)
        return Response(status_code=204)

    return router


def _unknown(project: str) -> Problem:
    return Problem(404, "not-found", f"there is no project {project[:100]}")


def _file_name(project: str) -> str:
    """Ids of foreign services may hold anything."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in project)
