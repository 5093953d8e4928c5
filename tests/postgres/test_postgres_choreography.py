"""Outbox, inbox, bus, ledger and leases on PostgreSQL keep their contracts, with several handles on one database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from headrace.adapters.postgres import PostgresStore
from headrace.ports.parts import Parts
from headrace.testing.contracts import BusContract, LeasesContract, LedgerContract, OutboxContract
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.postgres import PostgresServer

HANDLES = 3
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' AND tablename <> 'migration'"


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database("headrace_template") as url:
        yield url


@pytest.fixture(scope="module")
def open_stores(url: str) -> Iterator[Sequence[Parts]]:
    """Making a database takes a second; emptying one does not."""
    stores = [PostgresStore(url) for _ in range(HANDLES)]
    yield stores
    for store in stores:
        asyncio.run(store.close())


class TestPostgresChoreography(OutboxContract, BusContract, LedgerContract, LeasesContract):
    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage()

    @pytest.fixture
    def store(self, handles: Sequence[Parts]) -> Parts:
        return handles[0]

    @pytest.fixture
    def handles(self, url: str, open_stores: Sequence[Parts]) -> Sequence[Parts]:
        with psycopg.connect(url, autocommit=True) as connection:
            tables = ", ".join(f"headrace.{name}" for (name,) in connection.execute(TABLES))
            connection.execute(f"TRUNCATE {tables}")
        return open_stores
