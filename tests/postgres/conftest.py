"""One PostgreSQL server for all tests here; a fresh database with the schema for each, or one that is emptied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from headrace.adapters.postgres import PostgresStore, schema
from headrace.testing.rig.postgres import PostgresServer, postgres_server

pytest.register_assert_rewrite("headrace.testing.contracts")

TEMPLATE = "headrace_template"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    # Only a power cut could tell the difference, and databases come and go by the hundred here.
    with postgres_server({"fsync": "off", "full_page_writes": "off"}) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {TEMPLATE}")
        schema.prepare(server.url_of(TEMPLATE))
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database(TEMPLATE) as url:
        yield url


@pytest.fixture(scope="session")
def one_database(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database(TEMPLATE) as url:
        yield url


@pytest.fixture
def emptied_url(one_database: str) -> str:
    """For tests that leave nothing but rows: much quicker than a database of their own."""
    with psycopg.connect(one_database, autocommit=True) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'headrace'").fetchall()
        tables = ", ".join(f"headrace.{name}" for (name,) in found if name != "migration")
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY".encode())
    return one_database


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_url)
    yield store
    await store.close()
