"""What the tests of silver share: a store of either kind, empty and with its tables; and a foreign producer's queue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import apsw
import psycopg
import pytest
from silver_account import Queue

from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer
from headrace_silver.stores.silver_store import SilverStore, open_store
from headrace_silver.stores.sqlite.store import SqliteSilverStore

_schemas = count(1)


@pytest.fixture(params=["postgres", "sqlite"])
def silver_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database of either kind in which nothing is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'silver.db'}"
    return str(request.getfixturevalue("silver_schema"))


@pytest.fixture
def silver_store(silver_url: str) -> Iterator[SilverStore]:
    store = open_store(silver_url)
    store.create()
    yield store
    store.close()


@pytest.fixture(scope="module")
def silver_database(postgres_server: PostgresServer) -> Iterator[str]:
    """One PostgreSQL database for the tests of a file: to make one for each test would take longer than the tests."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def silver_schema(shared_servers: SharedServers, postgres_server: PostgresServer, silver_database: str) -> str:
    """The URL of an empty schema, as good as a database of its own."""
    shared_servers.lend(postgres_server)
    schema = f"silver_{next(_schemas)}"
    with psycopg.connect(silver_database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{silver_database}?options=-csearch_path%3D{schema}"


@pytest.fixture
def queue(silver_schema: str) -> Iterator[Queue]:
    """A queue in a schema of its own, made from the specification's DDL alone."""
    made = Queue.make(silver_schema)
    yield made
    made.connection.close()


@pytest.fixture
def embedded_path(tmp_path: Path) -> str:
    """Where an embedded store may be made."""
    return str(tmp_path / "silver.db")


@pytest.fixture
def embedded_store(embedded_path: str) -> Iterator[SqliteSilverStore]:
    store = SqliteSilverStore(embedded_path)
    store.create()
    yield store
    store.close()


@pytest.fixture
def embedded_other(embedded_path: str, embedded_store: SqliteSilverStore) -> Iterator[apsw.Connection]:
    """Somebody else's connection to the file of the embedded store."""
    connection = apsw.Connection(embedded_path)
    connection.set_busy_timeout(5_000)
    yield connection
    connection.close()
