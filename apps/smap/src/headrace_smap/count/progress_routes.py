"""How far a project is: the answer of the specification, and a stream of it. Several services offer the same routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace.errors import NotFound
from headrace.http import EventStream, StreamEvent, last_event_id
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.progress_reader import Progress
from headrace_smap.envelope import PROJECT_CHARS_MAX
from headrace_smap.parts import SmapParts
from headrace_smap.values import FINAL, NO_PROGRESS

LOOK_S = 0.5
PROGRESS = "progress"


def project_name(project: str) -> str:
    """What no project can be called is not asked for."""
    if not _is_name(project):
        raise NotFound("there is no project of that name")
    return project


def _is_name(project: str) -> bool:
    return len(project) <= PROJECT_CHARS_MAX and project.isprintable()


ProjectName = Annotated[str, Depends(project_name)]


def progress_routes(parts: SmapParts, look_s: float = LOOK_S) -> APIRouter:
    """`/projects/{id}/progress` and `/projects/{id}/progress/stream`."""
    router, accountant = APIRouter(tags=["progress"]), Accountant(parts)

    @router.get("/projects/{project}/progress")
    async def progress(project: str) -> Response:
        """Status, total, processed, errors and percent; 404 with the status NOT_FOUND if there is no such project."""
        found = await accountant.progress(project) if _is_name(project) else None
        return JSONResponse(found or NO_PROGRESS, 200 if found else 404)

    @router.get("/projects/{project}/progress/stream")
    async def progress_stream(project: ProjectName, request: Request) -> Response:
        """The same as Server-Sent Events, whenever it changes, until the project is DONE or CANCELLED. A client that
        comes again after that is told to stay away (204)."""
        found, last = await accountant.progress(project), last_event_id(request)
        if found is None:
            return JSONResponse(NO_PROGRESS, 404)
        if found["status"] in FINAL and last == event_of(found).event_id:
            return Response(status_code=204)
        return EventStream(watch(accountant, project, last, look_s))

    return router


async def watch(
    accountant: Accountant, project: str, last: str, look_s: float = LOOK_S
) -> AsyncGenerator[StreamEvent, None]:
    """Every progress that differs from the one before, up to the end of the project."""
    while True:
        found = await accountant.progress(project)
        event = event_of(found or NO_PROGRESS)
        if event.event_id != last:
            last = event.event_id
            yield event
        if found is None or found["status"] in FINAL:
            return
        await asyncio.sleep(look_s)


def event_of(progress: Progress) -> StreamEvent:
    """Named by what it says: whoever has had it needs it no more."""
    names = ("status", "total", "processed", "errors")
    event_id = "-".join(str(progress[name]) for name in names if name in progress)
    return StreamEvent(msgspec.json.encode(progress).decode(), event_id, PROGRESS)
