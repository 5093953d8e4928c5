"""Open transactions on PostgreSQL: the contract of the port, and why resolving takes a lock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from waiting import eventually

from headrace.adapters.postgres.calls import rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Settled, Settlement
from headrace.ports.transactions import NOT_APPLIED, OPEN_TRANSACTIONS_MAX
from headrace.testing.contracts import Bench, OpenTransactionContract
from headrace.testing.contracts.open_transactions import PLAIN, Insert, begin, opener, step
from headrace.testing.passage import RealPassage
from headrace.testing.twins import turns_red

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
WAIT_S = 10.0


class TestOpenPostgres(OpenTransactionContract):
    @pytest.fixture
    def insert(self) -> Insert:
        async def insert(connection: Any, item: str) -> None:
            await connection.execute("INSERT INTO effect_log (item) VALUES (%s)", (item,))

        return insert

    async def test_resolving_waits_for_a_commit_that_is_under_way(self, bench: Bench, postgres_url: str) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        # Another connection looks: within one transaction the list of sessions stays that of the first look.
        with psycopg.connect(postgres_url) as late, psycopg.connect(postgres_url, autocommit=True) as watcher:
            late.execute("UPDATE headrace.claim SET step = 1 WHERE fence = %s", (claim.fence,))
            resolving = asyncio.ensure_future(opener(bench).resolve([step(claim)]))

            def waits_or_is_over() -> bool:
                return resolving.done() or watcher.execute(WAITING).fetchone() != (0,)

            await eventually(waits_or_is_over, "resolving waits for the lock", WAIT_S, otherwise=TimeoutError)
            late.commit()
        (answer,) = await resolving
        assert answer.accepted

    async def test_one_more_than_the_limit_waits_for_its_turn(self, bench: Bench) -> None:
        transactions = [await begin(bench) for _ in range(OPEN_TRANSACTIONS_MAX)]
        late = asyncio.ensure_future(begin(bench))
        done, _ = await asyncio.wait([late], timeout=0.1)
        assert not done
        await transactions.pop().rollback()
        for transaction in (*transactions, await asyncio.wait_for(late, WAIT_S)):
            await transaction.rollback()


class ReadsPlainly(PostgresStore):
    """Resolves by a read that takes no lock."""

    async def resolve(self, settlements: Sequence[Settlement]) -> list[Settled]:
        def look(connection: Connection) -> list[Settled]:
            found = [rows(connection, "refusal", (each.step, each.fence))[0][0] for each in settlements]
            return [
                Settled(each.fence, reason == "", NOT_APPLIED if reason is None else reason)
                for each, reason in zip(settlements, found, strict=True)
            ]

        return await self._lanes.read(look)


async def test_a_plain_read_is_noticed(postgres_url: str) -> None:
    twin = ReadsPlainly(postgres_url)
    try:
        noticed_by = TestOpenPostgres.test_resolving_waits_for_a_commit_that_is_under_way
        await turns_red(noticed_by, bench=Bench(twin, RealPassage()), postgres_url=postgres_url)
    finally:
        await twin.close()
