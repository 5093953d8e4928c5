"""What the two servers of the sinks take on this machine: rows that are decoded and encoded before, both at once.

Nothing is listed, fetched, read, claimed, counted or moved. The table gets columns by the bulk command, 10,000 rows in
a transaction, over five connections; Kafka gets payloads in RowBinary, one for each batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka import Producer
from pm_usual_parts import ENDED_S_MAX, OPTIONS, FlowOrders

from headrace.tables import Columns, OpenTables, open_tables
from headrace_pm.counters.batch import batches
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.counters.dictionary_files import read_dictionary
from headrace_pm.kafka.row_binary import row_binary
from headrace_pm.sinks.counter_columns import counter_columns
from headrace_pm.tables import PM_TABLES
from headrace_pm.wire.byte_source import HeldBytes
from headrace_pm.wire.counter_file import CounterFile

BATCHES_PER_UNIT, CONNECTIONS = 10, 5


def run(orders: FlowOrders, begin: Callable[[], None]) -> None:
    """All rows of the files, into both sinks."""
    dictionary = NetworkDictionary(read_dictionary(Path(orders.dictionaries)))
    contents = [path.read_bytes() for path in sorted(Path(orders.files_made).iterdir())[: orders.files]]
    read = [batch for content in contents for batch in batches(CounterFile(HeldBytes(content)), dictionary)]
    firsts = range(0, len(read), BATCHES_PER_UNIT)
    units = [counter_columns(read[first : first + BATCHES_PER_UNIT], version=1) for first in firsts]
    asyncio.run(_written(orders, units, [row_binary(batch, 1) for batch in read], begin))


async def _written(orders: FlowOrders, units: list[Columns], payloads: list[bytes], begin: Callable[[], None]) -> None:
    async with open_tables(f"{orders.mysql}?lanes={CONNECTIONS}", PM_TABLES) as tables:
        begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(_produce, orders.topic, payloads))
            for number in range(CONNECTIONS):
                group.create_task(_insert(tables, units[number::CONNECTIONS]))


async def _insert(tables: OpenTables, units: list[Columns]) -> None:
    for unit in units:
        async with tables.transaction() as tx:
            tx.run_many("counters_upsert", unit)


def _produce(topic_url: str, payloads: list[bytes]) -> None:
    place = urlsplit(topic_url)
    producer = Producer({**OPTIONS, "bootstrap.servers": place.netloc})
    for payload in payloads:
        producer.produce(place.path.lstrip("/"), payload)
        producer.poll(0)
    assert producer.flush(ENDED_S_MAX) == 0
