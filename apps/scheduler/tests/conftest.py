"""Worlds for the scheduler's tests: embedded in a directory, or on a real Cassandra."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from orders_shop import PRICE, Market, Shop, open_market, open_shop
from scheduler_world import BUCKETS, World, clean, open_world, patient

from headrace.tables import CassandraOptions, apply_schema
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.cassandra import CassandraServer
from headrace.testing.rig.cassandra_cluster import CassandraCluster
from headrace.testing.rig.postgres import PostgresServer
from headrace_scheduler.frame import FRAME
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.cassandra_tables import schema_part


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A command that runs in this process may change what is logged."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def embedded_environment(tmp_path: Path) -> dict[str, str]:
    """Nothing but a directory."""
    return {"PATH": os.environ["PATH"], "SCHEDULER_HOME": str(tmp_path / "scheduler"), "WORKER_BUCKETS": BUCKETS}


@pytest.fixture(scope="session")
def scheduler_keyspace(cassandra_server: CassandraServer) -> Iterator[str]:
    """One keyspace with the tables for the whole run: making tables takes seconds, emptying them does not."""
    with cassandra_server.keyspace() as url:
        asyncio.run(apply_schema(patient(CassandraOptions.of(url)), None, [schema_part()]))
        yield url


@pytest.fixture(scope="session")
def scheduler_cluster_keyspace(cassandra_cluster: CassandraCluster) -> Iterator[CassandraOptions]:
    """The same on three nodes, where every table takes a second. Through their proxies."""
    with cassandra_cluster.keyspace() as url:
        options = CassandraOptions.of(cassandra_cluster.proxied(url))
        asyncio.run(apply_schema(patient(options), None, [schema_part()]))
        yield options


@pytest.fixture
def cluster_options(whole_cluster: CassandraCluster, scheduler_cluster_keyspace: CassandraOptions) -> CassandraOptions:
    """Three nodes that are all there, and empty tables on them."""
    asyncio.run(clean(scheduler_cluster_keyspace))
    return scheduler_cluster_keyspace


@pytest.fixture
def cassandra_environment(
    shared_servers: SharedServers, cassandra_server: CassandraServer, scheduler_keyspace: str
) -> dict[str, str]:
    """Variables that name a Cassandra whose tables are empty."""
    shared_servers.lend(cassandra_server)
    options = CassandraOptions.of(scheduler_keyspace)
    asyncio.run(clean(options))
    return {
        "PATH": os.environ["PATH"],
        "CASSANDRA_CONTACT_POINT": options.hosts[0],
        "CASSANDRA_PORT": str(options.port),
        "CASSANDRA_KEYSPACE": options.keyspace,
        "WORKER_BUCKETS": BUCKETS,
    }


@pytest.fixture(params=["embedded", "cassandra"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of each world: what is tested with it is true of both."""
    found: dict[str, str] = request.getfixturevalue(f"{request.param}_environment")
    return found


@pytest.fixture
def settings(environment: dict[str, str]) -> SchedulerSettings:
    return FRAME.load(environment)


@pytest.fixture
async def world(settings: SchedulerSettings) -> AsyncIterator[World]:
    async with open_world(settings) as opened:
        yield opened


@pytest.fixture
async def embedded(embedded_environment: dict[str, str]) -> AsyncIterator[World]:
    """For what does not depend on where the tables are."""
    async with open_world(FRAME.load(embedded_environment)) as opened:
        yield opened


@pytest.fixture
def orders_environment(request: pytest.FixtureRequest, environment: dict[str, str]) -> dict[str, str]:
    """A world with orders: embedded, or on Cassandra and PostgreSQL."""
    if "SCHEDULER_HOME" in environment:
        return environment
    return {**environment, "ORDERS_PG_DSN": request.getfixturevalue("postgres_database")}


@pytest.fixture(scope="session")
def orders_database(postgres_server: PostgresServer) -> Iterator[str]:
    """One database for all tests of orders alone: making its tables takes longer than emptying them."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
async def sqlite_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """For what does not depend on the database."""
    async with open_shop({"SCHEDULER_HOME": str(tmp_path / "shop")}) as opened:
        await opened.book.put_article("tea", 10, PRICE)
        yield opened


@pytest.fixture
async def postgres_shop(
    shared_servers: SharedServers, postgres_server: PostgresServer, orders_database: str
) -> AsyncIterator[Shop]:
    shared_servers.lend(postgres_server)
    async with open_shop({"ORDERS_PG_DSN": orders_database}) as opened:
        opened.empty()
        await opened.book.put_article("tea", 10, PRICE)
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """Orders alone, on each database."""
    found: Shop = request.getfixturevalue(f"{request.param}_shop")
    return found


@pytest.fixture
async def market(world: World, orders_environment: dict[str, str]) -> AsyncIterator[Market]:
    async with open_shop(orders_environment) as opened, open_market(world, opened) as found:
        await opened.book.put_article("tea", 10, PRICE)
        yield found
