"""A consumer on a real topic and chDB, and what the tables hold afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from confluent_kafka import Consumer, Producer, TopicPartition
from pm_kafka_world import Row, ordered
from prometheus_client import CollectorRegistry
from waiting import eventually

from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.consumer import TopicConsumer
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.clickhouse.tables import make_tables
from headrace_pm.kafka.records import BatchRecords
from headrace_pm.kafka.row_binary import COLUMNS

PATIENCE_S = 40.0
_ROWS = f"SELECT {', '.join(COLUMNS)} FROM pm_counter_data FINAL".replace(
    " record_time", " toUnixTimestamp64Milli(record_time)"
).replace(" obj_hash", " lower(hex(obj_hash))")


@asynccontextmanager
async def connected(settings: ClickHouseSettings) -> AsyncIterator[ClickHouse]:
    clickhouse = ClickHouse(settings)
    try:
        await make_tables(clickhouse)
        # A merge would take away what was written twice before anybody counts it.
        await clickhouse.command(f"SYSTEM STOP MERGES {clickhouse.database}.pm_counter_data")
        yield clickhouse
    finally:
        await clickhouse.close()


async def change_table(clickhouse: ClickHouse, change: str) -> None:
    """Changes of columns wait for merges."""
    await clickhouse.command(f"SYSTEM START MERGES {clickhouse.database}.pm_counter_data")
    await clickhouse.command(change)


@asynccontextmanager
async def running(settings: ClickHouseSettings, clickhouse: ClickHouse) -> AsyncIterator[TopicConsumer]:
    """A member of the group until the end of the block; what ends it early ends the block."""
    stop = asyncio.Event()
    consumer = TopicConsumer(settings, clickhouse, ClickHouseMetrics(CollectorRegistry()))
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run(stop))
        try:
            yield consumer
        finally:
            stop.set()


async def table_rows(clickhouse: ClickHouse) -> list[Row]:
    found = [dict(zip(COLUMNS, row, strict=True)) for row in await clickhouse.rows(_ROWS)]
    return ordered({**row, "extra_field": json.loads(row["extra_field"])} for row in found)


async def raw_count(clickhouse: ClickHouse) -> int:
    [[count]] = await clickhouse.rows("SELECT count() FROM pm_counter_data")
    return int(count)


async def all_in(clickhouse: ClickHouse, wanted: list[Row]) -> None:
    await eventually(lambda: _has(clickhouse, len(wanted)), f"{len(wanted)} rows are in ClickHouse", PATIENCE_S)
    assert await table_rows(clickhouse) == wanted


async def _has(clickhouse: ClickHouse, count: int) -> bool:
    return len(await clickhouse.rows("SELECT 1 FROM pm_counter_data FINAL")) >= count


def put(topic_url: str, *records: BatchRecords) -> None:
    """Records as somebody else may have written them."""
    place = urlsplit(topic_url)
    producer = Producer({"bootstrap.servers": place.netloc, "log_level": 0})
    for each in records:
        for value in each.values:
            producer.produce(place.path.lstrip("/"), value, each.key, headers=list(each.headers))
    assert producer.flush(PATIENCE_S) == 0


def committed(settings: ClickHouseSettings) -> TopicPartition:
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": settings.clickhouse_group})
    try:
        [place] = consumer.committed([TopicPartition(settings.kafka_topic, 0)], timeout=PATIENCE_S)
        return place
    finally:
        consumer.close()


def rewind(settings: ClickHouseSettings, place: TopicPartition) -> None:
    """The group goes on there."""
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": settings.clickhouse_group})
    try:
        consumer.commit(offsets=[place], asynchronous=False)
    finally:
        consumer.close()
