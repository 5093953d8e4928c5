"""Outbox, inbox, bus, ledger and leases on PostgreSQL keep their contracts, with several handles on one database."""

from __future__ import annotations

import psycopg
from postgres_handles import SharedHandles

from headrace.core.events import Event
from headrace.core.ledgers import Account
from headrace.ports.leases import LeaseFeatures
from headrace.ports.parts import Parts
from headrace.testing.contracts import BusContract, LeasesContract, LedgerContract, OutboxContract

RETAIN = "SELECT headrace.retain_told(0, 0, 0)"
LINE = 2_000
ROWS_READ = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'event'"


class TestPostgresChoreography(SharedHandles, OutboxContract, BusContract, LedgerContract, LeasesContract):
    lease_features = LeaseFeatures(tells_repeats=False)

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
