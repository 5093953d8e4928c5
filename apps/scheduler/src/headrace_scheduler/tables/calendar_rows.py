"""Days without jobs under a name, `named_calendars`: each tenant has its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.tables import Row
from headrace_scheduler.tables.job_tables import JobTables, micros
from headrace_scheduler.tables.unread_rows import UnreadRows

TABLE = "named_calendars"


@dataclass(frozen=True, slots=True)
class NamedCalendar:
    """The days are in the words of a schedule's `days_out`."""

    tenant: str
    name: str
    days_out: tuple[str, ...]
    changed_at: datetime


class CalendarRows:
    """Statements about calendars, as calls."""

    def __init__(self, tables: JobTables, unread: UnreadRows | None = None) -> None:
        self._tables, self._unread = tables, unread or UnreadRows()

    async def put(self, calendar: NamedCalendar) -> None:
        """A new one, or other days for one that is there."""
        named = {"tenant": calendar.tenant, "name": calendar.name, "days_out": json.dumps(calendar.days_out)}
        changed_at = calendar.changed_at
        await self._tables.rows("calendar_put", **named, changed_at=changed_at, written_us=micros(changed_at))

    async def of_tenant(self, tenant: str) -> list[NamedCalendar]:
        """By name."""
        found = self._unread.readable(TABLE, await self._tables.rows("calendars_of", tenant=tenant), _calendar)
        return sorted(found, key=lambda calendar: calendar.name)

    async def all(self) -> Mapping[tuple[str, str], NamedCalendar]:
        """By tenant and name."""
        found = self._unread.readable(TABLE, await self._tables.rows("calendars"), _calendar)
        return {(calendar.tenant, calendar.name): calendar for calendar in found}

    async def remove(self, tenant: str, name: str, at: datetime) -> None:
        await self._tables.rows("calendar_delete", tenant=tenant, name=name, written_us=micros(at))


def _calendar(row: Row) -> NamedCalendar:
    tenant, name, days_out, changed_at = row
    return NamedCalendar(tenant, name, tuple(json.loads(days_out)), changed_at)
