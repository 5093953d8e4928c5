"""Who did what by hand: a row for each, by day."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from headrace.tables import Row
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.tables.job_tables import JobTables


class AuditEvents:
    """Statements about the audit, as calls."""

    def __init__(self, tables: JobTables) -> None:
        self._tables = tables

    async def add(self, at: datetime, actor: str, action: str, subject: str, detail: str) -> None:
        named = {"day": at.date().isoformat(), "at": whole_ms(at), "event_id": uuid4()}
        await self._tables.rows("audit_add", **named, actor=actor, action=action, subject=subject, detail=detail)

    async def of_day(self, day: str) -> list[Row]:
        """(at, actor, action, subject, detail), the earliest first."""
        return await self._tables.rows("audit_day", day=day)
