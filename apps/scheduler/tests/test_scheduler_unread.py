"""Buckets and marks that cannot be read, clocks that are set back, and rows in another form: the rest goes on."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from scheduler_world import World

from headrace.errors import CallerError, Unreachable
from headrace.tables import Row
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import Pending
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_tables import JobTables
from headrace_scheduler.tables.pending_rows import LOW_WATER, MARKS_EVERY, UNREAD_REST
from headrace_scheduler.tenants.fair_poll import ALONE_WITHIN, LOOK_EVERY, REST_FIRST, REST_MAX, FairPoll
from headrace_scheduler.tenants.tenant_queue import QueueName

BROKEN = 2
Fails = Callable[[str, dict[str, object]], bool]


@dataclass
class PartlyAway:
    """Tables of which some statements are not answered."""

    inner: JobTables
    fails: Fails = lambda _name, _values: False
    asked: list[tuple[str, object]] = field(default_factory=list)

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        self.asked.append((name, values.get("bucket_id")))
        if self.fails(name, values):
            raise Unreachable(f"{name}: its replicas are away")
        return await self.inner.rows(name, **values)


class PollBench:
    """The polls of one worker on tables that can fail."""

    def __init__(self, world: World) -> None:
        self.away = PartlyAway(world.recorded)
        self.tables = AllTables.on(self.away, world.clock)
        self.poll = FairPoll(self.tables, 4, random.Random(3))

    async def seen(self) -> set[UUID]:
        return {row.job_id for row in await self.poll.rows(100)}


@pytest.fixture
def bench(embedded: World) -> PollBench:
    return PollBench(embedded)


def bucket_away(name: str, values: dict[str, object]) -> bool:
    return name == "pending_due" and values["bucket_id"] == BROKEN


async def test_a_bucket_that_cannot_be_read_keeps_nobody_from_the_others(embedded: World, bench: PollBench) -> None:
    found = [await embedded.insert_foreign(bucket, embedded.clock()) for bucket in range(4)]
    bench.away.fails = bucket_away
    assert await bench.seen() == set(found) - {found[BROKEN]}
    bench.away.asked.clear()
    assert await bench.seen() == set(found) - {found[BROKEN]}
    assert ("pending_due", BROKEN) not in bench.away.asked, "nobody waits for it in every poll"
    bench.away.fails = lambda _name, _values: False
    embedded.clock.move(seconds=REST_FIRST.total_seconds() + 1)
    assert await bench.seen() == set(found)


async def test_a_bucket_is_left_out_longer_each_time(embedded: World, bench: PollBench) -> None:
    bench.away.fails = bucket_away
    rests = []
    for _ in range(10):
        bench.away.asked.clear()
        polls = 0
        while ("pending_due", BROKEN) not in bench.away.asked:
            await bench.seen()
            embedded.clock.move(seconds=1)
            polls += 1
        rests.append(polls)
    assert rests == sorted(rests)
    assert rests[-1] == pytest.approx(REST_MAX.total_seconds(), abs=2)
    bench.away.fails = lambda _name, _values: False
    embedded.clock.move(seconds=200)
    job_id = await embedded.insert_foreign(BROKEN, embedded.clock())
    assert await bench.seen() == {job_id}
    bench.away.fails = bucket_away
    assert await bench.seen() == set()
    bench.away.fails = lambda _name, _values: False
    embedded.clock.move(seconds=REST_FIRST.total_seconds() + 1)
    assert await bench.seen() == {job_id}, "what was read meanwhile is forgiven"


async def test_a_bucket_with_too_many_tombstones_is_read_close_behind_the_clock(
    embedded: World, bench: PollBench
) -> None:
    """A row that has waited for long keeps the low-water mark back, and whatever has run since lies behind it."""
    await embedded.insert_foreign(BROKEN, embedded.clock())
    assert len(await bench.seen()) == 1
    embedded.clock.move(minutes=20)
    assert len(await bench.seen()) == 1
    far = embedded.clock() - 2 * LOW_WATER
    bench.away.fails = lambda name, values: name == "pending_due" and values["after"] < far  # type: ignore[operator]
    assert await bench.seen() == set()
    job_id = await embedded.insert_foreign(BROKEN, embedded.clock())
    embedded.clock.move(seconds=REST_FIRST.total_seconds() + 1)
    assert await bench.seen() == {job_id}


async def test_tables_that_do_not_answer_at_all_are_an_error(embedded: World, bench: PollBench) -> None:
    assert await bench.seen() == set()
    bench.away.fails = lambda name, _values: name == "pending_due"
    embedded.clock.move(seconds=ALONE_WITHIN.total_seconds() + 1)
    with pytest.raises(Unreachable):
        await bench.seen()
    bench.away.fails = lambda _name, _values: False
    job_id = await embedded.insert_foreign(BROKEN, embedded.clock())
    assert await bench.seen() == {job_id}, "no bucket is left out for that"


async def test_a_queue_that_cannot_be_read_keeps_nobody_from_the_others(embedded: World, bench: PollBench) -> None:
    away = await embedded.tables.queues.queue(QueueName("away"))
    here = await embedded.tables.queues.queue(QueueName("here"))
    rows = [Pending(queue.own_buckets[0], whole_ms(embedded.clock()), uuid4(), "{}") for queue in (away, here)]
    for row in rows:
        await embedded.tables.pending.add(row)
    assert await bench.seen() == {row.job_id for row in rows}
    bench.away.fails = lambda name, values: name == "pending_due" and values["bucket_id"] in away.own_buckets
    for _ in range(3):
        assert await bench.seen() == {rows[1].job_id}


@pytest.mark.parametrize("hint", ["overdue_marks", "queue_marks", "queues"])
async def test_marks_that_cannot_be_read_keep_nobody_from_the_rest(
    hint: str, embedded: World, bench: PollBench
) -> None:
    bench.away.fails = lambda name, _values: name == hint
    job_id = await embedded.insert_foreign(1, embedded.clock())
    assert await bench.seen() == {job_id}
    bench.away.asked.clear()
    embedded.clock.move(seconds=MARKS_EVERY.total_seconds() + 1)
    assert await bench.seen() == {job_id}
    assert hint not in {name for name, _ in bench.away.asked}, "nobody waits for it in every poll"
    queue = await embedded.tables.queues.queue(QueueName("acme"))
    late = Pending(queue.own_buckets[0], whole_ms(embedded.clock()), uuid4(), "{}")
    await embedded.tables.pending.add(late)
    bench.away.fails = lambda _name, _values: False
    embedded.clock.move(seconds=max(UNREAD_REST, LOOK_EVERY).total_seconds() + 1)
    assert await bench.seen() == {job_id, late.job_id}


async def test_a_span_that_cannot_be_read_keeps_nobody_from_the_rest(embedded: World, bench: PollBench) -> None:
    old = await embedded.insert_foreign(1, embedded.clock() - timedelta(days=40))
    new = await embedded.insert_foreign(1, embedded.clock())
    await JobReconciler(embedded.parts).look()
    span = embedded.clock() - timedelta(days=1)
    bench.away.fails = lambda name, values: name == "pending_due" and values["until"] < span  # type: ignore[operator]
    assert await bench.seen() == {new}
    bench.away.asked.clear()
    assert await bench.seen() == {new}
    assert bench.away.asked.count(("pending_due", 1)) == 1, "nobody waits for it in every poll"
    bench.away.fails = lambda _name, _values: False
    embedded.clock.move(seconds=UNREAD_REST.total_seconds() + 1)
    assert await bench.seen() == {old, new}


async def test_old_rows_are_seen_where_there_is_always_enough_of_new_ones(world: World) -> None:
    at = whole_ms(world.clock())
    rows = [Pending(1, at - timedelta(milliseconds=number), uuid4(), "{}") for number in range(200)]
    for row in rows:
        await world.tables.pending.add(row)
    old = await world.insert_foreign(1, world.clock() - timedelta(days=40))
    await JobReconciler(world.parts).look()
    assert old in {row.job_id for row in await world.tables.pending.due(1, 32)}


async def test_a_clock_that_is_set_back_stops_no_poll(world: World) -> None:
    source = world.source
    for _ in range(2):
        await source.poll(8)
    world.clock.move(hours=-2)
    new = await world.insert_foreign(1, world.clock())
    old = await world.insert_foreign(1, world.clock() - timedelta(days=40))
    await JobReconciler(world.parts).look()
    assert {each.key for each in (await source.poll(8)).candidates} == {str(new), str(old)}
    other = AllTables.on(world.recorded, world.clock)
    queue = await other.queues.queue(QueueName(f"t-{uuid4()}"))
    late = Pending(queue.own_buckets[0], whole_ms(world.clock()), uuid4(), "{}")
    await other.pending.add(late)
    world.clock.move(seconds=MARKS_EVERY.total_seconds())
    assert str(late.job_id) in {each.key for each in (await source.poll(8)).candidates}


async def test_a_queue_is_heard_of_after_a_clock_was_set_back(embedded: World) -> None:
    """Also one of whose rows the mark was lost."""
    assert await embedded.candidates() == []
    embedded.clock.move(hours=-2)
    other = AllTables.on(embedded.recorded, embedded.clock)
    queue = await other.queues.queue(QueueName("acme"))
    key = {"bucket_id": queue.own_buckets[0], "scheduled_time": whole_ms(embedded.clock()), "job_id": uuid4()}
    await embedded.recorded.rows("pending_add", **key, payload="{}", written_us=1)
    assert [each.key for each in await embedded.candidates()] == [str(key["job_id"])]


@pytest.mark.parametrize("table", ["pending_add", "job_add"])
@pytest.mark.parametrize(
    "odd",
    [
        {"job_id": "one"},
        {"job_id": b"one"},
        {"job_id": "6F6B1F5E-4B0C-5C0E-9A8E-0D9F2C7D1B11"},
        {"job_id": "6f6b1f5e-4b0c-5c0e-9a8e-0d9f2c7d1bzz"},
        {"scheduled_time": "2026-01-31T09:00:00.000000"},
        {"scheduled_time": "2026-01-31T09:00:00+00:00"},
        {"scheduled_time": "2026-02-30T09:00:00.000000+00:00"},
        {"scheduled_time": "soon"},
        {"bucket_id": "first"},
        {"payload": b"\xff"},
        {"written_us": "now"},
    ],
)
async def test_a_row_in_another_form_is_refused_where_the_store_has_no_types(
    odd: dict[str, object], table: str, embedded: World
) -> None:
    """As Cassandra does: it would end the polls of every worker, or be seen and never found again."""
    key = {"bucket_id": 1, "scheduled_time": whole_ms(embedded.clock()), "job_id": uuid4()}
    row = {**key, "payload": "{}", "written_us": 1, **({"status": "pending"} if table == "job_add" else {})}
    with pytest.raises(CallerError, match="UUID in lower case"):
        await embedded.recorded.rows(table, **{**row, **odd})
    await embedded.recorded.rows(table, **row)


@pytest.mark.parametrize("payload", [None, "", "7", "no JSON", "[" * 100_000])
async def test_any_payload_is_held(payload: str | None, world: World) -> None:
    row = Pending(1, whole_ms(world.clock()), uuid4(), payload)
    await world.tables.pending.add(row)
    assert await world.hold(row.job_id) is not None
