"""Files in the table of a foreign contract pass the contract of sources, on a real MariaDB."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pymysql
import pytest

from headrace.core.table_statements import Step, TableMigration, TableStatement
from headrace.core.units import Unit, UnitDone
from headrace.errors import Conflict
from headrace.ports import Tables
from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Source
from headrace.tables import Columns, OpenTables, open_tables
from headrace.testing.contracts import SourceContract, SuppliedItem
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.mariadb import MariaServer
from headrace.testing.twins import turns_red
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.file_claims import FileClaims

ADD = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, file_size, state)"
    " VALUES ('5GA', 'h_21_u', '/Access/', '{}', {}, 'PENDING') RETURNING id"
)
LOOK = "SELECT state, retry_count, COALESCE(error_message, '') FROM file_processing_state WHERE id = {}"
STATES = {"COMPLETED": ItemState.DONE, "ERROR": ItemState.DEAD}
HANDLES = 3


class SizedFiles(FileClaims):
    """The contract looks into payloads; here what it put there is the size of a file."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        held = await super().hold(candidate, holder, hold_s)
        return held and replace(held, payload={"n": held.payload.file_size})


class FileSupply:
    """`SourceSupply`: files that somebody puts into the table by SQL, as any program may."""

    def __init__(self, connection: pymysql.connections.Connection[Any], tables: OpenTables) -> None:
        self._connection, self._numbers = connection, count()
        self.source: Source = SizedFiles(tables)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def wall(self) -> float:
        return time.time()

    async def add(self, payload: Mapping[str, object]) -> str:
        ((number,),) = self.query(ADD.format(f"{next(self._numbers)}.dat", payload.get("n", "NULL")))
        return str(number)

    async def look(self, key: str) -> SuppliedItem:
        ((state, attempts, reason),) = self.query(LOOK.format(key))
        # The row counts retries, the contract also the attempt that was done.
        done = int(str(attempts)) + (state == "COMPLETED")
        return SuppliedItem(STATES.get(str(state)), done, str(reason))

    async def occupy(self, key: str) -> None:
        hour = "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
        self.query(f"INSERT INTO pm_file_claim (file_id, owner, epoch, until) VALUES ({key}, 'other', 1, {hour})")

    async def sweep(self) -> None:
        """A poll finds what lost holds had by itself."""


@pytest.fixture(scope="module")
def pm_database(mariadb_server: MariaServer) -> Iterator[str]:
    """One for all tests here: a dozen tables take longer to make than most of them."""
    with mariadb_server.database() as url:
        yield url


@pytest.fixture
async def opened(pm_database: str) -> AsyncIterator[Sequence[OpenTables]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_tables(pm_database, PM_TABLES)) for _ in range(HANDLES)]


@pytest.fixture
def supply(mariadb_server: MariaServer, pm_database: str, opened: Sequence[OpenTables]) -> Iterator[FileSupply]:
    with closing(mariadb_server.connect(pm_database.rpartition("/")[2])) as connection:
        supply = FileSupply(connection, opened[0])
        for table in ("file_processing_state", "pm_file_claim", "pm_file_sink", "pm_counter_data"):
            supply.query(f"DELETE FROM {table}")
        yield supply


class TestFileClaims(SourceContract):
    features = FileClaims.features

    @pytest.fixture
    async def handles(self, opened: Sequence[OpenTables]) -> Sequence[Source]:  # type: ignore[override]
        return [SizedFiles(tables) for tables in opened]

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage(0.6)


async def first(claims: FileClaims, holder: str = "a", hold_s: float = 30.0) -> HeldItem:
    (candidate,) = (await claims.poll(10)).candidates
    held = await claims.hold(candidate, holder, hold_s)
    assert held is not None
    return held


def counters(version: int) -> Columns:
    fixed = {"ne_id": 7, "duration": 300, "cell_index": 1, "obj_hash": 2**64 - 1, "version": version, "rat_type": "5GA"}
    texts = {"group_code": "G", "extra_field": "{}", "record_time": datetime(2026, 1, 1, tzinfo=UTC)}
    values = {name: [value] * 100 for name, value in {**fixed, **texts}.items()}
    return Columns({**values, "counter_id": list(range(100)), "counter_value": [float(version)] * 100})


async def write(tables: OpenTables, held: HeldItem, version: int) -> None:
    async with tables.transaction() as tx:
        tx.run_many("counters_upsert", counters(version))
        where = {"file_id": int(held.key), "sink": "mysql", "epoch": held.fence}
        tx.run_many("sink_advance", ({**where, "next_batch": 1, "rows": 100, "digest": 2**63},), expect=1)


async def test_rows_and_checkpoint_are_one_and_a_late_holder_moves_neither(
    supply: FileSupply, opened: Sequence[OpenTables]
) -> None:
    claims = FileClaims(opened[0])
    await supply.add({})
    late = await first(claims, hold_s=0.3)
    await asyncio.to_thread(supply.query, "DO SLEEP(0.4)")
    held = await first(claims, "b")
    with pytest.raises(Conflict):
        await write(opened[1], late, 1)
    assert supply.query("SELECT COUNT(*) FROM pm_counter_data") == [(0,)]
    await write(opened[0], held, 2)
    await write(opened[0], held, 1)
    found = supply.query("SELECT COUNT(*), MIN(counter_value), MIN(version), HEX(MIN(obj_hash)) FROM pm_counter_data")
    assert found == [(100, 2.0, 2, "F" * 16)], "an older version overwrites nothing"
    assert await opened[0].rows("sink_read", file_id=int(held.key), sink="mysql") == [(held.fence, 1, 100, 2**63)]


async def test_a_file_whose_one_sink_is_done_waits_for_the_other(
    supply: FileSupply, opened: Sequence[OpenTables]
) -> None:
    claims = FileClaims(opened[0])
    key = await supply.add({})
    held = await first(claims)
    assert (held.payload.file_name, held.payload.system_type, held.attempts_max) == ("0.dat", "5GA", 3)
    assert supply.query(LOOK.format(key)) == [("DOWNLOADING", 0, "")]
    supply.query(f"UPDATE file_processing_state SET mysql_processed = TRUE WHERE id = {key}")
    assert await claims.give_back(held)
    assert supply.query(LOOK.format(key)) == [("PARTIAL_DONE", 0, "")]
    again = await first(claims)
    assert (again.payload.mysql_processed, again.payload.clickhouse_processed) == (True, False)


async def test_what_others_do_by_sql_counts(supply: FileSupply, opened: Sequence[OpenTables]) -> None:
    claims = FileClaims(opened[0])
    key = await supply.add({})
    held = await first(claims)
    assert await claims.settle(held, ItemSettlement(ItemState.AGAIN, 2, time.time(), delay_s=1_000.0))
    assert (await claims.poll(10)).candidates == ()
    supply.query(f"UPDATE file_processing_state SET state = 'PENDING', retry_count = 0 WHERE id = {key}")
    assert (await first(claims)).attempts == 0, "whoever sets the count back wants it now"
    supply.query("DELETE FROM pm_file_claim")
    assert (await claims.poll(10)).candidates == (), "DOWNLOADING without a claim is another program's"


class BrokenTables:
    """Tables one statement of which lacks a guard."""

    def __init__(self, tables: Tables, name: str, guard: str) -> None:
        self._tables, self._name, self._guard = tables, name, guard
        self.dialect, self.features = tables.dialect, tables.features

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Any]:
        return await self._tables.read(statement, values)

    async def apply(self, unit: Unit) -> UnitDone:
        return await self._tables.apply(replace(unit, steps=tuple(map(self._broken, unit.steps))))

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._tables.migrate(owner, migrations)

    def _broken(self, step: Step) -> Step:
        if step.statement.name != self._name:
            return step
        assert self._guard in step.statement.text
        return replace(step, statement=replace(step.statement, text=step.statement.text.replace(self._guard, "TRUE")))


PASSED, EPOCH = "until > UTC_TIMESTAMP(6)", "c.epoch = :epoch"
FREE = "(owner IS NULL OR until <= UTC_TIMESTAMP(6) OR owner = :owner)"
TWINS: dict[str, tuple[str, str, Any]] = {
    "a hold of what is held": ("claim_take", FREE, TestFileClaims.test_a_held_item_is_not_held_twice),
    "a hold that is revived": ("claim_renew", PASSED, TestFileClaims.test_a_hold_that_has_passed_is_not_revived),
    "a late settlement": ("file_again", EPOCH, TestFileClaims.test_a_late_holder_changes_nothing),
}


@pytest.mark.parametrize("bug", TWINS)
async def test_a_claim_without_its_guard_is_noticed(supply: FileSupply, opened: Sequence[OpenTables], bug: str) -> None:
    name, guard, noticed_by = TWINS[bug]
    opened[0].tables = BrokenTables(opened[0].tables, name, guard)
    await turns_red(noticed_by, supply=supply, passage=RealPassage(0.6), state=ItemState.AGAIN)


async def test_a_checkpoint_without_its_epoch_is_noticed(supply: FileSupply, opened: Sequence[OpenTables]) -> None:
    for tables in opened:
        tables.tables = BrokenTables(tables.tables, "sink_advance", "epoch = :epoch")
    with pytest.raises(pytest.fail.Exception):
        await test_rows_and_checkpoint_are_one_and_a_late_holder_moves_neither(supply, opened)
