"""Cron schedules and their fires: `cron_schedules` and `cron_fires`.

Every change of a schedule is conditional on the marks that were seen. One whose answer was lost raises `Unknown`; the
row then says what has become of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from headrace.errors import InvalidPayload
from headrace.schedules import Misfire
from headrace.tables import Row
from headrace_scheduler.cron.cron_schedule import CronFire, CronJob, CronMarks, CronRule, CronSchedule
from headrace_scheduler.jobs.values import JobKey, JobTerms
from headrace_scheduler.tables.calendar_rows import CalendarRows, NamedCalendar
from headrace_scheduler.tables.job_tables import JobTables, as_id, micros
from headrace_scheduler.tables.unread_rows import UnreadRows
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT, JobPriority, QueueName

TABLE = "cron_schedules"
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


class CronRows:
    """Statements about schedules, as calls."""

    def __init__(self, tables: JobTables, unread: UnreadRows | None = None) -> None:
        self._tables, self._unread = tables, unread or UnreadRows()
        self._calendars = CalendarRows(tables, self._unread)

    async def add(self, schedule: CronSchedule, job: CronJob) -> None:
        """A new schedule. Again: nothing changes."""
        rule, terms = schedule.rule, job.terms
        await self._tables.rows(
            "cron_add",
            schedule_id=schedule.schedule_id,
            expression=rule.expression,
            time_zone=rule.time_zone,
            misfire=rule.misfire,
            days_out=json.dumps(rule.days_out),
            payload=job.payload,
            max_duration_seconds=terms.max_duration_seconds,
            callback_url=terms.callback_url,
            correlation_id=terms.correlation_id,
            created_at=schedule.created_at,
            tenant=job.queue.tenant,
            priority=str(job.queue.priority),
            calendars=json.dumps(rule.calendars),
        )

    async def all(self) -> list[CronSchedule]:
        """The oldest first. One that this version cannot read is left to those that can."""
        rows = await self._tables.rows("cron_all")
        found = await self._with_days(self._unread.readable(TABLE, rows, _schedule))
        return sorted(found, key=lambda each: (each.created_at, each.schedule_id))

    async def find(self, schedule_id: UUID) -> CronSchedule | None:
        found = await self._tables.rows("cron_row", schedule_id=schedule_id)
        if not found:
            return None
        schedule = self._unread.read(TABLE, str(schedule_id), found[0], _schedule)
        return (await self._with_days([schedule]))[0]

    async def days_of(self, tenant: str, names: Sequence[str]) -> tuple[str, ...]:
        """The days of calendars, as they are now. `InvalidPayload` for one that is not there."""
        found = {calendar.name: calendar for calendar in await self._calendars.of_tenant(tenant)} if names else {}
        for name in names:
            if name not in found:
                raise InvalidPayload(f"calendars: there is none of the name {name[:100]!r}", "PUT /calendars/NAME")
        return tuple(day for name in names for day in found[name].days_out)

    async def _with_days(self, schedules: list[CronSchedule]) -> list[CronSchedule]:
        """With the days of their calendars. They are read with the schedules, so a change counts from then on."""
        if not any(schedule.rule.calendars for schedule in schedules):
            return schedules
        known = await self._calendars.all()
        return [_with_days(schedule, known) for schedule in schedules]

    async def job(self, schedule_id: UUID) -> CronJob | None:
        found = await self._tables.rows("cron_job", schedule_id=schedule_id)
        if not found:
            return None
        return self._unread.read(TABLE, str(schedule_id), found[0], _job)

    async def claim(self, seen: CronSchedule, handled_at: datetime, open_at: datetime | None) -> bool:
        """Decide on the moments up to `handled_at`: one fires, or none. False: another process has decided."""
        marks = {"seen": seen.marks.handled_at, "revision": seen.marks.revision}
        new = {"handled_at": handled_at, "open_at": open_at}
        return _applied(await self._tables.rows("cron_claim", schedule_id=seen.schedule_id, **marks, **new))

    async def confirm(self, schedule_id: UUID, moment: datetime) -> None:
        await self._tables.rows("cron_confirm", schedule_id=schedule_id, moment=moment)

    async def change(self, seen: CronSchedule, paused: bool, handled_at: datetime) -> bool:
        marks = {"seen": seen.marks.handled_at, "revision": seen.marks.revision, "next": seen.marks.revision + 1}
        new = {"paused": paused, "handled_at": handled_at}
        return _applied(await self._tables.rows("cron_change", schedule_id=seen.schedule_id, **marks, **new))

    async def remove(self, seen: CronSchedule) -> bool:
        """With all of its fires. False: it has changed, or a job of it is still to be created."""
        named = {"schedule_id": seen.schedule_id}
        if not _applied(await self._tables.rows("cron_delete", **named, revision=seen.marks.revision)):
            return False
        await self.forget_fires(seen.schedule_id, END_OF_TIME)
        return True

    async def fire(self, schedule_id: UUID, fire: CronFire) -> CronFire:
        """The row of a moment: this one, or the one that was there before."""
        named = {"schedule_id": schedule_id, "moment": fire.moment}
        if _applied(await self._tables.rows("fire_add", **named, job_id=fire.job_id, fired_at=fire.fired_at)):
            return fire
        ((job_id, fired_at),) = await self._tables.rows("fire_row", **named)
        return CronFire(fire.moment, as_id(job_id), fired_at)

    async def fires(self, schedule_id: UUID, room: int) -> list[CronFire]:
        """The newest first."""
        found = await self._tables.rows("fires_latest", schedule_id=schedule_id, room=room)
        return [CronFire(moment, as_id(job_id), fired_at) for moment, job_id, fired_at in found]

    async def forget_fires(self, schedule_id: UUID, before: datetime) -> None:
        await self._tables.rows("fires_delete", schedule_id=schedule_id, before=before)

    async def enqueue(self, key: JobKey, payload: str | None, fired_at: datetime) -> None:
        """The pending row of a fire's job, which only its first run may delete."""
        await self._tables.rows(
            "fire_pending_add",
            bucket_id=key.bucket_id,
            scheduled_time=key.scheduled_time,
            job_id=key.job_id,
            payload=payload,
            written_us=micros(fired_at),
        )


def _applied(rows: Sequence[Row]) -> bool:
    return bool(rows and rows[0][0])


def _schedule(row: Row) -> CronSchedule:
    schedule_id, expression, time_zone, misfire, days_out, calendars, created_at, tenant, priority, *marks = row
    named = tuple(json.loads(calendars or "[]"))
    rule = CronRule(expression, time_zone, Misfire(misfire), tuple(json.loads(days_out)), named)
    handled_at, open_at, paused, revision = marks
    at = CronMarks(handled_at, open_at, bool(paused), revision)
    return CronSchedule(as_id(schedule_id), rule, at, created_at, _queue(tenant, priority))


def _job(row: Row) -> CronJob:
    payload, tenant, priority, *terms = row
    return CronJob(payload, JobTerms(*terms), _queue(tenant, priority))


def _with_days(schedule: CronSchedule, known: Mapping[tuple[str, str], NamedCalendar]) -> CronSchedule:
    """A calendar that is gone leaves nothing out."""
    named = [known.get((schedule.queue.tenant, name)) for name in schedule.rule.calendars]
    days = tuple(day for calendar in named if calendar is not None for day in calendar.days_out)
    return replace(schedule, rule=replace(schedule.rule, calendar_days=days))


def _queue(tenant: str | None, priority: str | None) -> QueueName:
    """Schedules of earlier versions have neither."""
    return QueueName(tenant or DEFAULT_TENANT, JobPriority(priority or JobPriority.NORMAL))
