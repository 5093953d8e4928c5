"""What was done and refused, for people. A key must be one that may write: what others do is not for everybody."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request

from headrace.http import PAGE_DEFAULT, PAGE_MAX, Problem, decode_cursor, encode_cursor, may_write, tenant_of
from headrace_scheduler.jobs.texts import Milliseconds, time_text
from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


def audit_routes(audit: AuditEvents) -> APIRouter:
    router = APIRouter()

    @router.get("/audit")
    async def list_audit(
        request: Request, day: date | None = None, limit: Limit = PAGE_DEFAULT, cursor: str = ""
    ) -> dict[str, Any]:
        if not may_write(request):
            raise Problem(403, "scope", "the audit needs an API key with the scope write")
        after = _after(cursor) if cursor else None
        when = (day or datetime.now(UTC).date()).isoformat()
        events, more = await audit.page(when, tenant_of(request), after, limit)
        next_cursor = None if more is None else encode_cursor(round(more.at.timestamp() * 1_000), str(more.event_id))
        return {"events": [audit_document(event) for event in events], "next": next_cursor}

    return router


def audit_document(event: AuditEvent) -> dict[str, Any]:
    return {
        "at": time_text(event.at),
        "actor": event.actor,
        "tenant": event.tenant,
        "action": event.action,
        "subject": event.subject,
        "detail": event.detail,
    }


def _after(cursor: str) -> AuditEvent:
    ms, event_id = decode_cursor(cursor, Milliseconds, UUID)
    return AuditEvent(datetime.fromtimestamp(ms / 1_000, UTC), "", "", "", "", event_id=event_id)
