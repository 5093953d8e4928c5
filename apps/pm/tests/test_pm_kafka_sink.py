"""Files into a real Kafka: what foreign consumers read, lost answers, a broker that is away, claims that are lost."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import KafkaError, Producer
from pm_kafka_world import (
    FILE,
    MemoryCheckpoints,
    Row,
    batch_of,
    file_batches,
    headers_of,
    lost_answer,
    messages_of,
    ordered,
    settings_of,
    truth,
)
from waiting import eventually

from headrace.errors import ClaimLost, OperatorError, TooLarge, Unreachable
from headrace.testing.rig.proxy import Proxy
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.counters.row_digest import DIGEST_MODULUS, batch_digest
from headrace_pm.kafka.checkpoints import AcknowledgedPrefix, BatchShare, Checkpoint
from headrace_pm.kafka.delivery import BatchDelivery, DeliveryRoom
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import CounterProducer, open_producer
from headrace_pm.kafka.sink import KafkaSink

FORMS = list(RecordForm)
NETWORK_S = 20.0


def whole(batches: list[CounterBatch]) -> Checkpoint:
    digest = sum(map(batch_digest, batches)) % DIGEST_MODULUS
    return Checkpoint(len(batches), sum(map(len, batches)), digest)


def foreign_rows(topic_url: str) -> list[Row]:
    """The topic as somebody reads it who knows only what is promised of the form json: one document for each counter,
    the columns of the table, `record_time` in ms, `file`, `revision` and `batch`, the key is the NE. A batch that comes
    twice counts once."""
    seen: dict[tuple[str, int, int], dict[str, Row]] = {}
    for message in messages_of(topic_url):
        document = json.loads(message.value() or b"")
        assert (message.key() or b"") == str(document["ne_id"]).encode()
        batch = document.pop("file"), document.pop("revision"), document.pop("batch")
        seen.setdefault(batch, {})[json.dumps(document, sort_keys=True)] = document
    return ordered(row for rows in seen.values() for row in rows.values())


async def test_a_foreign_consumer_reads_every_counter_once(kafka_topic: str) -> None:
    checkpoints, batches = MemoryCheckpoints(), [batch_of(number) for number in range(4)]
    async with open_producer(settings_of(kafka_topic)) as producer:
        done = await KafkaSink(producer, checkpoints, RecordForm.JSON).write(FILE, file_batches(4))
    assert done == checkpoints.kept == whole(batches)
    assert foreign_rows(kafka_topic) == truth(batches)


async def test_a_batch_is_one_record_in_the_form_of_clickhouse(kafka_topic: str) -> None:
    async with open_producer(settings_of(kafka_topic)) as producer:
        await KafkaSink(producer, MemoryCheckpoints(), RecordForm.ROW_BINARY).write(FILE, file_batches(4))
    found = messages_of(kafka_topic)
    assert [headers_of(each)["batch"] for each in found] == ["0", "1", "2", "3"]
    assert {(headers_of(each)["file"], headers_of(each)["revision"], each.key()) for each in found} == {
        (FILE.name, "2", b"11")
    }


async def test_a_file_goes_on_at_its_checkpoint(kafka_topic: str) -> None:
    batches = [batch_of(number) for number in range(5)]
    checkpoints = MemoryCheckpoints(kept=whole(batches[:3]))
    async with open_producer(settings_of(kafka_topic)) as producer:
        sink = KafkaSink(producer, checkpoints, RecordForm.ROW_BINARY)
        await sink.write(FILE, file_batches(5))
        assert sink.rows == sum(map(len, batches[3:])), "what the checkpoint had passed is not counted again"
    assert [headers_of(each)["batch"] for each in messages_of(kafka_topic)] == ["3", "4"]
    assert checkpoints.kept == whole(batches)


async def test_a_file_of_nothing_in_scope_is_done_without_a_record(kafka_topic: str) -> None:
    checkpoints = MemoryCheckpoints()
    async with open_producer(settings_of(kafka_topic)) as producer:
        sink = KafkaSink(producer, checkpoints, RecordForm.JSON)
        assert await sink.write(FILE, file_batches(2, counters=0)) == Checkpoint(2)
        assert await sink.write(FILE, file_batches(2)) == Checkpoint(2)
    assert messages_of(kafka_topic) == []


def test_a_checkpoint_does_not_pass_a_gap() -> None:
    shares = [BatchShare(number, 10, 1 << 63) for number in range(4)]
    prefix = AcknowledgedPrefix(Checkpoint(1, 10, 5))
    prefix.acknowledge(shares[3])
    prefix.acknowledge(shares[2])
    assert prefix.checkpoint == Checkpoint(1, 10, 5)
    prefix.acknowledge(shares[1])
    assert prefix.checkpoint == Checkpoint(4, 40, (5 + 3 * (1 << 63)) % DIGEST_MODULUS)


class GapIgnored(AcknowledgedPrefix):
    """The twin: it moves to whatever was acknowledged last."""

    def acknowledge(self, share: BatchShare) -> None:
        self.checkpoint = self.checkpoint.after(share)


def test_the_test_of_gaps_notices_a_checkpoint_that_ignores_them() -> None:
    prefix = GapIgnored(Checkpoint(1, 10, 5))
    prefix.acknowledge(BatchShare(3, 10, 0))
    assert prefix.checkpoint != Checkpoint(1, 10, 5)


@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_that_is_lost_loses_and_spends_nothing(
    kafka_topic: str, fault_proxy: Callable[[str], Proxy], form: RecordForm
) -> None:
    """The broker has the batch and its answer never comes: the client of Kafka asks again, and the broker knows it."""
    proxy = fault_proxy(kafka_topic)
    checkpoints, batches = MemoryCheckpoints(), [batch_of(number) for number in range(6)]
    async with open_producer(settings_of(proxy.url)) as producer:
        sink = KafkaSink(producer, checkpoints, form)
        proxy.cut_reply_to(b"mobility")
        async with asyncio.timeout(NETWORK_S):
            assert await sink.write(FILE, file_batches(6)) == whole(batches)
    assert proxy.cuts == 1
    if form is RecordForm.JSON:
        assert foreign_rows(kafka_topic) == truth(batches)
    else:
        assert {headers_of(each)["batch"] for each in messages_of(kafka_topic)} == set("012345")


@pytest.mark.parametrize("form", FORMS)
async def test_a_delivery_that_ran_out_of_time_is_sent_again(
    kafka_topic: str, fault_proxy: Callable[[str], Proxy], form: RecordForm
) -> None:
    """Longer away than the client has patience: the batches are unknown, not failed, and memory stays bounded."""
    proxy = fault_proxy(kafka_topic)
    settings = settings_of(proxy.url, kafka_delivery_timeout_s=1.0, kafka_parallel=3)
    checkpoints, batches = MemoryCheckpoints(), [batch_of(number) for number in range(8)]
    async with open_producer(settings) as producer:
        proxy.black_hole()
        writing = asyncio.ensure_future(KafkaSink(producer, checkpoints, form).write(FILE, file_batches(8)))
        await eventually(lambda: producer.unknown >= 3, "three deliveries ran out of time", NETWORK_S)
        assert producer.in_flight == 3
        assert checkpoints.saves == []
        assert not writing.done()
        proxy.heal()
        proxy.reset()
        async with asyncio.timeout(NETWORK_S):
            assert await writing == whole(batches)
    if form is RecordForm.JSON:
        assert foreign_rows(kafka_topic) == truth(batches)
    else:
        assert {headers_of(each)["batch"] for each in messages_of(kafka_topic)} == set("01234567")


class ErrorsIgnored(CounterProducer):
    """The twin: a report is a report, whatever it says."""

    def _settle(self, delivery: BatchDelivery) -> None:
        delivery.error = None
        super()._settle(delivery)


async def test_a_report_with_an_error_taken_for_an_acknowledgement_would_lose_batches(
    kafka_topic: str, fault_proxy: Callable[[str], Proxy]
) -> None:
    proxy = fault_proxy(kafka_topic)
    proxy.black_hole()
    producer = ErrorsIgnored(settings_of(proxy.url, kafka_delivery_timeout_s=1.0))
    async with asyncio.timeout(NETWORK_S):
        done = await KafkaSink(producer, MemoryCheckpoints(), RecordForm.ROW_BINARY).write(FILE, file_batches(2))
        await producer.close()
    assert done.next_batch == 2
    assert messages_of(kafka_topic) == []


async def test_a_checkpoint_follows_when_its_table_answers_again(kafka_topic: str) -> None:
    checkpoints = MemoryCheckpoints(fails=[lost_answer(), lost_answer()])
    async with open_producer(settings_of(kafka_topic)) as producer:
        await KafkaSink(producer, checkpoints, RecordForm.ROW_BINARY).write(FILE, file_batches(3))
    assert checkpoints.fails == []
    assert checkpoints.kept == whole([batch_of(number) for number in range(3)])


async def test_a_worker_that_lost_its_claim_stops(kafka_topic: str) -> None:
    """Another one has the file, with a higher epoch: the checkpoint is refused, and what was not sent stays so."""
    checkpoints, read = MemoryCheckpoints(epoch=FILE.epoch + 1), []

    def endless(since: int) -> Iterator[CounterBatch]:
        while True:
            read.append(since)
            yield batch_of(len(read) - 1)

    async with open_producer(settings_of(kafka_topic, kafka_parallel=2)) as producer:
        with pytest.raises(ClaimLost):
            async with asyncio.timeout(NETWORK_S):
                await KafkaSink(producer, checkpoints, RecordForm.ROW_BINARY).write(FILE, endless)
    assert checkpoints.saves == []


class Unfenced(MemoryCheckpoints):
    """The twin: whoever saves, saves."""

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        await super().save(file_id, sink, self.epoch, checkpoint)


async def test_without_the_fence_a_lost_worker_would_move_the_checkpoint(kafka_topic: str) -> None:
    checkpoints = Unfenced(epoch=FILE.epoch + 1)
    async with open_producer(settings_of(kafka_topic)) as producer:
        await KafkaSink(producer, checkpoints, RecordForm.ROW_BINARY).write(FILE, file_batches(2))
    assert checkpoints.saves != []


async def test_a_batch_that_no_broker_takes_is_told_and_not_repeated(kafka_topic: str) -> None:
    batch = batch_of(0, 2)
    extra = tuple(b'{"noise":"%b"}' % os.urandom(1_500_000).hex().encode() for _ in range(2))
    large = replace(batch, objects=replace(batch.objects, extra_field=extra))
    async with open_producer(settings_of(kafka_topic)) as producer:
        with pytest.raises(TooLarge, match="bytes"):
            await KafkaSink(producer, MemoryCheckpoints(), RecordForm.ROW_BINARY).write(FILE, lambda _: iter([large]))
        assert producer.in_flight == 0


async def test_the_end_is_bounded_and_says_what_is_left(kafka_topic: str, fault_proxy: Callable[[str], Proxy]) -> None:
    proxy = fault_proxy(kafka_topic)
    proxy.black_hole()
    producer = CounterProducer(settings_of(proxy.url, kafka_close_s=0.2, kafka_parallel=4))
    writing = asyncio.ensure_future(
        KafkaSink(producer, MemoryCheckpoints(), RecordForm.ROW_BINARY).write(FILE, file_batches(9))
    )
    await eventually(lambda: producer.in_flight == 4, "the room is full")
    async with asyncio.timeout(NETWORK_S):
        assert await producer.close() == 4
        with pytest.raises(Unreachable, match="closed"):
            await writing


class BreakingProducer:
    """A client that breaks for good at its first record, as librdkafka does when its sequence is lost."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._reports: list[Callable[..., None]] = []

    def produce(self, topic: str, value: bytes, key: bytes, *, headers: Any, on_delivery: Callable[..., None]) -> None:
        self._reports.append(on_delivery)

    def poll(self, wait_s: float) -> None:
        reports, self._reports = self._reports, []
        for report in reports:
            report(KafkaError(KafkaError._FATAL, "the sequence is lost", True), None)

    def purge(self) -> None:
        """What it held has been told of."""

    def flush(self, wait_s: float) -> int:
        self.poll(0)
        return 0


async def test_a_client_that_broke_for_good_is_replaced_once(kafka_topic: str) -> None:
    made: list[Any] = []

    def connect(options: dict[str, Any]) -> Any:
        made.append(BreakingProducer(options) if not made else Producer(options))
        return made[-1]

    async with open_producer(settings_of(kafka_topic), connect) as producer:
        async with asyncio.timeout(NETWORK_S):
            await KafkaSink(producer, MemoryCheckpoints(), RecordForm.ROW_BINARY).write(FILE, file_batches(4))
    assert len(made) == 2
    assert {headers_of(each)["batch"] for each in messages_of(kafka_topic)} == set("0123")


async def test_health_tells_a_missing_topic_from_a_missing_broker(kafka_topic: str) -> None:
    async with open_producer(settings_of(kafka_topic)) as producer:
        await producer.answers()
    async with open_producer(settings_of(f"kafka://{urlsplit(kafka_topic).netloc}/none@all")) as producer:
        with pytest.raises(OperatorError, match="no topic none@all"):
            await producer.answers()
    async with open_producer(settings_of()) as producer:
        with pytest.raises(Unreachable):
            await producer.answers()


async def test_room_is_given_in_order_and_a_giant_goes_alone() -> None:
    room, entered = DeliveryRoom(2, 100), []

    async def enter(size: int) -> None:
        await room.take(size)
        entered.append(size)

    await enter(60)
    waiting = [asyncio.ensure_future(enter(size)) for size in (500, 30, 20)]
    await eventually(lambda: len(room._waiting) == 3, "all of them wait")
    waiting[1].cancel()
    await asyncio.wait([waiting[1]])
    assert entered == [60], "a small one does not pass a large one before it"
    room.give_back(60)
    await waiting[0]
    assert (entered, room.batches, room.bytes) == ([60, 500], 1, 500)
    room.give_back(500)
    await waiting[2]
    assert entered == [60, 500, 20]
