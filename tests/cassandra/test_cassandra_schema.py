"""The schema tool: it may be run again, adds an application's tables, and refuses a keyspace made otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from headrace.adapters.cassandra.failures import SCHEMA_HINT
from headrace.adapters.cassandra.options import CassandraOptions, Serial
from headrace.adapters.cassandra.session import CassandraSession
from headrace.adapters.cassandra.statements import CqlStatement
from headrace.core.errors import CallerError, Conflict, SchemaMismatch
from headrace.tables import CassandraTables, KeyspacePart, Replication, Strategy, apply_schema
from headrace.testing.rig.cassandra import CassandraServer

CARTS = KeyspacePart(
    "-- Carts; by customer.\nCREATE TABLE IF NOT EXISTS cart (customer int PRIMARY KEY)", {"carts": "4"}
)
SIMPLE, TOPOLOGY = Strategy.SIMPLE, Strategy.TOPOLOGY


@pytest.fixture
def options(cassandra_server: CassandraServer) -> AsyncIterator[CassandraOptions]:
    """A keyspace that is not there yet."""
    with cassandra_server.keyspace() as url:
        made = CassandraOptions.of(url)
        cassandra_server.execute(f"DROP KEYSPACE {made.keyspace}")
        yield made


async def test_a_keyspace_is_made_and_made_again(options: CassandraOptions) -> None:
    recorded = await apply_schema(options)
    assert recorded["serial_consistency"] == "LOCAL_SERIAL"
    assert recorded["replication"] == "{'class': 'SimpleStrategy', 'replication_factor': '1'}"
    assert await apply_schema(options) == recorded
    assert await apply_schema(options, Replication(SIMPLE, {"": 1}), [CARTS]) == {**recorded, "carts": "4"}
    with pytest.raises(Conflict, match=r"'replication_factor': '1'}, not as .*'replication_factor': '2'"):
        await apply_schema(options, Replication(SIMPLE, {"": 2}))
    with pytest.raises(Conflict, match="NetworkTopologyStrategy"):
        await apply_schema(options, Replication(TOPOLOGY))
    with pytest.raises(Conflict, match="carts = 4, not 8"):
        await apply_schema(options, parts=[replace(CARTS, settings={"carts": "8"})])
    with pytest.raises(Conflict, match="serial_consistency = LOCAL_SERIAL, not SERIAL"):
        await apply_schema(replace(options, serial=Serial.GLOBAL))
    await compared_at_the_opening(options)


async def compared_at_the_opening(options: CassandraOptions) -> None:
    async with CassandraTables.open(options, settings={"carts": "4"}) as tables:
        await tables.session.prepare({"add": CqlStatement.of("add", "INSERT INTO cart (customer) VALUES (:customer)")})
        await tables.session.prepare({"all": CqlStatement.of("all", "SELECT customer FROM cart")})
        assert await tables.rows("add", customer=7) == []
        assert await tables.rows("all") == [(7,)]
        assert (await tables.leases.acquire("cart:7", "a", 30.0)).granted
    with pytest.raises(Conflict, match="carts = 4, not 5"):
        async with CassandraTables.open(options, settings={"carts": "5"}):
            pass
    with pytest.raises(SchemaMismatch, match="has no shop_version"):
        async with CassandraTables.open(options, settings={"shop_version": "1"}):
            pass
    with pytest.raises(Conflict, match="SERIAL"):
        async with CassandraTables.open(replace(options, serial=Serial.GLOBAL)):
            pass


async def test_the_tables_are_those_of_the_text(lock_keyspace: str) -> None:
    options = CassandraOptions.of(lock_keyspace)
    session = await CassandraSession.open(options)
    columns = "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = :k AND table_name = :t"
    table = (
        "SELECT gc_grace_seconds, default_time_to_live, compaction FROM system_schema.tables"
        " WHERE keyspace_name = :k AND table_name = :t"
    )
    await session.prepare({"columns": CqlStatement.of("columns", columns), "table": CqlStatement.of("table", table)})
    found = {name: await session.run("columns", {"k": options.keyspace, "t": name}) for name in ("locks", "lock_seq")}
    assert set(found["locks"].rows) == {
        ("resource_id", "text", "partition_key"),
        ("holder", "text", "regular"),
        ("fencing_token", "bigint", "regular"),
        ("expire_at", "timestamp", "regular"),
        ("epoch", "bigint", "regular"),
    }
    assert set(found["lock_seq"].rows) == {("resource", "text", "partition_key"), ("last_seq", "bigint", "regular")}
    ((grace_s, ttl_s, compaction),) = (await session.run("table", {"k": options.keyspace, "t": "locks"})).rows
    assert (grace_s, ttl_s) == (60, 0)
    assert compaction["class"].endswith("TimeWindowCompactionStrategy")
    await session.close()


async def test_a_keyspace_without_tables_or_that_is_missing_asks_for_the_schema(
    cassandra_keyspace: str, options: CassandraOptions
) -> None:
    for url in (cassandra_keyspace, options):
        with pytest.raises(SchemaMismatch) as refused:
            async with CassandraTables.open(url):
                pass
        assert refused.value.hint == SCHEMA_HINT


async def test_a_keyspace_of_another_version_is_refused(
    options: CassandraOptions, cassandra_server: CassandraServer
) -> None:
    await apply_schema(options)
    with pytest.raises(CallerError, match="locks_version is somebody else's"):
        await apply_schema(options, parts=[KeyspacePart(settings={"locks_version": "2"})])
    row = "SET value = '2' WHERE name = 'locks_version' IF EXISTS"
    cassandra_server.execute(f"UPDATE {options.keyspace}.headrace_settings {row}")
    with pytest.raises(SchemaMismatch, match="locks_version = 2, not 1"):
        async with CassandraTables.open(options):
            pass


@pytest.mark.parametrize(
    ("asked", "nodes", "text"),
    [
        (Replication(), {"a": 1}, "{'class': 'SimpleStrategy', 'replication_factor': '1'}"),
        (Replication(), {"a": 2, "b": 5}, "{'class': 'SimpleStrategy', 'replication_factor': '3'}"),
        (Replication(TOPOLOGY), {"b": 2, "a": 5}, "{'class': 'NetworkTopologyStrategy', 'a': '3', 'b': '2'}"),
        (Replication(TOPOLOGY, {"a": 2}), {"a": 5}, "{'class': 'NetworkTopologyStrategy', 'a': '2'}"),
    ],
)
def test_a_new_keyspace_has_three_replicas_or_as_many_as_there_are_nodes(
    asked: Replication, nodes: dict[str, int], text: str
) -> None:
    assert asked.over(nodes).text() == text


@pytest.mark.parametrize("factors", [{"": 0}, {"a'}; --": 1}])
def test_replicas_that_cannot_be_are_refused(factors: dict[str, int]) -> None:
    with pytest.raises(CallerError):
        Replication(SIMPLE, factors).text()
