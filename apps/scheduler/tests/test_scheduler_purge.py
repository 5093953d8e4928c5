"""What ended long ago is deleted with all its rows, and nothing else; a purge that is cut off is made again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from scheduler_world import HOLD_S, STRAYS, World, open_world
from waiting import eventually

from headrace.core.claims import Loss
from headrace.errors import NotFound, Unreachable
from headrace.sources import ItemState
from headrace.tables import RequestKeys
from headrace_scheduler.frame import FRAME
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.reconciler.purger import START, JobPurger, PurgeLimits
from headrace_scheduler.reconciler.retention import SWEEP_S, Retention
from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents
from headrace_scheduler.tables.used_buckets import UsedBuckets
from headrace_scheduler.tenants.tenant_queue import QueueName

FAILURE = Loss(0, "RunFailed", error="RunFailed: no luck")
DAYS = 40.0


@contextmanager
def long_ago(world: World) -> Iterator[None]:
    """What is done here was done long ago."""
    world.clock.move(days=-DAYS)
    try:
        yield
    finally:
        world.clock.move(days=DAYS)


async def ended(world: World, state: ItemState = ItemState.DONE, bucket: int = 1) -> UUID:
    """A job that ended long ago."""
    with long_ago(world):
        job_id = await world.insert_foreign(bucket, world.clock() - timedelta(seconds=1))
        item = await world.hold(job_id)
        assert item is not None
        failure = FAILURE if state is ItemState.DEAD else None
        assert await world.source.settle(item, world.settlement(state, attempts=5, failure=failure))
    return job_id


def limit(world: World) -> datetime:
    return world.clock() - timedelta(days=30)


async def purge(world: World, before: datetime, dead: bool = True, dry_run: bool = False) -> int:
    purger = JobPurger(world.tables, world.parts.locks, HOLD_S, dry_run)
    limits, purged = PurgeLimits(before, before if dead else None), 0
    for bucket in await used_buckets(world).every():
        page = await purger.page(bucket, replace(START, bucket_id=bucket), limits)
        assert page.after is None
        purged += page.purged
    return purged


def used_buckets(world: World) -> UsedBuckets:
    return UsedBuckets(world.tables.tables, world.tables.queues, world.parts.installation.polled)


async def left(world: World, job_id: UUID) -> list[str]:
    """The rows of a job that are there."""
    rows = {
        "lookup": await world.recorded.rows("job_where", job_id=job_id),
        "runs": await world.tables.history.runs(job_id),
        "dead": [await world.tables.dead.find(job_id)],
        "job": [row for row in await world.rows() if row.key.job_id == job_id],
    }
    return [name for name, found in rows.items() if any(found)]


async def test_what_ended_long_ago_goes_with_all_its_rows(world: World) -> None:
    done, dead = await ended(world), await ended(world, ItemState.DEAD)
    waiting = (await world.create(schedule="+PT1M")).job_id
    lately = (await world.create()).job_id
    item = await world.hold(lately)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    with long_ago(world):
        never_run = await world.insert_foreign(2, world.clock())
    assert await purge(world, limit(world), dry_run=True) == 2
    assert await left(world, dead) == ["lookup", "runs", "dead", "job"]
    assert await purge(world, limit(world), dead=False) == 1
    assert await left(world, dead) == ["lookup", "runs", "dead", "job"]
    assert await purge(world, limit(world)) == 1
    assert await purge(world, limit(world)) == 0
    assert [await left(world, job_id) for job_id in (done, dead)] == [[], []]
    assert [await world.status(job_id) for job_id in (waiting, lately)] == [JobStatus.PENDING, JobStatus.COMPLETED]
    assert await left(world, never_run) == ["job"]
    with pytest.raises(NotFound):
        await world.requests.run_again(done)
    with pytest.raises(NotFound):
        await world.requests.redrive(dead)


async def test_a_job_that_ran_again_lately_is_kept(world: World) -> None:
    job_id = await ended(world)
    await world.requests.run_again(job_id)
    world.clock.move(seconds=1)
    item = await world.hold(job_id)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    assert await purge(world, limit(world)) == 0
    assert await world.status(job_id) == JobStatus.COMPLETED


@pytest.mark.parametrize("cut", ["runs_delete", "dead_delete", "job_forget", "tokens_delete", "job_range_delete"])
async def test_a_purge_that_was_cut_off_is_made_again(cut: str, world: World) -> None:
    jobs = [await ended(world, ItemState.DEAD) for _ in range(2)]
    world.recorded.broken[cut] = Unreachable("cut off")
    with pytest.raises(Unreachable):
        await purge(world, limit(world))
    assert any([await left(world, job_id) for job_id in jobs])
    await purge(world, limit(world))
    assert [await left(world, job_id) for job_id in jobs] == [[], []]


async def test_a_row_that_another_program_inserts_beside_a_purge_is_spared(world: World) -> None:
    old = await ended(world, bucket=3)
    world.recorded.gates["job_range_delete"] = gate = asyncio.Event()
    purging = asyncio.ensure_future(purge(world, limit(world)))
    await eventually(lambda: "job_range_delete" in world.recorded.names, "the purge has looked at the bucket")
    beside = await world.insert_foreign(3, world.clock() - timedelta(days=DAYS + 1))
    gate.set()
    assert await purging == 1
    assert (await left(world, old), await left(world, beside)) == ([], ["job"])


async def test_tokens_begin_anew_only_when_their_job_is_gone(cassandra_environment: dict[str, str]) -> None:
    settings = FRAME.load(cassandra_environment)
    async with open_world(settings) as world:
        job_id = await ended(world)
        for gone, cut in ((False, "job_forget"), (True, "job_range_delete")):
            world.recorded.broken[cut] = Unreachable("cut off")
            with pytest.raises(Unreachable):
                await purge(world, limit(world))
            # A process of its own each time: none falls behind tokens that it has had.
            async with open_world(settings) as other:
                leased = await other.parts.locks.take(job_id, "somebody", HOLD_S)
                assert leased is not None
                assert (leased.lease.fence > 100) is not gone
                assert ("lookup" in await left(world, job_id)) is not gone
                assert await other.parts.locks.release(job_id, leased.lease.fence)
        assert await purge(world, limit(world)) == 1


async def test_the_reconciler_deletes_in_slices_and_rests(embedded: World) -> None:
    jobs = [await ended(embedded, bucket=number % 4) for number in range(6)]
    audit = AuditEvents(embedded.recorded)
    with long_ago(embedded):
        day = embedded.clock().date().isoformat()
        await audit.add(AuditEvent(embedded.clock(), "me", "did", "it", ""))
    now_s = [0.0]
    retention = Retention(embedded.parts, lambda: now_s[0])
    steps = [await retention.step() for _ in range(embedded.parts.installation.polled)]
    assert sum(steps) == len(jobs)
    assert await audit.of_day(day) == []
    embedded.recorded.names.clear()
    assert await retention.step() == 0
    assert embedded.recorded.names == [], "it rests until the next hour"
    now_s[0] += SWEEP_S + 1
    assert await retention.step() == 0
    assert "job_scan" in embedded.recorded.names
    assert await embedded.rows() == []


async def test_a_bucket_that_cannot_be_read_keeps_no_other_from_its_purge(embedded: World) -> None:
    """Neither do its requests and its audit wait for it."""
    kept, gone = [await ended(embedded, bucket=bucket) for bucket in (0, 3)]
    retention = Retention(embedded.parts)
    embedded.recorded.broken["job_scan"] = Unreachable("too many tombstones")
    steps = [await retention.step() for _ in range(embedded.parts.installation.polled)]
    assert steps == [0, 0, 0, 1]
    embedded.recorded.names.clear()
    assert await retention.step() == 0
    assert embedded.recorded.names == [], "the sweep is over"
    assert [await embedded.status(job_id) for job_id in (kept, gone)] == [JobStatus.COMPLETED, "unknown"]


async def test_the_queues_of_tenants_are_purged_as_well(embedded: World) -> None:
    queue = await embedded.tables.queues.queue(QueueName("acme"))
    job_id = await ended(embedded, bucket=queue.own_buckets[0])
    retention = Retention(embedded.parts)
    for _ in await used_buckets(embedded).every():
        await retention.step()
    assert await embedded.tables.jobs.find(job_id) is None


async def test_jobs_in_any_bucket_are_purged_as_well(world: World) -> None:
    with long_ago(world):
        for bucket in STRAYS:
            await world.tables.pending.mark_overdue(bucket, world.clock(), world.clock())
    by_hand = [await ended(world, bucket=bucket) for bucket in STRAYS[:2]]
    assert await purge(world, limit(world)) == len(by_hand)
    by_itself = [await ended(world, bucket=bucket) for bucket in STRAYS[2:]]
    retention = Retention(world.parts)
    for _ in await used_buckets(world).every():
        await retention.step()
    assert [await world.tables.jobs.find(job_id) for job_id in (*by_hand, *by_itself)] == [None] * len(STRAYS)


async def test_zero_days_keep_everything_for_ever(embedded: World) -> None:
    job_id = await ended(embedded)
    settings = replace(embedded.parts.settings, keep_days=0.0, keep_dead_days=0.0, keep_audit_days=0.0)
    retention = Retention(replace(embedded.parts, settings=settings))
    for _ in range(embedded.parts.installation.polled):
        assert await retention.step() == 0
    assert await embedded.status(job_id) == JobStatus.COMPLETED


async def test_the_command_counts_and_deletes(
    embedded: World, embedded_environment: dict[str, str], headrace_command: Any
) -> None:
    await ended(embedded)
    before = limit(embedded).isoformat()
    found = []
    for words in (["--dry-run"], [], []):
        command = ("scheduler", "purge", "--before", before, *words, "--json")
        done = await asyncio.to_thread(lambda command=command: headrace_command(*command, **embedded_environment))
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["jobs"])
    assert found == [1, 1, 0]
    audited = await AuditEvents(embedded.recorded).of_day(embedded.clock().date().isoformat())
    assert [(event.action, event.subject) for event in audited] == [("jobs.purge", f"before {before}")] * 2
    wrong = await asyncio.to_thread(
        lambda: headrace_command("scheduler", "purge", "--before", "2020-01-01", **embedded_environment)
    )
    assert wrong.returncode != 0


async def test_requests_in_a_directory_are_forgotten_after_a_day(embedded: World) -> None:
    keys = embedded.parts.request_keys
    assert isinstance(keys, RequestKeys)
    told: list[timedelta] = []

    class ToldKeys(RequestKeys):
        async def forget(self, kept: timedelta) -> None:
            told.append(kept)
            await super().forget(kept)

    retention = Retention(replace(embedded.parts, request_keys=ToldKeys(keys._engine)))
    for _ in range(embedded.parts.installation.polled):
        await retention.step()
    assert told == [timedelta(days=1)]
