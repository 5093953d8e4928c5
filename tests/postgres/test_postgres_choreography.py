"""Outbox, inbox, bus, ledger and leases on PostgreSQL keep their contracts, with several handles on one database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import psycopg
import pytest
from postgres_databases import TEMPLATE, emptied

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.events import Event
from headrace.core.ledgers import Account
from headrace.ports.leases import LeaseFeatures
from headrace.ports.parts import Parts
from headrace.testing.contracts import BusContract, LeasesContract, LedgerContract, OutboxContract
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.postgres import PostgresServer

HANDLES = 3
RETAIN = "SELECT headrace.retain_told(0, 0, 0)"
LINE = 2_000
ROWS_READ = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'event'"


class TestPostgresChoreography(OutboxContract, BusContract, LedgerContract, LeasesContract):
    lease_features = LeaseFeatures(tells_repeats=False)

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres: PostgresServer) -> Iterator[str]:
        with postgres.database(TEMPLATE) as url:
            yield url

    @pytest.fixture(scope="class")
    @classmethod
    def open_stores(cls, database: str) -> Iterator[Sequence[Parts]]:
        """Making a database takes a second; emptying one does not."""
        stores = [PostgresStore(database) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            asyncio.run(store.close())

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage()

    @pytest.fixture
    def store(self, handles: Sequence[Parts]) -> Parts:
        return handles[0]

    @pytest.fixture
    def handles(self, database: str, open_stores: Sequence[Parts]) -> Sequence[Parts]:
        emptied(database)
        return open_stores

    async def test_a_finished_account_is_forgotten_when_its_end_was_told_and_not_before(
        self, store: Parts, database: str
    ) -> None:
        await store.ledger.open(Account("old"))
        await store.ledger.seal("old", 0)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(RETAIN)
            assert await store.ledger.tally("old") is not None
            connection.execute("UPDATE headrace.event SET published_at = clock_timestamp() - interval '1 second'")
            connection.execute(RETAIN)
        assert await store.ledger.tally("old") is None

    async def test_a_relay_reads_a_long_line_of_one_key_a_few_times(self, store: Parts, database: str) -> None:
        await store.outbox.add([Event(f"e{number}", "a", b"", "one line") for number in range(LINE)])
        with psycopg.connect(database) as connection:
            connection.execute(f"SELECT FROM headrace.claim_events({LINE}, {2 * LINE}, 30, '{{}}')")
            assert connection.execute(ROWS_READ).fetchone() < (10 * LINE,)
