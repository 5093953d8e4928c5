"""Who did what, and who was refused: a row for each, by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID, uuid4

from headrace.tables import Row
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.tables.job_tables import JobTables, as_id

FIRST = UUID(int=0)
SCANNED_MAX = 20_000
"""How many rows one page may look at for those of one tenant."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A row of `audit_events`. The actor is the name of an API key, or of a user at the command line."""

    at: datetime
    actor: str
    action: str
    subject: str
    detail: str
    tenant: str = ""
    event_id: UUID = FIRST


class AuditEvents:
    """Statements about the audit, as calls."""

    def __init__(self, tables: JobTables) -> None:
        self._tables = tables

    async def add(self, event: AuditEvent) -> None:
        named = {"day": event.at.date().isoformat(), "at": whole_ms(event.at), "event_id": uuid4()}
        told = {"action": event.action, "subject": event.subject, "detail": event.detail, "tenant": event.tenant}
        await self._tables.rows("audit_add", **named, actor=event.actor, **told)

    async def forget(self, before: date) -> None:
        """Delete the days before this one."""
        for (day,) in await self._tables.rows("audit_days"):
            if day < before.isoformat():
                await self._tables.rows("audit_delete", day=day)

    async def page(
        self, day: str, tenant: str, after: AuditEvent | None, limit: int
    ) -> tuple[list[AuditEvent], AuditEvent | None]:
        """Up to `limit` events of a day, the earliest first, and the one after which the next page begins; None: there
        are no more. Without a tenant: of all."""
        found: list[AuditEvent] = []
        looked_at = 0
        while True:
            rows = await self._rows(day, after, limit + 1)
            for event in rows[:limit]:
                if tenant in ("", event.tenant):
                    found.append(event)
                if len(found) == limit:
                    return found, None if event is rows[-1] else event
            if len(rows) <= limit:
                return found, None
            after, looked_at = rows[limit - 1], looked_at + limit
            if looked_at >= SCANNED_MAX:
                return found, after

    async def of_day(self, day: str) -> list[AuditEvent]:
        """All of a day, the earliest first."""
        found, after = list[AuditEvent](), None
        while True:
            page, after = await self.page(day, "", after, 1_000)
            found += page
            if after is None:
                return found

    async def _rows(self, day: str, after: AuditEvent | None, room: int) -> list[AuditEvent]:
        mark = {"after_at": datetime.fromisoformat(f"{day}T00:00:00+00:00"), "after_id": FIRST}
        if after is not None:
            mark = {"after_at": after.at, "after_id": after.event_id}
        return [_event(row) for row in await self._tables.rows("audit_page", day=day, **mark, room=room)]


def _event(row: Row) -> AuditEvent:
    at, event_id, actor, action, subject, detail, tenant = row
    return AuditEvent(at, actor, action, subject, detail, tenant or "", as_id(event_id))
