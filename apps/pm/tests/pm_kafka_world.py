"""Batches, a checkpoint store in memory, and readers of the topic for tests of Kafka and ClickHouse."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from pm_rows import rows

from headrace.errors import ClaimLost, Unreachable
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.counters.batch import BatchObjects, CounterBatch
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.kafka.settings import PREFIX

READ_S_MAX = 60.0
GROUPS = ("TRAFFIC", "Q", "mobility ✓")
FILE = FileRevision(7, "A20261118.0500.bin", 2, 41, 3)
Row = dict[str, Any]


def settings_of(topic_url: str = "kafka://127.0.0.1:1/none", clickhouse: str = "", **given: Any) -> ClickHouseSettings:
    """Settings on these servers, quick ones."""
    place = urlsplit(topic_url)
    named = {
        "kafka_bootstrap": place.netloc,
        "kafka_topic": place.path.lstrip("/"),
        "clickhouse_block_s": 0.2,
        "clickhouse_session_s": 2.0,
    }
    if clickhouse:
        named["clickhouse_url"] = clickhouse
    return ClickHouseSettings(**{**named, "clickhouse_group": f"group-{named['kafka_topic']}", **given})


def variables_of(settings: ClickHouseSettings) -> dict[str, str]:
    """The same as variables of the environment."""
    of_kafka, of_clickhouse = ("bootstrap", "topic"), ("url", "group", "block_s", "session_s")
    names = [*(f"kafka_{name}" for name in of_kafka), *(f"clickhouse_{name}" for name in of_clickhouse)]
    return {f"{PREFIX}{name.upper()}": str(getattr(settings, name)) for name in names}


def batch_of(number: int, counters: int = 20, ne_id: int = 11, value: float | None = None) -> CounterBatch:
    """A batch of two objects whose values differ; every seventh is NULL."""
    cells = [number * 2 + which for which in range(2)]
    hashes = [sha256(f"Cell={cell},NodeFunction=gNodeB|{cell}".encode()).digest()[:8] for cell in cells]
    values = np.arange(counters, dtype=np.float64) / 3 + number if value is None else np.full(counters, value)
    values[::7] = np.nan
    return CounterBatch(
        number,
        number * counters,
        counters,
        ne_id,
        np.arange(counters, dtype=np.int32) + 1_526_726_000,
        values,
        (np.arange(counters) % len(GROUPS)).astype(np.int32),
        GROUPS,
        (np.arange(counters) * 2 // counters).astype(np.int32),
        BatchObjects(
            np.array([1_763_440_200_123, 1_763_441_100_000], np.int64),
            np.array([900, 900], np.int32),
            np.array(cells, np.int64),
            np.array([int.from_bytes(each) for each in hashes], np.uint64),
            ("5G", ""),
            tuple(b'{"cell":"%d","nodefunction":"gNodeB"}' % cell for cell in cells),
        ),
    )


def file_batches(count: int, counters: int = 20, ne_id: int = 11) -> Callable[[int], Iterator[CounterBatch]]:
    """What a file with so many batches gives from any number on."""
    return lambda since: (batch_of(number, counters, ne_id) for number in range(since, count))


def truth(batches: Iterable[CounterBatch], version: int = FILE.version) -> list[Row]:
    """The rows that must be in the table, in the order of their text."""
    return ordered([{**row, "version": version} for batch in batches for row in rows(batch)])


def ordered(found: Iterable[Row]) -> list[Row]:
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


@dataclass
class MemoryCheckpoints:
    """Checkpoints as the table has them: a save under an old epoch is refused. `fails` are errors of the next saves."""

    epoch: int = FILE.epoch
    kept: Checkpoint = field(default_factory=Checkpoint)
    saves: list[Checkpoint] = field(default_factory=list)
    fails: list[Exception] = field(default_factory=list)

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        return self.kept

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        if self.fails:
            raise self.fails.pop(0)
        if epoch != self.epoch:
            raise ClaimLost(f"file {file_id} has epoch {self.epoch}")
        self.kept = checkpoint
        self.saves.append(checkpoint)


def lost_answer() -> Exception:
    return Unreachable("the table does not answer")


def messages_of(topic_url: str, partitions: int = 1) -> list[Message]:
    """All that a topic holds now, partition by partition."""
    place = urlsplit(topic_url)
    topic = place.path.lstrip("/")
    options = {"bootstrap.servers": place.netloc, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(options)
    try:
        places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        wanted = sum(consumer.get_watermark_offsets(each, timeout=READ_S_MAX)[1] for each in places)
        consumer.assign(places)
        found: list[Message] = []
        deadline = time.monotonic() + READ_S_MAX
        while len(found) < wanted:
            assert time.monotonic() < deadline, f"{len(found)} of {wanted}"
            found += consumer.consume(wanted, timeout=1.0)
        return sorted(found, key=lambda each: (each.partition(), each.offset()))
    finally:
        consumer.close()


def headers_of(message: Message) -> Mapping[str, str]:
    return {str(name): bytes(value).decode() for name, value in list(message.headers() or ())}
