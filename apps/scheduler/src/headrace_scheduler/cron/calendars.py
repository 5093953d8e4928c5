"""What can be asked of calendars, once for every surface. Schedules refer to them by name, and read them whenever they
decide on a moment: a change is honoured from the next one on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.errors import CallerError, Conflict, InvalidPayload, NotFound
from headrace.schedules import DayCalendar
from headrace_scheduler.cron.cron_schedule import CronRule, CronSchedule
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents
from headrace_scheduler.tables.calendar_rows import CalendarRows, NamedCalendar
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.tenants.tenant_queue import checked_tenant

CALENDARS_MAX = 100
"""Whoever fires reads all of them once a second."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


class Calendars:
    """Lists, shows, sets and removes the calendars of one tenant."""

    def __init__(self, tables: AllTables, tenant: str) -> None:
        self._tables, self._tenant = tables, checked_tenant(tenant)
        self._rows, self._schedules = CalendarRows(tables.tables, tables.unread), CronRows(tables.tables, tables.unread)

    async def all(self) -> list[NamedCalendar]:
        return await self._rows.of_tenant(self._tenant)

    async def find(self, name: str) -> NamedCalendar:
        for calendar in await self.all():
            if calendar.name == name:
                return calendar
        raise NotFound(f"there is no calendar {name[:100]!r}")

    async def put(self, name: str, days_out: Sequence[str], actor: str) -> NamedCalendar:
        """These days from now on. The schedules that refer to it go by them from their next moment on. `Conflict` if
        one of them would never fire again: it would be silent, and still called active."""
        if not _NAME.fullmatch(name):
            raise InvalidPayload(f"{name[:100]!r} is no name of a calendar", "1 to 63 of a-z, 0-9, - _ and .")
        try:
            DayCalendar.of(days_out)
        except CallerError as error:
            raise InvalidPayload(f"days_out: {error}", error.hint) from None
        others = {calendar.name: calendar.days_out for calendar in await self.all() if calendar.name != name}
        if len(others) >= CALENDARS_MAX:
            raise InvalidPayload(f"there are {CALENDARS_MAX} calendars, which is the most", "remove some")
        await self._refuse_silence(name, {**others, name: tuple(days_out)})
        await self._audited("calendar.put", name, f"{len(days_out)} days", actor)
        calendar = NamedCalendar(self._tenant, name, tuple(days_out), whole_ms(self._tables.now()))
        await self._rows.put(calendar)
        return calendar

    async def remove(self, name: str, actor: str) -> None:
        """`Conflict` while a schedule refers to it."""
        await self.find(name)
        for schedule in await self._referring(name):
            raise Conflict(f"schedule {schedule.schedule_id} refers to the calendar {name}", "remove that first")
        await self._audited("calendar.remove", name, "", actor)
        await self._rows.remove(self._tenant, name, self._tables.now())

    async def _referring(self, name: str) -> list[CronSchedule]:
        """The tenant's schedules that go by the calendar."""
        found = await self._schedules.all()
        return [each for each in found if each.queue.tenant == self._tenant and name in each.rule.calendars]

    async def _refuse_silence(self, name: str, days: Mapping[str, Sequence[str]]) -> None:
        now, passed = self._tables.now(), set[CronRule]()
        for schedule in await self._referring(name):
            left_out = tuple(day for each in schedule.rule.calendars for day in days.get(each, ()))
            rule = replace(schedule.rule, calendar_days=left_out)
            # Thousands of schedules have few rules, and each is a search.
            if schedule.marks.paused or rule in passed:
                continue
            try:
                rule.check(now)
            except InvalidPayload:
                words = f"schedule {schedule.schedule_id} would never fire again: all of its days would be left out"
                raise Conflict(words, "pause or remove it first, or leave out fewer days") from None
            passed.add(rule)

    async def _audited(self, action: str, name: str, detail: str, actor: str) -> None:
        """Written first: what was not audited is not done."""
        event = AuditEvent(self._tables.now(), actor, action, name, detail, self._tenant)
        await AuditEvents(self._tables.tables).add(event)
