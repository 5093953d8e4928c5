"""Tables of an application on SQLite keep the contract: inline, in memory and in a file that handles share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from table_twins import TWINS, BrokenStore

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.errors import Conflict
from headrace.ports.parts import Parts
from headrace.testing.contracts import TablesContract
from headrace.testing.contracts.shelf import SHELF, engine_on
from headrace.testing.passage import ManualClock
from headrace.testing.twins import turns_red

HANDLES = 3


class TestSqliteInline(TablesContract):
    @pytest.fixture
    async def store(self) -> Parts:
        return SqliteStore(InlineDatabase())


class TestSqliteInMemory(TablesContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Parts]:
        store = await SqliteStore.open()
        yield store
        await store.close()


class TestSqliteInAFile(TablesContract):
    @pytest.fixture
    async def store(self, handles: Sequence[Parts]) -> Parts:
        return handles[0]

    @pytest.fixture
    async def handles(self, tmp_path: Path) -> AsyncIterator[Sequence[Parts]]:
        stores = [await SqliteStore.open(str(tmp_path / "store.db")) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            await store.close()


@pytest.mark.parametrize("bug", TWINS)
async def test_a_broken_twin_is_noticed(bug: str) -> None:
    twin = TWINS[bug]
    store = SqliteStore(InlineDatabase())
    await store.tables.migrate("contract", [SHELF])
    await turns_red(twin.noticed_by, engine=engine_on(BrokenStore(store, twin.apply)))


async def test_a_unit_shares_a_commit_and_falls_alone(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "store.db"))
    await store.tables.migrate("contract", [SHELF])
    engine = engine_on(store)

    async def add(number: int) -> bool:
        try:
            async with engine.transaction() as tx:
                tx.run("add", article=f"a{number}", amount=number)
                tx.run("take", article=f"a{number % 20}", expect=1 if number % 20 == number else 2)
        except Conflict:
            return False
        return True

    stood = await asyncio.gather(*(add(number) for number in range(40)))
    assert stood == [number < 20 for number in range(40)]
    assert len(await engine.rows("articles")) == 20
    await store.close()


async def test_marks_of_units_go_when_their_time_has_passed_also_where_no_relay_runs() -> None:
    clock, database = ManualClock(), InlineDatabase()
    store = SqliteStore(database, clock)
    await store.tables.migrate("contract", [SHELF])
    engine = engine_on(store)
    for article in ("bolt", "nut"):
        await engine.run("add", article=article, amount=1)
        clock.advance(29 * 86_400.0)
        await store.sweep()
    assert database.connection.execute("SELECT count(*) FROM headrace_inbox").fetchall() == [(1,)]
