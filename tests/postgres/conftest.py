"""Two PostgreSQL servers for all tests here, 18 and 15, and for each test an empty database with the schema."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from postgres_databases import TEMPLATE, ReusedDatabase, hasty_server

from headrace.adapters.postgres.store import PostgresStore
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer


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
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_url)
    yield store
    await store.close()
