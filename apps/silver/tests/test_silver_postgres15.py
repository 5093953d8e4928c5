"""The oldest PostgreSQL that is supported takes every statement of the consumer, of the tools and of the report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

import pytest
from silver_account import Queue, article, bar

from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer
from headrace_silver.quality.assessment import assess
from headrace_silver.quality.values import ReportSettings
from headrace_silver.queue import dead_letters
from headrace_silver.queue.consumer import ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.postgres.store import PostgresSilverStore


@pytest.fixture
def queue15(shared_servers: SharedServers) -> Iterator[Queue]:
    server = cast(PostgresServer, shared_servers.start("silver_postgres15", "postgres15"))
    with server.database() as url:
        queue = Queue.make(url)
        yield queue
        queue.connection.close()


def test_postgres_15_takes_it_all(queue15: Queue) -> None:
    assert queue15.connection.info.server_version // 10_000 == 15
    queue15.ask("ALTER TABLE ta_silver ADD CONSTRAINT picky CHECK (source IS DISTINCT FROM 'refused')")
    for day in range(1, 29):
        queue15.put("ta.bar", bar(trade_date=f"2024-02-{day:02}"))
    queue15.put("ta.bar", bar(trade_date="2024-02-01", close=10.5))
    queue15.put("sa.article", article(symbols=["VNM"]))
    queue15.put("ta.bar", bar(source="refused"))
    queue15.put("ta.bar", bar(symbol="PC1"))
    store = PostgresSilverStore(queue15.url)
    consumed = TaskConsumer(store, ConsumeSettings(4), Mode.DRAIN, line=lambda _: None).run()
    assert (consumed.bars, consumed.articles, consumed.rejects, consumed.revisions) == (29, 1, 2, 1)
    assert store.holder() is None
    assert dead_letters.redrive(store, dead_letters.LetterFilter(rule="ta_symbol"), 10).ready == 1
    assert assess(store, datetime.now(UTC), ReportSettings()).symbols
    store.close()
    assert len(queue15.ready()) == 1
