"""Cron in a world of the tests: what operators ask, and firers that look when the test says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from scheduler_world import World

from headrace.tables import Row
from headrace_scheduler.cron.cron_firer import AGAIN_S, CronFirer
from headrace_scheduler.cron.cron_schedule import CronJob, CronMarks, CronRule, CronSchedule
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.cron.operations import CronOperations
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import NO_TERMS
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.tables.job_tables import Write

LOOKS_MAX = 200


@dataclass(frozen=True)
class WorldCron:
    world: World
    rows: CronRows
    creator: FireCreator
    operations: CronOperations
    firer: CronFirer

    async def add(self, expression: str, since: datetime | None = None, **rule: Any) -> UUID:
        """A schedule whose moments count since then."""
        schedule_id, at = uuid4(), whole_ms(since or self.world.clock())
        schedule = CronSchedule(schedule_id, CronRule(expression, **rule), CronMarks(at), at)
        await self.rows.add(schedule, CronJob("{}", NO_TERMS))
        return schedule_id

    async def fire_all(self) -> None:
        """Look until nothing is due and nothing is open."""
        for _ in range(LOOKS_MAX):
            if await self.firer.look() > AGAIN_S and not await self._open():
                return
        raise AssertionError("it never comes to an end")

    async def jobs(self, schedule_id: UUID) -> list[UUID]:
        return [fire.job_id for fire in reversed(await self.rows.fires(schedule_id, 1_000))]

    async def _open(self) -> bool:
        return any(each.marks.open_at is not None for each in await self.rows.all())


def cron_of(world: World, tables: AllTables | None = None) -> WorldCron:
    tables = tables or world.tables
    rows = CronRows(tables.tables, tables.unread)
    creator = FireCreator(tables, world.parts.locks, world.parts.installation.buckets)
    return WorldCron(world, rows, creator, CronOperations(tables, creator), CronFirer(rows, creator, tables.now))


@dataclass
class CutTables:
    """Something happens just before the first statement of a name is sent."""

    inner: Any
    name: str
    cut: Any

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        if name == self.name:
            self.name = ""
            self.cut(values)
        found: list[Row] = await self.inner.rows(name, **values)
        return found

    async def together(self, *writes: Write) -> None:
        for name, values in writes:
            await self.rows(name, **values)
