"""The PostgreSQL sink keeps the contract, also when a connection breaks at the worst moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from waiting import eventually

from headrace.adapters.postgres.sink import PostgresSink
from headrace.adapters.postgres.statements import statements
from headrace.core.errors import CallerError, ClaimLost, Unknown, Unreachable
from headrace.ports.sink import Change, Effect, Sink
from headrace.testing.contracts import SinkContract
from headrace.testing.contracts.sinks import GUARDED_BY, KEY, TABLES, Charge, Query, SinkFixtures, charges
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.twins import turns_red

HANDLES = 2
SETTING_OUT = "UPDATE cell SET value = value + 1 WHERE name = 'a' RETURNING value"
TWINS = {
    "no fence check": ("fence_revoked", "SELECT 1 WHERE %(fence)s < 0"),
    "a retry accepted because its fence is newer": (
        "effect_once",
        "INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (%(key)s, 'once', %(fence)s, "
        "now()) ON CONFLICT (effect_key) DO UPDATE SET fence = excluded.fence "
        "WHERE headrace_effect.fence < excluded.fence RETURNING fence",
    ),
    "a put accepted under a lower fence": (
        "effect_put",
        "INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (%(key)s, 'put', %(fence)s, "
        "now()) ON CONFLICT (effect_key) DO UPDATE SET fence = excluded.fence "
        "WHERE headrace_effect.operation = 'put' RETURNING fence",
    ),
    "a revocation that is not kept": ("fences_revoke", "SELECT %(fences)s::bigint[]"),
    "an answer that is not kept": ("effect_answer", "SELECT %(key)s, %(answer)s"),
}


class InADatabase:
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres: PostgresServer) -> Iterator[str]:
        with postgres.database() as url:
            yield url

    @pytest.fixture
    def url(self, database: str) -> str:
        """A database without tables: much quicker than a new one for each test."""
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS headrace_effect, headrace_revoked, charge, cell")
        return database

    @pytest.fixture
    async def other(self, url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[Any, ...]]]:
        """A connection of somebody else's."""
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute(TABLES)
            yield connection

    @pytest.fixture
    def query(self, other: psycopg.AsyncConnection[tuple[Any, ...]]) -> Query:
        async def query(sql: str) -> Sequence[tuple[Any, ...]]:
            return await (await other.execute(sql.encode())).fetchall()

        return query


class TestPostgresSink(InADatabase, SinkContract):
    @pytest.fixture
    async def handles(self, url: str) -> AsyncIterator[Sequence[Sink]]:
        sinks = [PostgresSink(url, TABLES) for _ in range(HANDLES)]
        yield sinks
        for sink in sinks:
            await sink.close()

    async def test_values_come_back_as_they_were(self, sink: Sink) -> None:
        change = Change(
            "SELECT NULL, 1.5::numeric, '\\x00ff'::bytea, 'ü', :moment::timestamptz, :id::uuid, ARRAY[1, 2], "
            "0.1::float8, true, '{\"a\": 1}'::jsonb",
            {"moment": datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "id": UUID(int=7)},
        )
        first = await sink.once(Effect(KEY, 1), change)
        moment = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
        row = (None, Decimal("1.5"), b"\x00\xff", "ü", moment, UUID(int=7), [1, 2], 0.1, True, {"a": 1})
        assert first.answer == (row,)
        assert (await sink.once(Effect(KEY, 1), change)).answer == first.answer

    async def test_an_operator_with_a_question_mark_is_written_with_two(self, sink: Sink) -> None:
        operators = "SELECT '{\"a\": 1}'::jsonb ?? :key, '{\"a\": 1}'::jsonb ??| :keys, '{\"a\": 1}'::jsonb ??& :keys"
        applied = await sink.once(Effect(KEY, 1), Change(operators, {"key": "a", "keys": ["a", "b"]}))
        assert applied.answer == ((True, True, False),)

    async def test_many_that_open_an_empty_database_at_once_all_get_in(self, url: str, charge: Charge) -> None:
        sinks = [PostgresSink(url, TABLES, lanes=1) for _ in range(6)]
        answers = await asyncio.gather(*(sink.once(Effect(KEY, 1), charge("a", 1)) for sink in sinks))
        assert sum(answer.first for answer in answers) == 1
        await asyncio.gather(*(sink.close() for sink in sinks))

    async def test_a_revocation_waits_for_a_write_that_has_begun(
        self, handles: Sequence[Sink], url: str, query: Query
    ) -> None:
        """The write has passed its check and stands before its commit: the revocation must not return before it."""
        await query("INSERT INTO cell VALUES ('a', 1) RETURNING value")
        async with await psycopg.AsyncConnection.connect(url) as blocker:
            await blocker.execute("SELECT value FROM cell FOR UPDATE")
            write = asyncio.ensure_future(handles[0].once(Effect(KEY, 5), Change(SETTING_OUT)))
            await waiting(query, "transactionid")
            revoke = asyncio.ensure_future(handles[1].revoke([5]))
            await waiting(query, "advisory")
            assert not revoke.done()
            await blocker.rollback()
        await revoke
        assert await query("SELECT value FROM cell") == [(2,)]
        assert (await write).first
        with pytest.raises(ClaimLost):
            await handles[0].once(Effect("job-1/pay/2", 5), Change(SETTING_OUT))

    async def test_a_write_that_comes_during_a_revocation_is_refused(
        self, handles: Sequence[Sink], url: str, query: Query, charge: Charge
    ) -> None:
        await handles[0].effects("", "", 1)
        async with await psycopg.AsyncConnection.connect(url) as revoker:
            await revoker.execute("SELECT pg_advisory_xact_lock(5)")
            await revoker.execute("INSERT INTO headrace_revoked VALUES (5, now())")
            write = asyncio.ensure_future(handles[0].once(Effect(KEY, 5), charge("a", 1)))
            await waiting(query, "advisory")
            await revoker.commit()
        with pytest.raises(ClaimLost):
            await write
        assert await charges(query) == []

    async def test_a_holder_frozen_inside_its_transaction_does_not_stop_a_revocation(
        self, handles: Sequence[PostgresSink], url: str
    ) -> None:
        await handles[0].effects("", "", 1)
        frozen = await psycopg.AsyncConnection.connect(url)
        for name in ("sink_session", "fence_share"):
            values = {"idle_ms": "200", "statement_ms": "0", "fence": 5}
            await frozen.execute(statements()[name].encode(), values)
        await asyncio.wait_for(handles[1].revoke([5]), timeout=10)
        await frozen.close()

    async def test_a_lost_reply_is_unknown_and_the_same_call_again_gets_the_first_answer(
        self, url: str, query: Query, charge: Charge
    ) -> None:
        with Proxy(url) as proxy:
            sink = PostgresSink(proxy.url, TABLES, lanes=1)
            await sink.effects("", "", 1)
            proxy.cut_reply_to(b"COMMIT")
            with pytest.raises(Unknown):
                await sink.once(Effect(KEY, 5), charge("a", 10))
            assert proxy.cuts == 1
            again = await sink.once(Effect(KEY, 5), charge("a", 10))
            assert (again.first, again.answer) == (False, (("a", 10),))
            assert await charges(query) == [("a", 10)]
            await sink.close()

    async def test_a_request_that_never_arrived_is_unknown_and_the_same_call_again_applies_it(
        self, url: str, query: Query, charge: Charge
    ) -> None:
        with Proxy(url) as proxy:
            sink = PostgresSink(proxy.url, TABLES, lanes=1)
            await sink.effects("", "", 1)
            proxy.cut_before(b"COMMIT")
            with pytest.raises(Unknown):
                await sink.once(Effect(KEY, 5), charge("a", 10))
            assert (await sink.once(Effect(KEY, 5), charge("a", 10))).first
            assert await charges(query) == [("a", 10)]
            await sink.close()

    async def test_a_sink_that_does_not_answer_is_named_without_its_password(self) -> None:
        sink = PostgresSink("postgresql://someone:secret@127.0.0.1:1/nowhere")
        assert "secret" not in sink.name
        with pytest.raises(Unreachable) as refusal:
            await sink.effects("", "", 1)
        assert "secret" not in str(refusal.value)

    @pytest.mark.parametrize("verb", ["SET search_path = x", "(COMMIT)", "-- a\nBEGIN", "COPY charge TO STDOUT"])
    async def test_a_change_cannot_touch_the_session(self, sink: Sink, verb: str) -> None:
        with pytest.raises(CallerError):
            await sink.once(Effect(KEY, 5), Change(verb))


class TestASinkWithoutAGuard(InADatabase, SinkFixtures):
    """Each twin lacks one guard, and a test of the contract turns red."""

    @pytest.fixture(params=TWINS, ids=str)
    def twin(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    async def handles(self, url: str, twin: str) -> AsyncIterator[Sequence[Sink]]:
        name, statement = TWINS[twin]
        sinks = [PostgresSink(url, TABLES, {**statements(), name: statement}) for _ in range(HANDLES)]
        yield sinks
        for sink in sinks:
            await sink.close()

    async def test_is_caught(self, twin: str, sink: Sink, query: Query, charge: Charge, write: Charge) -> None:
        await turns_red(GUARDED_BY[twin], sink=sink, query=query, charge=charge, write=write)


class TestASinkWhoseWritesDoNotHoldTheirFence(InADatabase):
    """Without the shared lock a write may commit after its fence was revoked."""

    async def test_is_caught(self, url: str, query: Query) -> None:
        loose = {**statements(), "fence_share": "SELECT %(fence)s::bigint"}
        handles = [PostgresSink(url, TABLES, loose) for _ in range(HANDLES)]
        await query("INSERT INTO cell VALUES ('a', 1) RETURNING value")
        async with await psycopg.AsyncConnection.connect(url) as blocker:
            await blocker.execute("SELECT value FROM cell FOR UPDATE")
            write = asyncio.ensure_future(handles[0].once(Effect(KEY, 5), Change(SETTING_OUT)))
            await waiting(query, "transactionid")
            await handles[1].revoke([5])
            seen = await query("SELECT value FROM cell")
            await blocker.rollback()
        await write
        assert await query("SELECT value FROM cell") != seen
        for sink in handles:
            await sink.close()


async def waiting(query: Query, kind: str) -> None:
    """Until somebody waits for a lock of this kind."""
    sql = (
        f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = '{kind}' "
        "AND datname = current_database()"
    )
    await eventually(lambda: query(sql), f"somebody waits for a lock of kind {kind}")
