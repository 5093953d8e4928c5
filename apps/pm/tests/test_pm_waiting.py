"""What waits is found by an index however much of it there is, resets are taken at once, and outages charge nobody."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pm_file_world import SPOOL, FileWorld, register
from pm_file_world import listed as listed_as

from headrace.core.losses import WORKER_LOST
from headrace.sources import HeldItem, ItemSettlement, ItemState, SourceWorker
from headrace_pm.spool.spool import Spool
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.file_claims import EXAMINED_MAX, FileClaims
from headrace_pm.tables.recovery import FileRecovery
from headrace_pm.tables.redo import FileRedo, RedoSelection
from headrace_pm.work.cautious_claims import CautiousClaims
from headrace_pm.work.memory import MemoryBreaker

MANY = 1_500
SNOOZED = "UPDATE pm_file_claim SET left_as = 'PENDING', attempts = 0, left_at = NULL, due_at = {}"
FILLED = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, state, mysql_processed,"
    " clickhouse_processed) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    " SELECT '5GA', 'h_21_u', '/Access/', CONCAT('{state}', i, '.dat'), '{state}', {flag}, {flag} FROM n"
)


def fill(world: FileWorld, count: int, state: str = "PENDING", flag: str = "FALSE") -> None:
    """So many rows, each with a claim that is not due for an hour."""
    if world.dialect == "mysql":
        world.query(f"SET SESSION max_recursive_iterations = {count + 1}")
    statement = FILLED.format(count=count, state=state, flag=flag)
    world.query(statement if world.dialect == "mysql" else statement.replace("CONCAT(", "concat("))
    world.query("INSERT INTO pm_file_claim (file_id) SELECT id FROM file_processing_state")
    world.query(SNOOZED.format(world.moment_ago(-60)))
    if world.dialect == "mysql":
        world.query("ANALYZE TABLE file_processing_state, pm_file_claim")


def text_of(world: FileWorld, name: str, values: Mapping[str, object]) -> str:
    """A statement as a server takes it, with its values in it."""
    text = PM_TABLES.named(world.dialect)[name].text

    def literal(found: re.Match[str]) -> str:
        value = values[found[1]]
        return f"'{value}'" if isinstance(value, str) else str(value)

    return re.sub(r"(?<!:):([a-z_]+)", literal, re.sub(r"--[^\n]*", "", text))


def rows_read(world: FileWorld, name: str, values: Mapping[str, object]) -> float:
    """MariaDB carries it out and tells how many rows it touched at most in any table of its plan; SQLite names its
    plan, in which nothing but what is small by itself may be scanned."""
    text = text_of(world, name, values)
    if world.dialect == "sqlite":
        plan = [str(row[3]) for row in world.query(f"EXPLAIN QUERY PLAN {text}")]
        small = r"SCAN (f|w|j|n|pm_clock|CONSTANT ROW|json_each|\(subquery)"
        walks = [step for step in plan if step.startswith("SCAN") and not re.match(small, step)]
        # A slice that is cut off already may be sorted.
        walks += [step for step in plan if "TEMP B-TREE" in step and "MATERIALIZE f" not in plan]
        assert walks == [], plan
        return 0
    ((answer,),) = world.query(f"ANALYZE FORMAT=JSON {text}")
    return max(_touched(json.loads(answer)))


def _touched(found: object) -> Iterator[float]:
    if isinstance(found, dict):
        if "r_rows" in found and found["r_rows"] is not None and "table_name" in found:
            yield float(found["r_rows"]) * float(found.get("r_loops") or 1)
        for each in found.values():
            yield from _touched(each)
    elif isinstance(found, list):
        for each in found:
            yield from _touched(each)
    yield 0.0


AFFINITY = {"spool": SPOOL, "affinity_us": 60_000_000, "count_max": 10}
SLICE = {"state": "PENDING", "system_type": "5GA", "after": 0}
PLANS: dict[str, tuple[dict[str, object], float]] = {
    "files_due": ({**AFFINITY, "left_as": "PENDING"}, 20),
    "files_waiting": ({**AFFINITY, **SLICE, "examined": 50}, 60),
    "files_ended": ({**SLICE, "state": "COMPLETED", "count_max": 50}, 60),
    "systems_waiting": ({}, 30),
    "systems_ended": ({}, 30),
}


@pytest.mark.parametrize("name", PLANS)
async def test_no_poll_and_no_sweep_walks_through_what_waits(file_world: FileWorld, name: str) -> None:
    fill(file_world, MANY, "COMPLETED" if "ended" in name else "PENDING")
    values, most = PLANS[name]
    assert rows_read(file_world, name, values) <= most


async def test_a_walk_through_what_waits_is_noticed(file_world: FileWorld) -> None:
    """The statement as it was: the plan is an index, and all of it is read."""
    fill(file_world, MANY)
    walk = "SELECT s.id FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id WHERE s.state ="
    text = f"{walk} 'PENDING' AND c.due_at <= {file_world.moment_ago(0)} ORDER BY s.updated_at LIMIT 10"
    if file_world.dialect == "mysql":
        ((answer,),) = file_world.query(f"ANALYZE FORMAT=JSON {text}")
        assert max(_touched(json.loads(answer))) >= MANY
    else:
        plan = [str(row[3]) for row in file_world.query(f"EXPLAIN QUERY PLAN {text}")]
        assert any("SCAN" in step or "TEMP B-TREE" in step for step in plan)


async def test_what_is_due_is_found_among_many_that_are_not(file_world: FileWorld) -> None:
    """By the index at once; what no index has, behind the first slice, by one of the next polls."""
    world = file_world
    fill(world, 3 * EXAMINED_MAX + 7)
    ids = [number for (number,) in world.query("SELECT id FROM file_processing_state ORDER BY id")]
    claims = world.claims()
    assert (await claims.poll(10)).candidates == ()
    world.query(f"UPDATE pm_file_claim SET due_at = {world.moment_ago(1)} WHERE file_id = {ids[-2]}")
    assert [each.key for each in (await claims.poll(10)).candidates] == [str(ids[-2])]
    world.query(f"DELETE FROM pm_file_claim WHERE file_id IN ({ids[-2]}, {ids[-1]})")
    found: list[str] = []
    for _ in range(5):
        found += [each.key for each in (await claims.poll(10)).candidates]
    assert set(found) == {str(ids[-2]), str(ids[-1])}, "rows without a claim are found, too"


async def test_one_at_a_time_finds_what_is_behind_the_first_slice(file_world: FileWorld) -> None:
    """As a process asks that has too much in its memory."""
    fill(file_world, EXAMINED_MAX + 7)
    ((last,),) = file_world.query("SELECT MAX(id) FROM file_processing_state")
    file_world.query(f"DELETE FROM pm_file_claim WHERE file_id = {last}")
    claims = file_world.claims()
    found = [each.key for _ in range(3) for each in (await claims.poll(1)).candidates]
    assert set(found) == {str(last)}


async def test_many_that_are_due_are_given_in_order_and_some_of_each_system(file_world: FileWorld) -> None:
    world = file_world
    fill(world, 50)
    world.query(f"UPDATE pm_file_claim SET due_at = {world.moment_ago(1)}")
    other = world.add()
    world.change(other, system_type="'4GA'")
    keys = [int(each.key) for each in (await world.claims().poll(10)).candidates]
    assert len(set(keys)) == 10
    assert other in keys, "a flood of one system hides no other"


async def snoozed(world: FileWorld) -> int:
    """A file that waits for an hour, with a reason."""
    await register(world, listed_as("a.dat"))
    item, held = await world.hold()
    world.change(held.file_id, error_message="'kafka is away'")
    assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 0, time.time(), delay_s=3_600.0))
    # Our own second is over when somebody comes; a moment has no smaller part.
    world.change(held.file_id, updated_at=world.ago(1))
    world.query("UPDATE pm_file_claim SET left_at = (SELECT updated_at FROM file_processing_state)")
    assert (await world.claims().poll(10)).candidates == ()
    return held.file_id


async def test_a_file_that_waits_and_is_reset_to_what_it_is_goes_on_at_once(file_world: FileWorld) -> None:
    """Somebody sees the error, mends it, and writes PENDING, 0 and no message: it was PENDING and 0 already."""
    number = await snoozed(file_world)
    file_world.change(number, state="'PENDING'", retry_count="0", error_message="NULL")
    _, held = await file_world.hold()
    assert held.file_id == number


async def test_a_reset_that_is_not_seen_would_wait(file_world: FileWorld) -> None:
    number = await snoozed(file_world)
    for name in ("files_waiting", "claim_take"):
        prefix = "c." if name == "files_waiting" else ""
        file_world.break_guard(name, f"{prefix}left_at <> s.updated_at", "FALSE")
    file_world.change(number, state="'PENDING'", retry_count="0", error_message="NULL")
    with pytest.raises(ValueError, match="not enough values"):
        await file_world.hold()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool", 10**9) as opened:
        yield opened


def process(world: FileWorld, spool: Spool) -> CautiousClaims:
    return CautiousClaims(world.tables, SPOOL, spool, MemoryBreaker(1 << 40, lambda: 0))


async def lost_alone(world: FileWorld, claims: FileClaims, holder: str) -> HeldItem:
    """A hold of a suspect passes while it runs."""
    (candidate,) = (await claims.poll(10)).candidates
    held = await claims.hold(candidate, holder, 30.0)
    assert held is not None
    assert await claims.begin_alone(held)
    world.lose_holds()
    return held


@pytest.mark.parametrize("finder", ["itself", "another"])
@pytest.mark.parametrize("lives", [True, False])
async def test_an_outage_of_the_database_is_no_crash(
    file_world: FileWorld, spool: Spool, finder: str, lives: bool
) -> None:
    """A worker that lives says so when the database answers again; one that died says nothing."""
    world = file_world
    world.add()
    for _ in range(SourceWorker.crashes_max):
        owner = process(world, spool)
        await lost_alone(world, owner, "a")
        if finder == "another":
            other = FileClaims(world.tables, SPOOL)
            (candidate,) = (await other.poll(10)).candidates
            held = await other.hold(candidate, "b", 30.0)
            assert held is not None
            assert held.crashes > 0, "nobody knows better yet"
            if lives:
                await owner.poll(10)
                await owner.poll(10)
            assert await other.give_back(held)
        elif lives:
            await owner.poll(10)
    (candidate,) = (await world.claims().poll(10)).candidates
    item = await world.claims().hold(candidate, "c", 30.0)
    assert item is not None
    assert item.crashes == (0 if lives else SourceWorker.crashes_max)


async def test_a_pardon_that_comes_after_a_redo_pardons_nothing(file_world: FileWorld, spool: Spool) -> None:
    """The redo has forgotten the crash: another crash fewer would be one too many that is borne."""
    world = file_world
    number = world.add()
    owner, other = process(world, spool), FileClaims(world.tables, SPOOL)
    await lost_alone(world, owner, "a")
    (candidate,) = (await other.poll(10)).candidates
    held = await other.hold(candidate, "b", 30.0)
    assert held is not None
    assert await other.give_back(held)
    assert await FileRedo(world.tables).redo(RedoSelection(ids=[number])) == 1
    await owner.poll(10)
    item = await world.claims().hold(candidate, "c", 30.0)
    assert (item and item.crashes) == 0


async def test_what_was_let_go_in_order_is_not_testified(file_world: FileWorld, spool: Spool) -> None:
    file_world.add()
    claims = process(file_world, spool)
    (candidate,) = (await claims.poll(10)).candidates
    held = await claims.hold(candidate, "a", 30.0)
    assert held is not None
    assert await claims.begin_alone(held)
    assert await claims.settle(held, ItemSettlement(ItemState.AGAIN, 1, 0.0))
    assert claims._alone == {}


async def test_a_file_whose_workers_were_lost_stays_an_error_until_one_is_pardoned(
    file_world: FileWorld, spool: Spool
) -> None:
    world = file_world
    number = world.add()
    owner = process(world, spool)
    for holder in ("a", "b", "c"):
        held = await lost_alone(world, process(world, spool) if holder != "c" else owner, holder)
    item, _ = await world.hold("d")
    assert item.crashes == SourceWorker.crashes_max
    assert await world.claims().settle(item, ItemSettlement(ItemState.DEAD, 0, 0.0, failure=WORKER_LOST))
    world.change(number, updated_at=world.ago(90))
    assert (await FileRecovery(world.tables).sweep()).total == 0, "it kills workers, as far as is known"
    assert held.fence == owner._alone[held.key]
    await owner.poll(10)
    assert (await FileRecovery(world.tables).sweep()).errors == 1, "one of them lives"


async def test_sweeps_go_through_what_has_ended_in_slices(file_world: FileWorld) -> None:
    world = file_world
    fill(world, 25, "COMPLETED", "FALSE")
    world.query(f"UPDATE file_processing_state SET updated_at = {world.ago(5)}")
    recovery = FileRecovery(world.tables, slice_max=4, slices_max=2)
    found = [(await recovery.sweep()).incomplete for _ in range(5)]
    assert found == [8, 8, 8, 1, 0]
