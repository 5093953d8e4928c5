"""Tables of an application on PostgreSQL keep the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import psycopg
import pytest
from table_twins import TWINS, BrokenStore
from waiting import until

import headrace
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.outbox import RETAIN_PIECE
from headrace.adapters.postgres.store import PostgresStore
from headrace.adapters.postgres.tables import PostgresTables
from headrace.core.consequences import Consequence
from headrace.core.errors import OperatorError, Unknown, Unreachable
from headrace.core.table_statements import TableMigration, TablePart, TableStatement
from headrace.core.units import Unit
from headrace.ports.parts import Parts
from headrace.runtime.engine import Engine
from headrace.tables import REQUEST_KEYS, RequestKeys
from headrace.testing.contracts import TablesContract
from headrace.testing.contracts.shelf import EVENT, SHELF, engine_on, flow, step
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.twins import turns_red

HANDLES = 3


class TestPostgresTables(TablesContract):
    @pytest.fixture
    async def store(self, handles: Sequence[Parts]) -> Parts:
        return handles[0]

    @pytest.fixture
    async def handles(self, postgres_url: str) -> AsyncIterator[Sequence[Parts]]:
        stores = [await PostgresStore.open(postgres_url) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            await store.close()


@pytest.mark.parametrize("bug", TWINS)
async def test_a_broken_twin_is_noticed(store: PostgresStore, bug: str) -> None:
    twin = TWINS[bug]
    await store.tables.migrate("contract", [SHELF])
    await turns_red(twin.noticed_by, engine=engine_on(BrokenStore(store, twin.apply)))


@pytest.fixture
async def far(line: Proxy) -> AsyncIterator[Engine]:
    """An engine over the line that will be cut, with a shelf of nine bolts."""
    store = await PostgresStore.open(line.url)
    await store.tables.migrate("contract", [SHELF])
    engine = engine_on(store)
    await engine.run("add", article="bolt", amount=9)
    yield engine
    await store.close()


async def test_a_unit_whose_commit_is_not_answered_is_applied_once(far: Engine, line: Proxy) -> None:
    unit = Unit("unit-1", (step("take", article="bolt"),), (far.submission(flow, "marked"),), (EVENT,))
    line.cut_reply_to(b"marked")
    with pytest.raises(Unknown):
        await far.store.tables.apply(unit)
    assert await far.one("amount", article="bolt") == (8, 1)
    done = await far.store.tables.apply(unit)
    assert (done.steps, [each.job for each in done.submitted]) == (None, [unit.submissions[0].job])
    assert await far.one("amount", article="bolt") == (8, 1)


async def test_a_unit_that_never_arrived_is_applied_by_the_repeat(far: Engine, line: Proxy) -> None:
    line.cut_before(b"marked")
    async with far.transaction() as tx:
        taken = tx.run("take", article="bolt")
        opened = tx.submit(flow, "marked")
    assert line.cuts == 1
    assert taken.rows == [(8,)]
    assert (await far.job(opened.job)).flow == "orders"


async def test_rows_that_were_lost_with_the_answer_are_not_made_up(far: Engine, line: Proxy) -> None:
    line.cut_reply_to(b"marked")
    async with far.transaction() as tx:
        taken = tx.run("take", article="bolt")
        opened = tx.submit(flow, "marked")
    assert (await far.job(opened.job)).flow == "orders"
    assert await far.one("amount", article="bolt") == (8, 1)
    with pytest.raises(Unknown, match="its answer was lost"):
        _ = taken.rows


async def test_two_units_that_meet_in_a_deadlock_are_both_applied(store: PostgresStore) -> None:
    await store.tables.migrate("contract", [SHELF])
    engine = engine_on(store)
    for article in ("bolt", "nut"):
        await engine.run("add", article=article, amount=100)

    async def take(*articles: str) -> None:
        async with engine.transaction() as tx:
            for article in articles:
                tx.run_many("take", [{"article": article}] * 5)

    await asyncio.gather(*(take(*(("bolt", "nut") if n % 2 else ("nut", "bolt"))) for n in range(16)))
    assert await engine.one("amount", article="bolt") == (20, 80)
    assert await engine.one("amount", article="nut") == (20, 80)


async def test_a_connection_that_was_ended_while_it_rested_swallows_no_write(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url, lanes=1)
    await store.tables.migrate("contract", [SHELF])
    engine = engine_on(store)
    await engine.submit(flow, "bolt")
    await engine.run("add", article="bolt", amount=1)

    def ended() -> bool:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        with psycopg.connect(postgres_url, autocommit=True) as other:
            return not other.execute(f"{query} AND pid <> pg_backend_pid()".encode()).fetchall()

    until(ended, "every backend of the store has gone")
    await store.submit(engine.submission(flow, "nut"))
    await store.tables.apply(Unit("unit-1", (step("take", article="bolt"),)))
    assert await engine.one("amount", article="bolt") == (0, 1)
    await store.close()


async def test_an_outage_is_told_at_once_to_who_can_send_again(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        async with headrace.connect(url, tables=REQUEST_KEYS) as engine:
            keys = RequestKeys(engine)
            await keys.forget(timedelta(days=1))
            postgres_server.kill()
            with pytest.raises(Unreachable):
                await keys.forget(timedelta(days=1))
            postgres_server.start()
            await keys.forget(timedelta(days=1))


async def test_a_server_that_does_not_answer_is_given_up(postgres_url: str, line: Proxy) -> None:
    lanes = Lanes(line.url, 1, lambda connection: None, answer_s_max=0.2)
    assert await lanes.read(lambda connection: connection.execute("SELECT 1").fetchall()) == [(1,)]
    line.black_hole()
    with pytest.raises(Unknown):
        await lanes.write(lambda connection: connection.execute("SELECT 2").fetchall())
    line.heal()
    assert await lanes.read(lambda connection: connection.execute("SELECT 3").fetchall()) == [(3,)]
    lanes.close()


async def test_a_migration_takes_as_long_as_it_takes(postgres_url: str, store: PostgresStore) -> None:
    tables = PostgresTables(postgres_url, lambda rang: None, answer_s_max=0.2)
    slow = TableMigration(1, "slow", (TablePart("", "SELECT pg_sleep(0.6)"),))
    try:
        with pytest.raises(Unreachable):
            await tables.read(TableStatement.of("slow", "SELECT pg_sleep(0.6)"), {})
        assert await tables.migrate("slow", [slow]) == ["slow"]
    finally:
        tables.close()


async def test_marks_of_units_go_when_their_time_has_passed_also_where_no_relay_runs(
    store: PostgresStore, postgres_url: str
) -> None:
    count = 2 * RETAIN_PIECE + 1
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO headrace.inbox (subscription, event_id, consumed_at)"
            " SELECT 'headrace.units', n::text, clock_timestamp() - interval '31 days' FROM generate_series(1, %s) n",
            (count,),
        )
        await store.inbox.consume("orders", "young", Consequence())
        for _ in range(3):
            await store.outbox.retain_some()
        left = connection.execute("SELECT event_id FROM headrace.inbox").fetchall()
    assert left == [("young",)], "a full piece is followed by another one"


async def test_a_worker_lets_marks_of_units_go(store: PostgresStore, postgres_url: str) -> None:
    await store.inbox.consume("orders", "old", Consequence())
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE headrace.inbox SET consumed_at = clock_timestamp() - interval '31 days'")
        await store.sweep()
        assert connection.execute("SELECT event_id FROM headrace.inbox").fetchall() == []


async def test_a_role_that_may_not_create_uses_tables_that_are_there(store: PostgresStore, postgres_url: str) -> None:
    made = TableMigration(1, "made", (TablePart("guest", "CREATE TABLE guest (name text)"),))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE guest (name text)")
        connection.execute("CREATE ROLE clerk LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        connection.execute("GRANT USAGE ON SCHEMA headrace TO clerk")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA headrace TO clerk")
        connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA headrace TO clerk")
    clerk = await PostgresStore.open(postgres_url.replace("://", "://clerk@", 1).replace("clerk@postgres@", "clerk@"))
    try:
        assert await clerk.tables.migrate("guests", [made]) == ["made"]
        more = TableMigration(2, "more", (TablePart("other", "CREATE TABLE other (name text)"),))
        with pytest.raises(OperatorError, match="forbids"):
            await clerk.tables.migrate("guests", [made, more])
    finally:
        await clerk.close()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY clerk")
            connection.execute("DROP ROLE clerk")
