"""What can be asked of schedules, once for every surface: REST and commands."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from headrace.errors import Conflict, InvalidPayload, NotFound
from headrace_scheduler.cron.cron_schedule import CronFire, CronJob, CronMarks, CronRule, CronSchedule, ms_of
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.tenants.tenant_limits import TenantRules

Place = tuple[int, UUID]
"""Where a schedule stands in the list of all: when it was made, in milliseconds, and its id."""
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
    """Adds, shows, pauses, resumes and removes schedules: of all tenants, or of one, to whom the others' do not
    exist."""

    def __init__(self, tables: AllTables, creator: FireCreator, rules: TenantRules | None = None) -> None:
        self._tables, self._creator, self._rules = tables, creator, rules or TenantRules()
        self._tenant = ""
        self._rows, self._audit = CronRows(tables.tables, tables.unread), AuditEvents(tables.tables)

    def of_tenant(self, tenant: str) -> CronOperations:
        """The same for one tenant; "": for all."""
        operations = copy.copy(self)
        operations._tenant = tenant
        return operations

    def now(self) -> datetime:
        return self._tables.now()

    async def add(self, schedule_id: UUID, rule: CronRule, job: CronJob) -> CronSchedule:
        """A schedule that fires from now on. Again under the same id: what is there."""
        now = whole_ms(self._tables.now())
        days = await self._rows.days_of(job.queue.tenant, rule.calendars)
        rule = replace(rule, calendar_days=days)
        rule.check(now)
        await self._admit(job.queue.tenant)
        await self._rows.add(CronSchedule(schedule_id, rule, CronMarks(now), now, job.queue), job)
        return await self._found(schedule_id)

    async def all(self) -> list[CronSchedule]:
        return [schedule for schedule in await self._rows.all() if self._tenant in ("", schedule.queue.tenant)]

    async def page(self, after: Place | None, limit: int) -> tuple[list[CronSchedule], Place | None]:
        """Up to `limit`, the oldest first, and behind which the next page begins; None: there are no more."""
        found = [schedule for schedule in await self.all() if after is None or place_of(schedule) > after]
        return found[:limit], place_of(found[limit - 1]) if len(found) > limit else None

    async def _admit(self, tenant: str) -> None:
        """Room for one more schedule of a tenant."""
        tenants = [schedule.queue.tenant for schedule in await self._rows.all()]
        most = self._rules.limits(tenant).schedules
        if len(tenants) >= SCHEDULES_MAX:
            raise InvalidPayload(f"schedule: there are {SCHEDULES_MAX:,} schedules, which is the most", "remove some")
        if most is not None and tenants.count(tenant) >= most:
            raise InvalidPayload(
                f"schedule: the tenant {tenant} has {most:,}, which is its limit `schedules`", "remove some"
            )

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
        event = AuditEvent(self._tables.now(), actor, action, str(schedule.schedule_id), detail, schedule.queue.tenant)
        await self._audit.add(event)
        return True

    async def _found(self, schedule_id: UUID) -> CronSchedule:
        found = await self._rows.find(schedule_id)
        if found is None or self._tenant not in ("", found.queue.tenant):
            raise _unknown(schedule_id)
        return found


def place_of(schedule: CronSchedule) -> Place:
    return ms_of(schedule.created_at), schedule.schedule_id


def _unknown(schedule_id: UUID) -> NotFound:
    return NotFound(f"there is no schedule {schedule_id}")


def _contended(schedule_id: UUID) -> Conflict:
    return Conflict(f"schedule {schedule_id} fires or changes at the same time", "try again")
