"""Transactional stages on SQLite: recorded statements on tables in the store's own file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Statement
from headrace.ports.backend import Backend
from headrace.testing.contracts import Bench, TransactionContract
from headrace.testing.contracts.bench import ALL
from headrace.testing.contracts.recorded_statements import PLAIN, Query
from headrace.testing.passage import ManualClock


class TestTransactionalSqlite(TransactionContract):
    @pytest.fixture
    async def database(self) -> InlineDatabase:
        return InlineDatabase()

    @pytest.fixture
    async def store(self, database: InlineDatabase, clock: ManualClock) -> Backend:
        return SqliteStore(database, clock)

    @pytest.fixture
    def query(self, database: InlineDatabase) -> Query:
        async def query(sql: str) -> Sequence[tuple[Any, ...]]:
            return await database.write(lambda connection: connection.execute(sql).fetchall())

        return query

    async def test_a_statement_cannot_make_an_index(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        answer = await bench.settle(claim, ALL, statements=(Statement(0, "CREATE INDEX mine ON effect_log (value)"),))
        assert "are made before" in answer.faults[0][1]

    async def test_a_statement_cannot_touch_the_account(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        answer = await bench.settle(claim, ALL, statements=(Statement(0, "UPDATE headrace_stage SET done = 5"),))
        assert "belongs to headrace" in answer.faults[0][1]
