"""How fast do counters get into a real Kafka, acknowledged by the broker, and on into ClickHouse?

The same batches for everybody, made before. `one_by_one` is the usual loop of a producer: a JSON document and a call
for each row, acknowledgements counted by callbacks. `raw` hands payloads to the client that are already made: what
broker, client and compression allow. `headrace` is the sink, from columns to its last checkpoint, in both forms. All
have acks of all replicas, idempotence and lz4. The last line is what `headrace pm clickhouse` takes from that topic
into chDB. Wall time of the best round; processor time of this process beside it.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from headrace.testing.rig.clickhouse import ClickHouseServer
from headrace.testing.rig.kafka import KafkaServer
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.consumer import TopicConsumer
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.clickhouse.tables import make_tables
from headrace_pm.counters.batch import CounterBatch, batches
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import open_producer
from headrace_pm.kafka.records import FileRevision, row_binary_record
from headrace_pm.kafka.sink import KafkaSink
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.wire.byte_source import HeldBytes
from headrace_pm.wire.counter_file import CounterFile

FILE = FileRevision(1, "bench.dat", 1, 1, 1)
OPTIONS = {"enable.idempotence": True, "acks": "all", "compression.type": "lz4", "linger.ms": 5, "log_level": 0}
ENDED_S_MAX = 300.0


class KeptCheckpoints:
    """The last checkpoint, in memory."""

    def __init__(self) -> None:
        self.kept = Checkpoint()

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        return Checkpoint()

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        self.kept = checkpoint


class KafkaBench:
    """Batches of one file, so often that there are enough rows, and the ways to send them."""

    def __init__(self, counters: int, rows: int) -> None:
        folder = GeneratedFolder(FolderPlan(files=2, counters=counters))
        file = CounterFile(HeldBytes(folder.file(1).content()))
        once = list(batches(file, NetworkDictionary(folder.network.dictionary)))
        repeats = max(1, math.ceil(rows / sum(map(len, once))))
        self._batches = [
            replace(batch, number=number * len(once) + batch.number) for number in range(repeats) for batch in once
        ]
        self._rows = sum(map(len, self._batches))
        # The slow way gets a part of them.
        self._few = self._batches[: max(1, len(self._batches) // 10)]

    def results(self, rounds: int) -> Iterator[dict[str, object]]:
        with KafkaServer({"heap": "512m"}) as server:
            self._server = server
            ways: dict[tuple[str, str], Callable[[str], int]] = {
                ("one_by_one", "json"): self._one_by_one,
                ("raw", "rowbinary"): self._raw,
                ("headrace", "json"): lambda topic: self._sink(topic, RecordForm.JSON, self._few),
                ("headrace", "rowbinary"): lambda topic: self._sink(topic, RecordForm.ROW_BINARY, self._batches),
            }
            best: dict[tuple[str, str], tuple[float, float]] = {}
            for _ in range(rounds):
                for way, send in ways.items():
                    with server.topic() as topic:
                        rate = self._measured(send, topic)
                    best[way] = max(best.get(way, (0.0, 0.0)), rate)
            peer = best["one_by_one", "json"]
            for (who, form), (rows_per_s, rows_per_cpu_s) in best.items():
                yield {
                    "who": who,
                    "form": form,
                    "rows_per_s": round(rows_per_s),
                    "times_one_by_one": round(rows_per_s / peer[0], 1),
                    "rows_per_cpu_s": round(rows_per_cpu_s),
                    "times_one_by_one_cpu": round(rows_per_cpu_s / peer[1], 1),
                }
            yield self._into_clickhouse()

    def _measured(self, send: Callable[[str], int], topic: str) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        rows = send(topic)
        return rows / (time.perf_counter() - wall), rows / (time.process_time() - cpu)

    def _one_by_one(self, topic_url: str) -> int:
        place, told = urlsplit(topic_url), []
        producer = Producer({**OPTIONS, "bootstrap.servers": place.netloc, "queue.buffering.max.messages": 1_000_000})

        def report(error: Any, _message: Any) -> None:
            told.append(error)

        topic = place.path.lstrip("/")
        for batch in self._few:
            for row in _documents(batch):
                producer.produce(topic, json.dumps(row).encode(), str(batch.ne_id), on_delivery=report)
                producer.poll(0)
        assert producer.flush(ENDED_S_MAX) == 0
        assert not any(told)
        return len(told)

    def _raw(self, topic_url: str) -> int:
        place, payloads = urlsplit(topic_url), [row_binary_record(FILE, batch).values[0] for batch in self._few]
        producer = Producer({**OPTIONS, "bootstrap.servers": place.netloc})
        for number in range(len(self._batches)):
            producer.produce(place.path.lstrip("/"), payloads[number % len(payloads)])
            producer.poll(0)
        assert producer.flush(ENDED_S_MAX) == 0
        return self._rows

    def _sink(self, topic_url: str, form: RecordForm, chosen: list[CounterBatch]) -> int:
        async def write() -> int:
            checkpoints = KeptCheckpoints()
            async with open_producer(_settings(topic_url)) as producer:
                await KafkaSink(producer, checkpoints, form).write(FILE, lambda since: iter(chosen[since:]))
            return checkpoints.kept.rows

        return asyncio.run(write())

    def _into_clickhouse(self) -> dict[str, object]:
        with ClickHouseServer() as engine, engine.database() as database, self._server.topic() as topic:
            self._sink(topic, RecordForm.ROW_BINARY, self._batches)
            took_s = asyncio.run(self._consume(replace(_settings(topic), clickhouse_url=database)))
        return {"who": "headrace", "form": "clickhouse (chDB)", "rows_per_s": round(self._rows / took_s)}

    async def _consume(self, settings: ClickHouseSettings) -> float:
        """Seconds from when it has its partitions until everything is in."""
        clickhouse, stop = ClickHouse(settings), asyncio.Event()
        await make_tables(clickhouse)
        metrics = ClickHouseMetrics(CollectorRegistry())
        consumer = TopicConsumer(settings, clickhouse, metrics)
        running = asyncio.ensure_future(consumer.run(stop))
        while not consumer.partitions and not running.done():
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        while metrics.rows._value.get() < self._rows and not running.done():
            await asyncio.sleep(0.02)
        took_s = time.perf_counter() - began
        stop.set()
        await running
        await clickhouse.close()
        return took_s


def _settings(topic_url: str) -> ClickHouseSettings:
    place = urlsplit(topic_url)
    return ClickHouseSettings(kafka_bootstrap=place.netloc, kafka_topic=place.path.lstrip("/"), clickhouse_block_s=1.0)


def _documents(batch: CounterBatch) -> Iterator[dict[str, object]]:
    objects = batch.objects
    for row, which in enumerate(batch.object_of.tolist()):
        value = float(batch.counter_value[row])
        yield {
            "ne_id": batch.ne_id,
            "record_time": int(objects.record_time[which]),
            "duration": int(objects.duration[which]),
            "counter_id": int(batch.counter_id[row]),
            "counter_value": None if math.isnan(value) else value,
            "group_code": batch.groups[batch.group_of[row]],
            "rat_type": objects.rat_type[which],
            "cell_index": int(objects.cell_index[which]),
            "obj_hash": f"{int(objects.obj_hash[which]):016x}",
            "extra_field": json.loads(objects.extra_field[which]),
            "version": FILE.version,
            "file": FILE.name,
            "revision": FILE.revision,
            "batch": batch.number,
        }
