"""The routes of calendars, and their documents."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, StrictStr

from headrace.http import actor_of, tenant_of
from headrace_scheduler.cron.calendars import Calendars
from headrace_scheduler.cron.routes import ACTOR
from headrace_scheduler.jobs.texts import time_text
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.calendar_rows import NamedCalendar
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT


class CalendarBody(BaseModel):
    """The body of `PUT /calendars/{name}`."""

    model_config = ConfigDict(extra="forbid")

    days_out: list[StrictStr]


def calendar_routes(tables: AllTables) -> APIRouter:
    router = APIRouter()

    def of(request: Request) -> Calendars:
        return Calendars(tables, tenant_of(request) or DEFAULT_TENANT)

    @router.get("/calendars")
    async def list_calendars(request: Request) -> dict[str, Any]:
        return {"calendars": [calendar_document(each) for each in await of(request).all()]}

    @router.get("/calendars/{name}")
    async def show(name: str, request: Request) -> dict[str, Any]:
        return calendar_document(await of(request).find(name))

    @router.put("/calendars/{name}")
    async def put(name: str, body: CalendarBody, request: Request) -> dict[str, Any]:
        return calendar_document(await of(request).put(name, body.days_out, actor_of(request) or ACTOR))

    @router.delete("/calendars/{name}", status_code=204)
    async def remove(name: str, request: Request) -> None:
        await of(request).remove(name, actor_of(request) or ACTOR)

    return router


def calendar_document(calendar: NamedCalendar) -> dict[str, Any]:
    return {
        "name": calendar.name,
        "tenant": calendar.tenant,
        "days_out": list(calendar.days_out),
        "changed_at": time_text(calendar.changed_at),
    }
