"""What can be asked of schedules, once for every surface: REST and commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from headrace.errors import Conflict, InvalidPayload, NotFound
from headrace_scheduler.cron.cron_schedule import CronFire, CronJob, CronMarks, CronRule, CronSchedule
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.texts import payload_text
from headrace_scheduler.jobs.values import JobTerms
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.audit_events import AuditEvents
from headrace_scheduler.tables.cron_rows import CronRows

SCHEDULES_MAX = 10_000
"""Every worker looks at all of them once a second."""
FIRES_SHOWN = 20
ROUNDS_MAX = 10


@dataclass(frozen=True, slots=True)
class CronDetail:
    """A schedule with what its jobs are made of and what it has fired, the newest first."""

    schedule: CronSchedule
    job: CronJob
    fires: list[CronFire]


class CronOperations:
    """Adds, shows, pauses, resumes and removes schedules."""

    def __init__(self, tables: AllTables, creator: FireCreator) -> None:
        self._tables, self._creator = tables, creator
        self._rows, self._audit = CronRows(tables.tables), AuditEvents(tables.tables)

    def now(self) -> datetime:
        return self._tables.now()

    async def add(self, schedule_id: UUID, rule: CronRule, payload: Mapping[str, Any], terms: JobTerms) -> CronSchedule:
        """A schedule that fires from now on. Again under the same id: what is there."""
        now = whole_ms(self._tables.now())
        rule.check(now)
        if len(await self._rows.all()) >= SCHEDULES_MAX:
            raise InvalidPayload(f"schedule: there are {SCHEDULES_MAX:,} schedules, which is the most", "remove some")
        await self._rows.add(
            CronSchedule(schedule_id, rule, CronMarks(now), now), CronJob(payload_text(payload), terms)
        )
        return await self._found(schedule_id)

    async def all(self) -> list[CronSchedule]:
        return await self._rows.all()

    async def show(self, schedule_id: UUID) -> CronDetail:
        schedule, job = await self._found(schedule_id), await self._rows.job(schedule_id)
        if job is None:
            raise _unknown(schedule_id)
        return CronDetail(schedule, job, await self._rows.fires(schedule_id, FIRES_SHOWN))

    async def pause(self, schedule_id: UUID, actor: str) -> CronSchedule:
        """Moments that come while it is paused are never made up for."""
        return await self._changed(schedule_id, actor, paused=True)

    async def resume(self, schedule_id: UUID, actor: str) -> CronSchedule:
        """Fires from now on."""
        return await self._changed(schedule_id, actor, paused=False)

    async def remove(self, schedule_id: UUID, actor: str) -> None:
        """A moment that has fired gets its job first."""
        for _ in range(ROUNDS_MAX):
            schedule = await self._found(schedule_id)
            if schedule.marks.open_at is not None:
                await self._creator.finish(schedule_id, schedule.marks.open_at)
            elif await self._audited("schedule.remove", schedule, actor) and await self._rows.remove(schedule):
                return
        raise _contended(schedule_id)

    async def _changed(self, schedule_id: UUID, actor: str, paused: bool) -> CronSchedule:
        for _ in range(ROUNDS_MAX):
            schedule = await self._found(schedule_id)
            if schedule.marks.paused == paused:
                return schedule
            handled_at = schedule.marks.handled_at if paused else whole_ms(self._tables.now())
            await self._audited("schedule.pause" if paused else "schedule.resume", schedule, actor)
            await self._rows.change(schedule, paused, handled_at)
        raise _contended(schedule_id)

    async def _audited(self, action: str, schedule: CronSchedule, actor: str) -> bool:
        """Written first: what was not audited is not done."""
        detail = f"{schedule.rule.expression} {schedule.rule.time_zone}"
        await self._audit.add(self._tables.now(), actor, action, str(schedule.schedule_id), detail)
        return True

    async def _found(self, schedule_id: UUID) -> CronSchedule:
        found = await self._rows.find(schedule_id)
        if found is None:
            raise _unknown(schedule_id)
        return found


def _unknown(schedule_id: UUID) -> NotFound:
    return NotFound(f"there is no schedule {schedule_id}")


def _contended(schedule_id: UUID) -> Conflict:
    return Conflict(f"schedule {schedule_id} fires or changes at the same time", "try again")
