"""Records that a real broker refuses end their own file; and the second topic, which has no checkpoint."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pm_file_world import sqlite_world
from pm_kafka_world import FILE, MemoryCheckpoints, batch_of, file_batches, messages_of, settings_of, truth
from test_pm_kafka_sink import NETWORK_S, foreign_rows
from waiting import eventually

from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.delivery import BatchDelivery
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import CounterProducer, open_producer
from headrace_pm.kafka.records import BatchRecords, FileRevision, RecordRefused
from headrace_pm.kafka.sink import KafkaSink
from headrace_pm.kafka.trials import RecordTrials
from headrace_pm.sinks.followed_sink import FollowedSink, NoCheckpoints
from headrace_pm.sinks.table_sink import TableSink
from headrace_pm.tables.progress import FileProgress
from headrace_pm.work.file_outcomes import end_of
from headrace_pm.work.sink_lane import is_away


def sent(key: bytes | None, ends: list[Exception | None]) -> BatchDelivery:
    """A batch whose key no form would leave out, with where its end is noted."""
    records = BatchRecords(cast("bytes", key), (b"{}",))
    return BatchDelivery(records, lambda: ends.append(None), ends.append)


async def one_of_three_is_invalid(kafka_topic: str, producer_kind: type[CounterProducer]) -> None:
    """A topic that is compacted takes no record without a key. All go out together, as those of several files do."""
    place = urlsplit(kafka_topic)
    admin = AdminClient({"bootstrap.servers": place.netloc})
    compacted = NewTopic(f"{place.path[1:]}-compacted", 1, 1, config={"cleanup.policy": "compact"})
    await asyncio.to_thread(admin.create_topics([compacted])[compacted.topic].result, NETWORK_S)
    bad: list[Exception | None] = []
    good: list[Exception | None] = []
    producer = producer_kind(settings_of(f"kafka://{place.netloc}/{compacted.topic}"))
    try:
        for key, ends in ((b"1", good), (None, bad), (b"2", good)):
            await producer.send(sent(key, ends))
        await eventually(lambda: (len(bad), len(good)) == (1, 2), lambda: f"{bad} {good}", NETWORK_S)
    finally:
        await producer.close()
    assert good == [None, None]
    (error,) = bad
    assert isinstance(error, RecordRefused)
    assert not is_away(error), "the sink is well"
    end = end_of(error)
    assert end is not None
    assert (end.rule, "Kafka refuses a record" in end.reason) == ("refused_record", True)


async def test_a_record_that_the_broker_finds_invalid_ends_its_file_and_no_other(kafka_topic: str) -> None:
    await one_of_three_is_invalid(kafka_topic, CounterProducer)


async def test_a_trial_without_a_client_is_no_verdict_and_not_the_last() -> None:
    ends: list[object] = []
    calls = iter((KafkaException(KafkaError(KafkaError._TRANSPORT)), KafkaException(KafkaError(KafkaError._TRANSPORT))))

    def connect() -> Producer:
        raise next(calls)

    trials = RecordTrials("topic", connect, lambda _delivery, error: ends.append(error), threading.Event())
    for count in (1, 2):
        trials.add(sent(b"1", []))
        await trials.close()
        assert [cast("KafkaError", error).code() for error in ends] == [KafkaError._TRANSPORT] * count


class StumblingProducer:
    """A client whose first look for reports fails."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._client, self._looks = Producer(options), 0

    def poll(self, wait_s: float) -> int:
        self._looks += 1
        if self._looks == 1:
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "a name that is none")
        return self._client.poll(wait_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def test_the_thread_of_reports_outlives_what_goes_wrong_in_it(kafka_topic: str) -> None:
    def connect(options: dict[str, Any]) -> Any:
        return StumblingProducer(options)

    async with open_producer(settings_of(kafka_topic), connect) as producer:
        async with asyncio.timeout(NETWORK_S):
            await KafkaSink(producer, MemoryCheckpoints(), RecordForm.ROW_BINARY).write(FILE, file_batches(2))


class Condemned(CounterProducer):
    """The twin: whoever was in the same request is at fault."""

    def _settle(self, delivery: BatchDelivery) -> None:
        if delivery.error is not None:
            self._tried(delivery, delivery.error)
        else:
            super()._settle(delivery)


async def test_without_a_trial_the_files_beside_a_bad_one_would_end_with_it(kafka_topic: str) -> None:
    with pytest.raises(AssertionError, match="RecordRefused"):
        await one_of_three_is_invalid(kafka_topic, Condemned)


async def test_the_second_topic_has_a_file_at_least_once_and_each_batch_once_for_those_who_look(
    kafka_topic: str, tmp_path: Path
) -> None:
    """Whoever writes the file is lost when half of it is in the topic; the next one sends all of it again."""
    batches = [batch_of(number) for number in range(6)]
    async with sqlite_world(tmp_path / "pm.db") as world, open_producer(settings_of(kafka_topic)) as producer:
        world.add(10)
        _, held = await world.hold()
        file = FileRevision(held.file_id, FILE.name, held.revision, held.version, held.epoch)
        table = TableSink(world.tables, FileProgress(world.tables, "s"), 2, sets_flag=False)
        sink = FollowedSink(table, KafkaSink(producer, NoCheckpoints(), RecordForm.JSON))

        def broken_off(since: int) -> Iterator[CounterBatch]:
            """The table reads all of it first; the topic does not come to the end."""
            for batch in batches[since:]:
                if table.rows and batch.number == 3:
                    raise ZeroDivisionError
                yield batch

        with pytest.raises(ZeroDivisionError):
            await sink.write(file, broken_off)
        assert world.flags(file.file_id) == ("DOWNLOADING", False, False), "no flag before the topic has all of it"
        assert table.rows == sum(map(len, batches))
        await sink.write(file, lambda since: iter(batches[since:]))
        assert table.rows == sum(map(len, batches)), "the table has its checkpoint, and writes nothing again"
    assert len(messages_of(kafka_topic)) > sum(map(len, batches)), "some records came twice"
    assert foreign_rows(kafka_topic) == truth(batches, file.version)
