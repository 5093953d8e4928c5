"""Tenants and priorities: queues of their own, fair turns, shares, and what an idle one costs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from scheduler_world import HOLD_S, World
from uuid_utils import uuid7

from headrace.errors import TooLarge
from headrace.sources import HeldItem, ItemCandidate
from headrace.tables import Row
from headrace_scheduler.api.job_requests import JobWish
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import Job, JobStatus, JobTerms, Pending
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.tables.job_tables import JobTables, Write, micros
from headrace_scheduler.tenants.fair_poll import LOOK_EVERY, FairPoll
from headrace_scheduler.tenants.places import BoundedSource, TenantPlaces
from headrace_scheduler.tenants.queue_registry import QueueRegistry
from headrace_scheduler.tenants.tenant_limits import TenantRules
from headrace_scheduler.tenants.tenant_queue import JobPriority, QueueName, TenantQueue
from headrace_scheduler.work.job_source import JobSource

MANY = 10_000


@pytest.fixture
def tenant() -> str:
    """One that no test before has used: queues are never deleted."""
    return f"t-{uuid4()}"


async def create(world: World, name: QueueName, schedule: str = "now", terms: JobTerms | None = None) -> Job:
    return await world.requests.create(JobWish(schedule, {}, terms or JobTerms(), name), str(uuid7()))


async def fill(world: World, name: QueueName, count: int) -> TenantQueue:
    """Pending rows alone, which are jobs as well."""
    queue, at = await world.tables.queues.queue(name), whole_ms(world.clock() - timedelta(minutes=2))
    rows = [Pending(queue.bucket(uuid4(), 4), at, uuid4(), "{}") for _ in range(count)]
    await asyncio.gather(*(world.tables.pending.add(row) for row in rows))
    return queue


async def hold(world: World, candidate: ItemCandidate) -> HeldItem:
    item = await world.source.hold(candidate, "one", HOLD_S)
    assert item is not None
    return item


def tenants(world: World, candidates: list[ItemCandidate]) -> Counter[str]:
    return Counter(world.tables.queues.known(each.row.bucket_id).name.tenant for each in candidates)


async def test_ten_jobs_do_not_wait_behind_ten_thousand(embedded: World) -> None:
    await fill(embedded, QueueName("large"), MANY)
    small = {(await create(embedded, QueueName("small"))).job_id for _ in range(10)}
    runs = 0
    while small and runs < 300:
        for candidate in (await embedded.source.poll(8)).candidates:
            item = await hold(embedded, candidate)
            assert await embedded.source.settle(item, embedded.settlement())
            small.discard(candidate.row.job_id)
            runs += 1
    assert (small, runs < 100) == (set(), True)


async def test_the_default_queue_waits_behind_nobody_and_hides_nobody(world: World, tenant: str) -> None:
    await fill(world, QueueName(), 100)
    await fill(world, QueueName(tenant), 100)
    seen = tenants(world, list((await world.source.poll(40)).candidates))
    assert seen == {"default": 20, tenant: 20}


async def test_the_lowest_priority_gets_its_share(embedded: World) -> None:
    for priority in JobPriority:
        await fill(embedded, QueueName("acme", priority), 60)
    polled = (await embedded.source.poll(40)).candidates
    seen = Counter(embedded.tables.queues.known(each.row.bucket_id).name.priority for each in polled)
    assert seen == {JobPriority.HIGH: 30, JobPriority.NORMAL: 8, JobPriority.LOW: 2}


async def test_a_share_that_nobody_needs_goes_to_the_most_urgent(embedded: World) -> None:
    await fill(embedded, QueueName("acme", JobPriority.HIGH), 30)
    await fill(embedded, QueueName("blue", JobPriority.LOW), 1)
    polled = (await embedded.source.poll(20)).candidates
    assert tenants(embedded, list(polled)) == {"acme": 19, "blue": 1}


async def test_whoever_comes_late_in_a_poll_is_first_in_another(embedded: World) -> None:
    """A worker with few free places takes the first of a poll only."""
    for number in range(20):
        await fill(embedded, QueueName(f"tenant-{number}"), 1)
    await fill(embedded, QueueName("low", JobPriority.LOW), 1)
    poll = FairPoll(embedded.tables, 4, random.Random(7))
    polls = [await poll.rows(1) for _ in range(150)]
    first = Counter(embedded.tables.queues.known(rows[0].bucket_id).name for rows in polls)
    assert len(first) > 15
    assert first[QueueName("low", JobPriority.LOW)] > 0
    assert max(first.values()) < 40


async def test_a_job_of_an_idle_queue_is_seen_when_it_is_due(world: World, tenant: str) -> None:
    job = await create(world, QueueName(tenant), "+PT2H")
    assert await world.candidates() == []
    world.clock.move(hours=2, seconds=1)
    # Another process has not heard of the queue before.
    source = JobSource(type(world.tables).on(world.recorded, world.clock), world.parts.locks, 4)
    assert [each.key for each in (await source.poll(10)).candidates] == [str(job.job_id)]


async def test_a_row_whose_mark_was_lost_is_seen_a_little_later(embedded: World) -> None:
    queue = await embedded.tables.queues.queue(QueueName("acme"))
    assert await embedded.candidates() == []
    embedded.clock.move(minutes=1)
    assert await embedded.candidates() == []
    at = whole_ms(embedded.clock())
    key = {"bucket_id": queue.own_buckets[0], "scheduled_time": at, "job_id": uuid4()}
    await embedded.recorded.rows("pending_add", **key, payload="{}", written_us=micros(at))
    embedded.clock.move(seconds=1)
    assert await embedded.candidates() == []
    embedded.clock.move(seconds=LOOK_EVERY.total_seconds())
    assert len(await embedded.candidates()) == 1


async def test_a_hundred_idle_tenants_cost_hardly_a_statement(embedded: World) -> None:
    for number in range(100):
        await embedded.tables.queues.queue(QueueName(f"tenant-{number}"))
    await embedded.candidates()
    embedded.recorded.names.clear()
    for _ in range(120):
        embedded.clock.move(seconds=0.5)
        await embedded.candidates()
    # In a minute: every bucket of theirs twice, and the four of the default queue in every poll.
    assert embedded.recorded.names.count("pending_due") <= 120 * 4 + 2 * 2 * 100 + 200
    assert embedded.recorded.names.count("queue_marks") <= 121


async def test_a_retry_and_a_callback_stay_in_their_queue(world: World, tenant: str) -> None:
    name = QueueName(tenant, JobPriority.HIGH)
    job = await create(world, name, terms=JobTerms(None, "http://127.0.0.1:9/told"))
    (candidate,) = await world.candidates()
    assert await world.source.give_back(await hold(world, candidate))
    world.clock.move(seconds=1)
    (candidate,) = await world.candidates()
    assert await world.source.settle(await hold(world, candidate), world.settlement())
    world.clock.move(seconds=1)
    (call,) = await world.candidates()
    assert call.key != str(job.job_id)
    for seen in (candidate, call):
        assert (await world.tables.queues.of_bucket(seen.row.bucket_id)).name == name


async def test_a_job_left_half_done_in_a_tenant_s_queue_is_put_back(world: World, tenant: str) -> None:
    job = await create(world, QueueName(tenant, JobPriority.LOW))
    (candidate,) = await world.candidates()
    await world.tables.pending.remove(candidate.row)
    world.clock.move(seconds=10)
    assert await JobReconciler(world.parts).look() == 1
    world.clock.move(seconds=1)
    assert [each.key for each in await world.candidates()] == [str(job.job_id)]


async def test_the_reconciler_leaves_idle_queues_alone_for_a_while(embedded: World) -> None:
    queue = await embedded.tables.queues.queue(QueueName("acme"))
    reconciler = JobReconciler(embedded.parts)

    async def looked() -> int:
        embedded.recorded.names.clear()
        await reconciler.look()
        return embedded.recorded.names.count("job_scan")

    assert [await looked() for _ in range(3)] == [4 + len(queue.own_buckets), 4, 4]
    embedded.clock.move(minutes=6)
    assert await looked() == 4 + len(queue.own_buckets)
    await create(embedded, queue.name, "now")
    embedded.clock.move(minutes=30)
    # It has a job that nobody runs, and is not left out again.
    assert [await looked() for _ in range(3)] == [6, 6, 6]


async def test_a_queue_has_one_number_whoever_makes_it(world: World, tenant: str) -> None:
    names = [QueueName(tenant, priority) for priority in JobPriority]
    taken = names[0].number_first()
    await world.recorded.rows("queue_add", number=taken, tenant=f"{tenant}-other", priority="normal")
    registries = [QueueRegistry(world.recorded, world.clock) for _ in range(4)]
    found = await asyncio.gather(*(registry.queue(name) for name in names for registry in registries))
    numbers = {queue.name: {each.number for each in found if each.name == queue.name} for queue in found}
    assert [len(each) for each in numbers.values()] == [1, 1, 1]
    assert len({number for each in numbers.values() for number in each} - {taken}) == 3
    assert {bucket for queue in found for bucket in queue.own_buckets}.isdisjoint(range(4_096))


async def test_a_tenant_has_no_more_places_than_it_may(embedded: World) -> None:
    places = TenantPlaces(TenantRules.of("acme:in_progress=2"))
    jobs = JobSource(embedded.tables, embedded.parts.locks, 4, room=places.room)
    source, rings = BoundedSource(jobs, embedded.tables.queues, places), []
    source.on_wake(lambda: rings.append(1))
    for _ in range(4):
        await create(embedded, QueueName("acme"))
        await create(embedded, QueueName("blue"))
    stale = [each for each in await embedded.candidates() if tenants(embedded, [each]) == {"acme": 1}]
    polled = (await source.poll(20)).candidates
    assert tenants(embedded, list(polled)) == {"acme": 2, "blue": 4}
    held = [await source.hold(each, "one", HOLD_S) for each in stale]
    assert [item is not None for item in held] == [True, True, False, False]
    assert tenants(embedded, list((await source.poll(20)).candidates)) == {"blue": 4}
    assert held[0] is not None
    assert await source.settle(held[0], embedded.settlement())
    assert rings == [1]
    assert tenants(embedded, list((await source.poll(20)).candidates))["acme"] == 1
    assert await embedded.status(stale[2].row.job_id) == JobStatus.PENDING


def test_a_place_of_a_hold_that_was_lost_is_free_when_the_hold_has_passed() -> None:
    now = [0.0]
    places = TenantPlaces(TenantRules.of("*:in_progress=1"), lambda: now[0])
    assert places.take("acme", "a", 5.0)
    assert not places.take("acme", "b", 5.0)
    assert places.take("blue", "c", 5.0)
    now[0] = 5.0
    assert places.take("acme", "b", 5.0)


def test_places_of_tenants_without_a_limit_are_not_kept() -> None:
    """Nobody would ever forget those whose holds were lost."""
    places = TenantPlaces(TenantRules.of("acme:in_progress=1"))
    assert all(places.take("blue", f"job-{number}", 5.0) for number in range(100))
    assert places.take("acme", "a", 5.0)
    assert places._taken.keys() == {"acme"}


class ShortAnswers:
    """Tables whose answers have few rows at most."""

    def __init__(self, inner: JobTables) -> None:
        self._inner = inner

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        found = await self._inner.rows(name, **values)
        if len(found) > 5:
            raise TooLarge("an answer of over 5 rows")
        return found

    async def together(self, *writes: Write) -> None:
        await self._inner.together(*writes)


async def test_more_marks_than_an_answer_may_have_are_read_in_parts(embedded: World) -> None:
    """Each queue that is busy has one for every ten seconds, and the reconciler reads those of ten minutes."""
    now = embedded.clock()
    for number in range(20):
        at = now - timedelta(seconds=30 * number)
        mark = {"day": at.date().isoformat(), "due_at": at.replace(microsecond=0), "number": number}
        await embedded.recorded.rows("queue_mark", **mark, ttl_s=600)
    registry = QueueRegistry(ShortAnswers(embedded.recorded), embedded.clock)
    assert await registry.marked(now - timedelta(minutes=10), now) == frozenset(range(20))
    for number in range(20, 30):
        mark = {"day": now.date().isoformat(), "due_at": now.replace(microsecond=0), "number": number}
        await embedded.recorded.rows("queue_mark", **mark, ttl_s=600)
    with pytest.raises(TooLarge):
        await registry.marked(now - timedelta(minutes=10), now)
