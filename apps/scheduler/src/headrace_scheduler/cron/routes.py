"""The routes of schedules. They are made by `POST /jobs`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request

from headrace.http import PAGE_DEFAULT, PAGE_MAX, actor_of, decode_cursor, encode_cursor, tenant_of
from headrace_scheduler.cron.documents import detail_document, schedule_document
from headrace_scheduler.cron.operations import CronOperations
from headrace_scheduler.jobs.texts import Milliseconds

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
ACTOR = "api"


def cron_routes(cron: CronOperations) -> APIRouter:
    router = APIRouter()

    def of(request: Request) -> CronOperations:
        return cron.of_tenant(tenant_of(request))

    @router.get("/schedules")
    async def list_schedules(request: Request, limit: Limit = PAGE_DEFAULT, cursor: str = "") -> dict[str, Any]:
        after = decode_cursor(cursor, Milliseconds, UUID) if cursor else None
        page, more = await of(request).page(after and (after[0], after[1]), limit)
        now = cron.now()
        next_cursor = more and encode_cursor(more[0], str(more[1]))
        return {"schedules": [schedule_document(each, now) for each in page], "next": next_cursor}

    @router.get("/schedules/{schedule_id}")
    async def show(schedule_id: UUID, request: Request) -> dict[str, Any]:
        return detail_document(await of(request).show(schedule_id), cron.now())

    @router.post("/schedules/{schedule_id}/pause")
    async def pause(schedule_id: UUID, request: Request) -> dict[str, Any]:
        return schedule_document(await of(request).pause(schedule_id, _actor(request)), cron.now())

    @router.post("/schedules/{schedule_id}/resume")
    async def resume(schedule_id: UUID, request: Request) -> dict[str, Any]:
        return schedule_document(await of(request).resume(schedule_id, _actor(request)), cron.now())

    @router.delete("/schedules/{schedule_id}", status_code=204)
    async def remove(schedule_id: UUID, request: Request) -> None:
        await of(request).remove(schedule_id, _actor(request))

    return router


def _actor(request: Request) -> str:
    """Whose key it was; the name of this surface where none is asked for."""
    return actor_of(request) or ACTOR
