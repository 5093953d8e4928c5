"""Rows of a newer version: left out, told of and counted, and everything else goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from scheduler_cron import cron_of
from scheduler_world import HOLD_S, World

from headrace.errors import CallerError
from headrace.tables import Row
from headrace_scheduler.reconciler.stray_buckets import StrayBuckets
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_tables import JobTables, Write
from headrace_scheduler.tenants.tenant_queue import QueueName
from headrace_scheduler.work.job_source import JobSource


class NewerTables:
    """Tables in which a newer version has written: `changed` puts words into columns that this one does not know."""

    def __init__(self, inner: JobTables) -> None:
        self._inner = inner
        self.changed: dict[str, tuple[object, int, object]] = {}

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        found = await self._inner.rows(name, **values)
        if name not in self.changed:
            return found
        row_name, place, word = self.changed[name]
        return [_with(row, place, word) if row_name in (None, str(row[0])) else row for row in found]

    async def together(self, *writes: Write) -> None:
        await self._inner.together(*writes)


def _with(row: Row, place: int, word: object) -> Row:
    changed: list[Any] = list(row)
    changed[place] = word
    return tuple(changed)


def newer(world: World) -> tuple[NewerTables, AllTables, list[str]]:
    tables, counted = NewerTables(world.recorded), list[str]()
    every = AllTables.on(tables, world.clock)
    every.unread.observe = counted.append
    return tables, every, counted


@pytest.mark.parametrize(("place", "word"), [(3, "sometimes"), (4, "not JSON"), (8, "urgent")])
async def test_a_schedule_of_a_newer_version_keeps_no_other_from_firing(embedded: World, place: int, word: str) -> None:
    tables, every, counted = newer(embedded)
    cron = cron_of(embedded, every)
    since = embedded.clock().replace(minute=0, second=0) - timedelta(minutes=30)
    bad, *good = [await cron.add("0 * * * *", since + timedelta(seconds=number)) for number in range(3)]
    tables.changed = {name: (str(bad), place, word) for name in ("cron_all", "cron_row")}
    await cron.firer.look()
    assert [len(await cron.jobs(schedule_id)) for schedule_id in (bad, *good)] == [0, 1, 1]
    assert set(counted) == {"cron_schedules"}
    with pytest.raises(CallerError, match="newer version"):
        await cron.rows.find(bad)


async def test_a_queue_of_a_newer_version_is_nobodys_stray_and_the_others_are_polled(embedded: World) -> None:
    tables, every, counted = newer(embedded)
    theirs = await embedded.tables.queues.queue(QueueName(f"t-{uuid4()}"))
    tables.changed = {"queues": (str(theirs.number), 2, "urgent")}
    await every.queues.others()
    assert counted == ["tenant_queues"]
    bucket = theirs.own_buckets[0]
    assert not every.queues.is_stray(bucket, embedded.parts.installation.polled)
    await embedded.insert_foreign(bucket, embedded.clock())
    mine = await embedded.insert_foreign(1, embedded.clock())
    assert bucket not in await StrayBuckets(every, embedded.parts.installation.polled).buckets()
    source = JobSource(every, embedded.parts.locks, embedded.parts.installation.polled)
    assert [each.key for each in (await source.poll(10)).candidates] == [str(mine)]


async def test_a_job_of_a_newer_version_is_left_alone(embedded: World) -> None:
    tables, every, counted = newer(embedded)
    job_id = await embedded.insert_foreign(1, embedded.clock())
    source = JobSource(every, embedded.parts.locks, embedded.parts.installation.polled)
    (candidate,) = (await source.poll(10)).candidates
    await every.jobs.adopt(candidate.row)
    tables.changed = {"job_where": (None, 7, "12@zone")}
    with pytest.raises(CallerError, match="newer version"):
        await source.hold(candidate, "one", HOLD_S)
    assert counted == ["jobs_by_id"]
    assert str(job_id) == candidate.key
