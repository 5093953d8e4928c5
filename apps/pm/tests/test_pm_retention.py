"""Old rows go in small batches, none of a file that may still be listed, and a name that comes again is not hidden."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pm_file_world import AGAIN, FOLDER, A, FileWorld, completed, listed, register
from pm_operator_world import operator_tables, query
from pm_work_world import ToldEvents
from test_pm_operator_commands import pm as pm
from test_pm_waiting import MANY, rows_read

from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.register import FileTable
from headrace_pm.tables.retention import DAY_S, FILES_MAX, FileRetention
from headrace_pm.work.retention_sweep import BATCHES_MAX, RetentionSweep

OURS = ("file_processing_state", "pm_file_claim", "pm_file_revision", "pm_file_sink")
OLD = 2 * DAY_S / 60
# A hold, or a settlement, must not wait for a batch; on a machine that is busy with other tests a statement alone may.
BATCH_S_MAX = 20.0


def counts(world: FileWorld) -> list[int]:
    return [int(world.query(f"SELECT COUNT(DISTINCT {_id(table)}) FROM {table}")[0][0]) for table in OURS]


def _id(table: str) -> str:
    return "id" if table == OURS[0] else "file_id"


async def moved(world: FileWorld, name: str = "a.dat", content: bytes = b"one", minutes: float = OLD) -> int:
    """A file that was taken, written and moved so long ago."""
    await register(world, listed(name))
    held = await completed(world, content)
    (to_move,) = await FileMoves(world.tables).take(10, "m", 30.0)
    assert await FileMoves(world.tables).moved({to_move: f"/Access/ClickHouse/Done/{name}"})
    world.change(held.file_id, updated_at=world.ago(minutes))
    return held.file_id


def retention(world: FileWorld, files_max: int = FILES_MAX) -> FileRetention:
    return FileRetention(world.tables, DAY_S, files_max)


async def test_what_was_moved_long_ago_goes_with_all_that_belongs_to_it(file_world: FileWorld) -> None:
    world = file_world
    await moved(world)
    await moved(world, "new.dat", b"two", DAY_S / 60 - 5)
    assert (await retention(world).preview()).files == 1
    assert await retention(world).purge() == (1, False)
    assert counts(world) == [1, 1, 1, 1]
    assert world.query("SELECT file_name FROM file_processing_state") == [("new.dat",)]
    assert await retention(world).purge() == (0, False)


async def all_stay(world: FileWorld) -> None:
    """Whatever its state is, a row whose file may be in its folder, or that somebody wants, stays."""
    states = ("'PENDING'", "'ERROR'", "'COMPLETED'", "'PARTIAL_DONE'", "'MOVED'")
    numbers = [await moved(world, f"moved{each}.dat", b"%d" % each) for each in range(len(states))]
    for number, state in zip(numbers, states, strict=True):
        world.change(number, state=state)
    until = world.moment_ago(-5)
    world.query(f"UPDATE pm_file_claim SET owner = 'x', until = {until} WHERE file_id = {numbers[-1]}")
    numbers.append(world.add())
    world.change(numbers[-1], state="'MOVED'")
    world.query(f"INSERT INTO pm_file_claim (file_id) VALUES ({numbers[-1]})")
    world.query(
        "INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)"
        f" VALUES ({numbers[-1]}, 1, 1, '', {world.moment_ago(OLD)})"
    )
    for number in numbers:
        world.change(number, updated_at=world.ago(OLD))
    assert await retention(world).purge() == (0, False)
    assert counts(world)[0] == len(numbers)


async def test_a_row_whose_file_may_still_be_listed_stays(file_world: FileWorld) -> None:
    await all_stay(file_world)


@pytest.mark.parametrize("guard", ["archived_as IS NOT NULL", "owner IS NULL"])
async def test_a_purge_without_its_guard_is_noticed(file_world: FileWorld, guard: str) -> None:
    prefix = {"mysql": {"o": "c.", "a": "r."}, "sqlite": {"o": "pm_file_claim.", "a": "r."}}[file_world.dialect]
    file_world.break_guard("purge_judge", prefix[guard[0]] + guard)
    if guard[0] == "a":
        file_world.break_guard("purge_slice", "r.archived_as IS NOT NULL")
    with pytest.raises(AssertionError):
        await all_stay(file_world)


async def reset_meanwhile(world: FileWorld) -> None:
    """Somebody resets the row between the look at it and its end, without any lock of ours."""
    number = await moved(world)
    sweeping = retention(world)
    (slice_row,) = await world.tables.rows(
        "purge_slice", after_at="1970-01-01 00:00:00", after_id=0, age_s=DAY_S, count_max=5
    )
    assert slice_row[1:3] == (number, True)
    world.change(number, state="'PENDING'", retry_count="0")
    assert await sweeping._delete([(number, 1)]) == 0
    assert counts(world) == [1, 1, 1, 1]
    _, held = await world.hold()
    assert held.archived_as, "it is read from the archive"


async def test_what_is_reset_while_it_is_purged_stays_whole(file_world: FileWorld) -> None:
    await reset_meanwhile(file_world)


async def test_a_purge_that_believes_its_first_look_is_noticed(file_world: FileWorld) -> None:
    alias = "s." if file_world.dialect == "mysql" else ""
    file_world.break_guard("purge_judge", "s.state = 'MOVED'")
    file_world.break_guard("purge_files", f"{alias}state = 'MOVED'")
    for name in ("purge_judge", "purge_files"):
        age = "UTC_TIMESTAMP() - INTERVAL :age_s SECOND" if alias else "datetime('now', -:age_s || ' seconds')"
        column = "s.updated_at" if alias or name == "purge_judge" else "updated_at"
        file_world.break_guard(name, f"{column} < {age}")
    with pytest.raises(AssertionError):
        await reset_meanwhile(file_world)


async def comes_again(world: FileWorld) -> None:
    """A name whose row was purged is uploaded again: a new file, whose batches nobody takes for the old ones."""
    number = await moved(world)
    before = world.query("SELECT revision, version FROM pm_file_revision")
    assert await retention(world).purge() == (1, False)
    assert (await register(world, AGAIN)).new == (AGAIN,)
    _, held = await world.hold()
    assert held.file_id > number
    ((revision, version),) = before
    assert held.version > version, "its rows replace the old ones"
    assert held.revision > revision, "(file, revision, batch) is another one for those who read the topic"
    assert world.query("SELECT revision, modified FROM pm_file_revision") == [(held.revision, AGAIN.stamp.modified)]
    by_hand = world.add()
    (candidate,) = (await world.claims().poll(10)).candidates
    other = await world.claims().hold(candidate, "b", 30.0)
    assert other is not None
    assert (other.payload.file_id, other.payload.revision) == (by_hand, held.revision)


async def test_a_purged_name_that_comes_again_is_another_revision(file_world: FileWorld) -> None:
    await comes_again(file_world)


@pytest.mark.parametrize("name", ["revisions_first", "claim_begin"])
async def test_a_revision_that_begins_at_1_again_is_noticed(file_world: FileWorld, name: str) -> None:
    file_world.break_guard(name, "1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0)", "1")
    with pytest.raises(AssertionError):
        await comes_again(file_world)


async def test_a_purge_beside_a_look_that_knew_the_row_hides_nothing(file_world: FileWorld) -> None:
    """The scanner has read the row as MOVED, then it goes: the file is asked about again, and is new."""
    world = file_world
    number = await moved(world)
    world.query(f"DELETE FROM pm_file_sink WHERE file_id = {number}")
    files = FileTable(world.tables)
    known = await files._found(FOLDER, [A.text])
    assert await retention(world).purge() == (1, False)
    assert (await files._renew([(A, known[A.text])])).later == (A,)
    assert (await register(world, A)).new == (A,)


async def test_what_belongs_to_no_row_goes(file_world: FileWorld) -> None:
    world = file_world
    gone, stays = await moved(world), await moved(world, "b.dat", b"two")
    held = world.add()
    await world.hold()
    world.query(f"DELETE FROM file_processing_state WHERE id IN ({gone}, {held})")
    assert await retention(world).purge_orphans() == 1
    assert {number for (number,) in world.query("SELECT file_id FROM pm_file_claim")} == {stays, held}
    world.lose_holds()
    assert await retention(world).purge_orphans() == 1
    assert counts(world) == [1, 1, 1, 1]
    world.query("DELETE FROM pm_file_claim")
    world.query("DELETE FROM file_processing_state")
    assert await retention(world).purge_orphans() == 1
    assert counts(world) == [0, 0, 0, 0]
    assert await retention(world).purge_orphans() == 0


def fill(world: FileWorld, count: int) -> None:
    """So many files that were moved two days ago."""
    if world.dialect == "mysql":
        world.query(f"SET SESSION max_recursive_iterations = {count + 1}")
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    columns = "system_type, ftp_server_key, ftp_path, file_name, state, updated_at"
    values = f"'5GA', 'h_21_u', '/Access/', CONCAT('old', i, '.dat'), 'MOVED', {world.ago(OLD)}"
    world.query(f"INSERT INTO file_processing_state ({columns}) {numbers} SELECT {values} FROM n")
    world.query("INSERT INTO pm_file_claim (file_id, left_as) SELECT id, 'MOVED' FROM file_processing_state")
    world.query(
        "INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at, archived_as)"
        f" SELECT id, 1, 1, 'u', {world.moment_ago(OLD)}, '/x' FROM file_processing_state"
    )
    for sink in ("mysql", "kafka"):
        world.query(
            f"INSERT INTO pm_file_sink (file_id, sink, epoch) SELECT id, '{sink}', 1 FROM file_processing_state"
        )
    if world.dialect == "mysql":
        world.query(f"ANALYZE TABLE {', '.join(OURS)}")


async def test_a_batch_reads_and_keeps_locked_no_more_than_itself(file_world: FileWorld) -> None:
    world = file_world
    fill(world, MANY)
    slice_ = {"after_at": "1970-01-01 00:00:00", "after_id": 0, "age_s": DAY_S, "count_max": 100}
    assert rows_read(world, "purge_slice", slice_) <= 101
    number = world.add()
    taken: list[float] = []
    waited: list[float] = []
    done = asyncio.Event()

    async def work_on() -> None:
        """A worker beside it: hold and give back, again and again."""
        while not done.is_set():
            began = time.monotonic()
            item, _ = await world.hold("b", 1)
            assert await world.claims(1).give_back(item)
            waited.append(time.monotonic() - began)

    beside = asyncio.ensure_future(work_on())
    sweeping, is_more, deleted = retention(world), True, 0
    while is_more:
        began = time.monotonic()
        some, is_more = await sweeping.purge()
        deleted += some
        assert some <= FILES_MAX
        taken.append(time.monotonic() - began)
    done.set()
    await beside
    assert (deleted, counts(world)[0]) == (MANY, 1)
    assert world.query("SELECT id FROM file_processing_state") == [(number,)]
    assert (max(taken) < BATCH_S_MAX, max(waited) < BATCH_S_MAX) == (True, True), (taken, waited)


async def test_a_row_that_somebody_has_locked_is_passed_over(
    mariadb_server: MariaServer, pm_database: str, file_world: FileWorld
) -> None:
    """Somebody has a transaction open for minutes."""
    world = file_world
    if world.dialect == "sqlite":
        assert await retention(world).purge() == (0, False)
        return
    number = await moved(world)
    await moved(world, "b.dat", b"two")
    with closing(mariadb_server.connect(pm_database.rpartition("/")[2])) as line, line.cursor() as cursor:
        line.begin()
        cursor.execute(f"SELECT id FROM file_processing_state WHERE id = {number} FOR UPDATE")
        async with asyncio.timeout(BATCH_S_MAX):
            assert await retention(world).purge() == (1, False)
        line.rollback()
    assert await retention(world).purge() == (1, False)


async def test_rounds_go_on_until_all_is_gone_and_zero_keeps_all(file_world: FileWorld) -> None:
    world, events = file_world, ToldEvents()
    count = BATCHES_MAX * 3 + 2
    fill(world, count)
    assert not await RetentionSweep(retention(world, 3), True, events).round()
    assert counts(world)[0] == count
    sweep = RetentionSweep(retention(world, 3), False, events)
    rounds = [await sweep.round() for _ in range(2)]
    assert (rounds, counts(world), events.told["purged"]) == ([True, False], [0, 0, 0, 0], count)


def test_rows_are_purged_by_command(pm: Callable[..., Any], operator_url: str, tmp_path: Path) -> None:
    async def made() -> None:
        async with operator_tables(operator_url):
            pass

    asyncio.run(made())
    old = "datetime('now', '-40 days')" if operator_url.startswith("sqlite") else "UTC_TIMESTAMP() - INTERVAL 40 DAY"
    columns = "system_type, ftp_server_key, ftp_path, file_name, state, updated_at"
    query(
        operator_url,
        f"INSERT INTO file_processing_state ({columns}) VALUES ('5GA', 'h', '/a/', 'a', 'MOVED', {old})",
        "INSERT INTO pm_file_claim (file_id) SELECT id FROM file_processing_state",
        "INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at, archived_as)"
        " SELECT id, 1, 1, '', '2026-01-01', '/x' FROM file_processing_state",
    )
    shown = pm("purge")
    assert (shown["files"], shown["deleted"], shown["oldest"] is not None) == (1, None, True)
    assert pm("purge", "--older-than", "50d", "--yes")["deleted"] == 0
    assert "a day at least" in json.dumps(pm("purge", "--older-than", "2h", code=2))
    assert pm("purge", "--yes")["deleted"] == 1
    assert query(operator_url, "SELECT COUNT(*) FROM file_processing_state") == [(0,)]
