"""Two PostgreSQL servers for all tests here, 18 and 15, and for each test an empty database with the schema."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from postgres_databases import TEMPLATE, ReusedDatabase, hasty_server

from headrace.adapters.postgres.store import PostgresStore
from headrace.testing.contracts.recorded_statements import Query
from headrace.testing.fixtures import SharedServers
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy


@pytest.fixture(scope="session")
def postgres(shared_servers: SharedServers) -> PostgresServer:
    return hasty_server(shared_servers, "postgres")


@pytest.fixture(scope="session")
def postgres15(shared_servers: SharedServers) -> PostgresServer:
    return hasty_server(shared_servers, "postgres15")


@pytest.fixture(scope="session")
def reused_database(postgres: PostgresServer) -> Iterator[ReusedDatabase]:
    reused = ReusedDatabase(postgres)
    yield reused
    reused.drop()


@pytest.fixture
def postgres_url(reused_database: ReusedDatabase) -> Iterator[str]:
    with reused_database.lend() as url:
        yield url


@pytest.fixture(scope="session")
def one_database15(postgres15: PostgresServer) -> Iterator[str]:
    with postgres15.database(TEMPLATE) as url:
        yield url


@pytest.fixture
def passage() -> Passage:
    return RealPassage()


@pytest.fixture
def line(postgres_url: str) -> Iterator[Proxy]:
    """The way to a test's database, which may be cut."""
    with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def far(line: Proxy) -> AsyncIterator[PostgresStore]:
    """A handle with one connection, over the line that will be cut."""
    store = await PostgresStore.open(line.url, lanes=1)
    yield store
    await store.close()


@pytest.fixture
def query(postgres_url: str) -> Query:
    """Asks the database past the product."""

    async def query(sql: str) -> Sequence[tuple[Any, ...]]:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            found = connection.execute(sql.encode())
            return found.fetchall() if found.description else []

    return query


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_url)
    yield store
    await store.close()
