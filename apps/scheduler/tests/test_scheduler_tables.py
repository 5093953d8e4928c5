"""The tables of both worlds: what is written is found, whoever wrote it and by whatever clock."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from scheduler_world import HOLD_S, World

from headrace.errors import SchemaMismatch
from headrace.tables import CassandraOptions, apply_schema
from headrace.testing.rig.cassandra import CassandraServer
from headrace_scheduler.jobs.values import DeadJob, JobKey, JobRun, JobTerms, Pending
from headrace_scheduler.tables.cassandra_tables import schema_part
from headrace_scheduler.tables.installation import change_buckets, installation
from headrace_scheduler.tables.job_list import JobList, JobQuestion
from headrace_scheduler.tables.job_tables import micros
from headrace_scheduler.tables.pending_rows import LONG_AGO, PendingRows
from headrace_scheduler.work.job_source import enqueue

PACKAGE = Path(__file__).parents[1] / "src" / "headrace_scheduler"
SCHEMA = Path(__file__).parents[1] / "infra" / "schema.cql"
NAMES = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statements(folder: str) -> set[str]:
    return {name for path in (PACKAGE / folder).glob("*.*ql") for name in NAMES.findall(path.read_text("utf-8"))}


def test_both_dialects_have_the_same_statements() -> None:
    """Requests with a key are kept by the ground floor in the embedded store."""
    assert statements("sql/sqlite") == {name for name in statements("cql") if not name.startswith("key_")}


def test_tables_of_an_earlier_version_get_the_columns_that_came_later(cassandra_server: CassandraServer) -> None:
    """Of those that are added together some are there already."""
    with cassandra_server.keyspace() as url:
        options = CassandraOptions.of(url)
        table = f"{options.keyspace}.jobs_by_id"
        cassandra_server.execute(f"CREATE TABLE {table} (job_id uuid PRIMARY KEY, suspect boolean, crash_tokens text)")
        asyncio.run(apply_schema(options, None, [schema_part()]))
        cassandra_server.execute(f"SELECT suspect, alone_token, crash_tokens, payload_type, last_error FROM {table}")


def test_nothing_is_filtered_by_the_server() -> None:
    assert [path.name for path in (PACKAGE / "cql").glob("*.cql") if "ALLOW FILTERING" in path.read_text("utf-8")] == []


def test_the_schema_has_the_tables_of_the_specification() -> None:
    text = re.sub(r"\s+", " ", SCHEMA.read_text("utf-8"))
    queue = "bucket_id int, scheduled_time timestamp, job_id uuid, payload text,"
    key = "PRIMARY KEY ((bucket_id), scheduled_time, job_id)"
    run = "worker_id text, fencing_token bigint, start_at timestamp, end_at timestamp, status text,"
    for wanted in (
        f"jobs_sharded ( {queue} status text, attempts int, {key} )",
        f"jobs_pending_by_bucket ( {queue} {key} )",
        f"job_history ( job_id text, run_id uuid, {run} PRIMARY KEY ((job_id), run_id) )",
        "jobs_dlq ( job_id uuid PRIMARY KEY, attempts int, last_error text, last_attempt_at timestamp, payload text,",
    ):
        assert f"CREATE TABLE IF NOT EXISTS {wanted}" in text
    assert "gc_grace_seconds = 3600" in text.partition("jobs_pending_by_bucket")[2].partition(";")[0]


async def test_a_job_is_found_by_its_id_with_what_was_asked_for(world: World) -> None:
    job = await world.create({"type": "sleep", "seconds": 1}, terms=JobTerms(1.5, "http://127.0.0.1/", "trace"))
    assert await world.tables.jobs.find(job.job_id) == job
    assert await world.tables.jobs.find(uuid4()) is None


async def test_the_same_creation_again_undoes_nothing(world: World) -> None:
    job = await world.create()
    running = await world.tables.jobs.write_status(job, "running", 2)
    await world.tables.jobs.add(job)
    assert await world.tables.jobs.find(job.job_id) == running


async def test_a_status_outlives_one_that_a_clock_ahead_has_written(world: World) -> None:
    job_id = await world.insert_foreign(1, world.clock(), written=world.clock() + timedelta(hours=1))
    item = await world.hold(job_id)
    assert item is not None
    assert await world.status(job_id) == "running"
    assert await world.source.settle(item, world.settlement())
    assert await world.status(job_id) == "completed"


@pytest.mark.parametrize("ahead_h", [-1, 0, 1])
@pytest.mark.parametrize("landed", [0, 1])
async def test_a_late_status_of_an_earlier_token_loses(world: World, landed: int, ahead_h: int) -> None:
    """Whatever its clock says, and also if the later holder has seen nothing of the earlier one."""
    read = await world.create()
    world.clock.move(hours=ahead_h)
    early = read.under(1)
    if landed:
        early = await world.tables.jobs.write_status(early, "running", 0)
    world.clock.move(hours=-ahead_h)
    seen = await world.tables.jobs.find(read.job_id)
    assert seen is not None
    late = seen.under(2)
    for status in ("running", "completed"):
        late = await world.tables.jobs.write_status(late, status, 0)
    for status in ("running", "failed", "pending", "dlq")[landed:]:
        # Of two equal write times Cassandra keeps the greater value, so each of them must be below.
        early = await world.tables.jobs.write_status(early, status, 1)
        assert await world.status(read.job_id) == "completed", status


async def test_a_late_pending_row_of_an_earlier_token_runs_nothing_that_has_ended(world: World) -> None:
    read = await world.create()
    item = await world.hold(read.job_id)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    world.clock.move(hours=1)
    await enqueue(world.tables, read.under(item.fence - 1), world.clock(), None)
    assert await world.status(read.job_id) == "completed"
    (late,) = await world.candidates()
    assert await world.source.hold(late, "two", HOLD_S) is None


async def test_a_status_of_another_program_that_comes_later_stands(world: World) -> None:
    """Its clock tells its write time, and ours stay behind the clock."""
    job = await world.create()
    item = await world.hold(job.job_id)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    key = {"bucket_id": job.key.bucket_id, "scheduled_time": job.key.scheduled_time, "job_id": job.job_id}
    await world.recorded.rows("job_status", **key, status="failed", attempts=1, written_us=micros(world.clock()))
    assert await world.status(job.job_id) == "failed"


async def test_a_pending_row_of_a_clock_ahead_can_be_deleted(world: World) -> None:
    ahead = world.clock() + timedelta(hours=1)
    job_id = await world.insert_foreign(1, world.clock(), written=ahead)
    (candidate,) = await world.candidates()
    seen = await world.tables.pending.read(candidate.row)
    assert seen is not None
    await world.tables.pending.remove(seen)
    assert await world.tables.pending.read(candidate.row) is None, job_id


async def test_runs_are_told_the_latest_first(world: World) -> None:
    job_id, now = uuid4(), datetime.now(UTC).replace(microsecond=0)
    runs = [JobRun(job_id, uuid4(), "w", token, now + timedelta(seconds=token)) for token in (2, 3, 1)]
    history = world.tables.history
    await world.recorded.together(*map(history.begun, runs))
    await world.recorded.together(history.ended(runs[0], now, "completed"))
    found = await world.tables.history.runs(job_id)
    assert [run.fencing_token for run in found] == [3, 2, 1]
    assert (found[1].status, found[1].end_at, found[0].end_at) == ("completed", now, None)


async def test_dead_jobs_are_read_in_pages_and_removed(world: World) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    known = {dead.job_id for dead in await world.tables.dead.page(None, 1_000)}
    dead = {uuid4(): 0 for _ in range(5)}
    for number, job_id in enumerate(dead):
        await world.tables.dead.add(DeadJob(job_id, number, "why", now, "{}", "Kind", "stack", "trace"))
    seen: list[DeadJob] = []
    while page := await world.tables.dead.page(seen[-1].job_id if seen else None, 2):
        seen += page
    assert {each.job_id for each in seen} - known == set(dead)
    for job_id in dead:
        assert await world.tables.dead.find(job_id) is not None
        await world.tables.dead.remove(job_id)
        assert await world.tables.dead.find(job_id) is None


async def test_a_poll_begins_behind_what_has_run_long_ago(world: World) -> None:
    """Rows dated further back wait for the reconciler's mark."""
    late = await world.insert_foreign(2, world.clock() - timedelta(minutes=10))
    due = await world.insert_foreign(2, world.clock() - timedelta(minutes=1))
    assert [each.key for each in await world.candidates()] == [str(due)]
    world.clock.move(seconds=6)
    moment = world.clock() - timedelta(minutes=11)
    await world.tables.pending.mark_overdue(2, moment, moment + timedelta(minutes=2))
    assert {each.key for each in await world.candidates()} == {str(late), str(due)}


async def test_what_waits_in_a_long_queue_is_not_left_behind(world: World) -> None:
    """The mark stays in front of the earliest row that was seen, however long ago it became due."""
    job_id = await world.insert_foreign(0, world.clock())
    for _ in range(3):
        assert [each.key for each in await world.candidates()] == [str(job_id)]
        world.clock.move(minutes=30)


async def test_every_pending_row_is_passed_once_however_many_share_a_moment(world: World) -> None:
    now = world.clock()
    wanted = [await world.insert_foreign(3, now) for _ in range(7)]
    found: list[Pending] = []
    async for page in PendingRows(world.recorded, world.clock, page=3).pages(3, now + timedelta(minutes=1)):
        found += page
    assert sorted(row.job_id for row in found) == sorted(wanted)


async def test_jobs_of_a_bucket_are_scanned_in_pages(world: World) -> None:
    start = world.clock()
    made = [await world.insert_foreign(1, start + timedelta(seconds=number % 2)) for number in range(5)]
    after, found = JobKey(1, LONG_AGO, uuid4()), set()
    while page := await world.tables.jobs.scan(1, after, start + timedelta(minutes=1), 2):
        found |= {row.key.job_id for row in page}
        after = page[-1].key
    # What a clock ahead has written outlives the emptying of the tables.
    assert found >= set(made)


async def test_jobs_are_listed_over_all_buckets_the_latest_first(world: World) -> None:
    start, made = world.clock(), []
    for number in range(9):
        made.append(await world.insert_foreign(number % 4, start + timedelta(seconds=number // 2)))
    jobs, question = JobList(world.tables, 4), JobQuestion(start - timedelta(hours=1), start + timedelta(hours=1))
    seen: list[object] = []
    before = question.before
    while True:
        page, more = await jobs.page(JobQuestion(question.since, before), 2)
        assert [row.key.scheduled_time for row in page] == sorted((r.key.scheduled_time for r in page), reverse=True)
        seen += [row.key.job_id for row in page if row.key.job_id in made]
        if more is None:
            break
        before = more
    assert sorted(map(str, seen)) == sorted(map(str, made))
    completed, _ = await jobs.page(JobQuestion(question.since, question.before, "completed"), 200)
    assert not {row.key.job_id for row in completed} & set(made)


async def test_another_number_of_buckets_is_refused_until_it_is_changed_for_all(world: World) -> None:
    tables = world.recorded.inner
    with pytest.raises(SchemaMismatch) as refused:
        await installation(tables, 3)
    assert "headrace scheduler schema --buckets 3" in refused.value.hint
    changed = await change_buckets(tables, 3)
    assert (changed.buckets, changed.polled) == (3, 4)
    assert await installation(tables, 3) == changed
    assert (await change_buckets(tables, 4)).buckets == 4
