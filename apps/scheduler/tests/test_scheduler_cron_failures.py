"""Schedules that cannot be fired: the others are, each in its time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from scheduler_cron import cron_of
from scheduler_world import World

from headrace.errors import HeadraceError, TooLarge, Unreachable
from headrace.tables import Row
from headrace_scheduler.cron.cron_firer import REST_FIRST, REST_MAX
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_tables import JobTables, Write


@dataclass
class UnfiredTables:
    """Tables in which no moment of some schedules can be written; `asked` counts how often that was wanted."""

    inner: JobTables
    error: HeadraceError
    bad: set[Any] = field(default_factory=set)
    asked: int = 0

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        if name == "fire_add" and values["schedule_id"] in self.bad:
            self.asked += 1
            raise self.error
        return await self.inner.rows(name, **values)

    async def together(self, *writes: Write) -> None:
        await self.inner.together(*writes)


@pytest.mark.parametrize("error", [Unreachable("its replicas are away"), TooLarge("too many queues")])
async def test_a_schedule_that_cannot_be_fired_keeps_no_other_from_it(error: HeadraceError, embedded: World) -> None:
    tables = UnfiredTables(embedded.recorded, error)
    cron = cron_of(embedded, AllTables.on(tables, embedded.clock))
    since = embedded.clock().replace(minute=0, second=0) - timedelta(minutes=30)
    bad, *good = [await cron.add("0 * * * *", since + timedelta(seconds=number)) for number in range(3)]
    tables.bad = {bad}
    if error.heals:
        with pytest.raises(Unreachable):
            await cron.firer.look()
    else:
        await cron.firer.look()
    assert [len(await cron.jobs(schedule_id)) for schedule_id in (bad, *good)] == [0, 1, 1]
    await cron.firer.look()
    assert tables.asked == 1, "nobody waits for it in every look"
    tables.bad.clear()
    embedded.clock.move(seconds=REST_FIRST.total_seconds() + 0.1)
    await cron.fire_all()
    assert len(await cron.jobs(bad)) == 1


async def test_a_schedule_is_left_alone_longer_each_time(embedded: World) -> None:
    tables = UnfiredTables(embedded.recorded, TooLarge("too many queues"))
    cron = cron_of(embedded, AllTables.on(tables, embedded.clock))
    since = embedded.clock().replace(minute=0, second=0) - timedelta(minutes=30)
    tables.bad = {await cron.add("0 * * * *", since)}
    for _ in range(200):
        await cron.firer.look()
        embedded.clock.move(seconds=1)
    assert tables.asked == len(("now", 1, 3, 7, 15, 31, 63, 127, 191))
    embedded.clock.move(hours=-1)
    await cron.firer.look()
    assert tables.asked == 10, "a clock that was set back does not count"
    tables.bad.clear()
    embedded.clock.move(hours=1, seconds=REST_MAX.total_seconds())
    await cron.fire_all()
    assert await embedded.candidates() != []
