"""The SQLite sink keeps the contract, and every guard of it is needed: without one the contract is red."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from headrace.adapters.sqlite.sink import SqliteSink
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.errors import UnsafeStore
from headrace.ports.sink import Change, Effect, Sink
from headrace.testing.contracts import SinkContract
from headrace.testing.contracts.sinks import GUARDED_BY, KEY, TABLES, Charge, Query, SinkFixtures
from headrace.testing.twins import turns_red

HANDLES = 2
TWINS = {
    "no fence check": ("fence_revoked", "SELECT 1 WHERE :fence < 0"),
    "a retry accepted because its fence is newer": (
        "effect_once",
        "INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (:key, 'once', :fence, :now) "
        "ON CONFLICT (effect_key) DO UPDATE SET fence = excluded.fence WHERE headrace_effect.fence < excluded.fence "
        "RETURNING fence",
    ),
    "a put accepted under a lower fence": (
        "effect_put",
        "INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (:key, 'put', :fence, :now) "
        "ON CONFLICT (effect_key) DO UPDATE SET fence = excluded.fence WHERE headrace_effect.operation = 'put' "
        "RETURNING fence",
    ),
    "a revocation that is not kept": ("fence_revoke", "SELECT :fence, :now"),
    "an answer that is not kept": ("effect_answer", "SELECT :key, :answer"),
}


class Filed:
    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        return str(tmp_path / "sink.db")

    @pytest.fixture
    def query(self, path: str) -> Iterator[Query]:
        connection = apsw.Connection(path)
        connection.set_busy_timeout(10_000)

        async def query(sql: str) -> Sequence[tuple[Any, ...]]:
            return connection.execute(sql).fetchall()

        yield query
        connection.close()


class TestSqliteSink(Filed, SinkContract):
    @pytest.fixture
    async def handles(self, path: str) -> AsyncIterator[Sequence[Sink]]:
        sinks = [SqliteSink(path, TABLES) for _ in range(HANDLES)]
        yield sinks
        for sink in sinks:
            await sink.close()

    async def test_values_come_back_as_they_were(self, sink: Sink) -> None:
        change = Change("SELECT :a, :b, :c, :d", {"a": None, "b": 1.5, "c": b"\x00\xff", "d": "ü"})
        first = await sink.once(Effect(KEY, 1), change)
        assert first.answer == ((None, 1.5, b"\x00\xff", "ü"),)
        assert (await sink.once(Effect(KEY, 1), change)).answer == first.answer

    async def test_many_that_open_an_empty_file_at_once_all_get_in(self, tmp_path: Path, charge: Charge) -> None:
        sinks = [SqliteSink(str(tmp_path / "new.db"), TABLES) for _ in range(8)]
        answers = await asyncio.gather(*(sink.once(Effect(KEY, 1), charge("a", 1)) for sink in sinks))
        assert sum(answer.first for answer in answers) == 1
        await asyncio.gather(*(sink.close() for sink in sinks))

    async def test_the_file_of_a_store_is_not_a_sink(self, tmp_path: Path, charge: Charge) -> None:
        path = str(tmp_path / "store.db")
        store = await SqliteStore.open(path)
        await store.close()
        with pytest.raises(UnsafeStore) as refusal:
            await SqliteSink(path, TABLES).once(Effect(KEY, 1), charge("a", 1))
        assert "context.sql" in refusal.value.hint

    async def test_a_change_cannot_roll_back_what_others_do(self, sink: Sink, query: Query, charge: Charge) -> None:
        rolls_back = Change("INSERT OR ROLLBACK INTO cell (name, value) VALUES ('a', NULL)")
        calls = (sink.once(Effect("j/s/1", 1), charge("a", 1)), sink.once(Effect("j/s/2", 1), rolls_back))
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, BaseException)


class TestASinkWithoutAGuard(Filed, SinkFixtures):
    """Each twin lacks one guard, and a test of the contract turns red."""

    @pytest.fixture(params=TWINS, ids=str)
    def twin(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    async def handles(self, path: str, twin: str) -> AsyncIterator[Sequence[Sink]]:
        name, statement = TWINS[twin]
        sinks = [SqliteSink(path, TABLES, statements={**load_statements(), name: statement}) for _ in range(HANDLES)]
        yield sinks
        for sink in sinks:
            await sink.close()

    async def test_is_caught(self, twin: str, sink: Sink, query: Query, charge: Charge, write: Charge) -> None:
        await turns_red(GUARDED_BY[twin], sink=sink, query=query, charge=charge, write=write)
