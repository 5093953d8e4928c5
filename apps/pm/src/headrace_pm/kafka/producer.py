"""The producer of a process: bounded, idempotent, and patient.

A report with an error does not say that a record is not there: its answer may have been lost. So it is *unknown*, and
the whole batch is sent again, for as long as its file is wanted; no attempt of the file is spent on a broker that is
away. Only what would be refused for ever (a record that is too large, or invalid) fails. A client that has broken for
good is replaced by a new one. A batch has its place in the room until the broker has it, so nothing grows meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.errors import OperatorError, TooLarge, Unreachable
from headrace.services import Pauses
from headrace_pm.kafka.delivery import BatchDelivery, DeliveryBridge, DeliveryRoom
from headrace_pm.kafka.records import RecordRefused
from headrace_pm.kafka.settings import KafkaSettings
from headrace_pm.kafka.trials import RecordTrials

POLL_S = 0.1
ANSWER_S_MAX = 2.0
# Batches are large already, so waiting for more of them gains little.
LINGER_MS = 5
# Records of the room, and the same again for those that are sent twice; the room is what bounds.
QUEUE_RECORDS_MAX = 1_000_000
RECORD_BYTES_MAX = 64 << 20
REFUSED_FOR_EVER = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD}
log = structlog.get_logger("headrace_pm.kafka")

Connect = Callable[[dict[str, Any]], Producer]


class CounterProducer:
    """Sends batches to one topic. `unknown` counts deliveries whose outcome was not known, and that were sent again."""

    def __init__(self, settings: KafkaSettings, connect: Connect = Producer) -> None:
        self._settings, self._connect = settings, connect
        self._room = DeliveryRoom(settings.kafka_parallel, settings.kafka_queue_bytes)
        self._bridge = DeliveryBridge(self._settle)
        self._again: list[BatchDelivery] = []
        self._pauses = Pauses()
        self._timer: asyncio.TimerHandle | None = None
        self.unknown = 0
        self._is_closed = threading.Event()
        self._trials = RecordTrials(
            settings.kafka_topic, lambda: connect(self._options()), self._tried, self._is_closed
        )
        self._client = connect(self._options())
        self._polling = threading.Thread(target=self._poll, name="pm-kafka-reports", daemon=True)
        self._polling.start()

    @property
    def in_flight(self) -> int:
        """Batches without their reports."""
        return self._room.batches

    async def send(self, delivery: BatchDelivery) -> None:
        """Hand over a batch, as soon as there is room for it."""
        await self._room.take(delivery.records.size)
        if self._is_closed.is_set():
            self._room.give_back(delivery.records.size)
            raise Unreachable("the Kafka producer is closed")
        self._produce(delivery)

    async def answers(self) -> None:
        """`Unreachable` if no broker answers, or there is no such topic."""
        await asyncio.to_thread(check_topic, self._client, self._settings.kafka_topic)

    async def close(self) -> int:
        """Wait for reports, but not longer than is set; how many batches have none. They were not acknowledged, so no
        checkpoint has passed them, and the next one who writes their files sends them again."""
        if self._timer is not None:
            self._timer.cancel()
        self._is_closed.set()
        await self._trials.close()
        await asyncio.to_thread(self._polling.join)
        await asyncio.to_thread(self._client.flush, self._settings.kafka_close_s)
        # Reports that came during the flush are on their way to this loop.
        await asyncio.sleep(0)
        left = self._room.batches
        if left:
            log.warning("kafka.closed_with_batches_left", batches=left)
            self._client.purge()
            await asyncio.to_thread(self._client.flush, ANSWER_S_MAX)
            await asyncio.sleep(0)
        for delivery in self._again:
            self._give_up(delivery)
        # There is nothing left in it that it could wait for.
        await asyncio.to_thread(self._client.close)
        return left

    def _give_up(self, delivery: BatchDelivery) -> None:
        self._room.give_back(delivery.records.size)
        delivery.failed(Unreachable("the Kafka producer was closed before the broker acknowledged a batch"))

    def _produce(self, delivery: BatchDelivery) -> None:
        records, topic = delivery.records, self._settings.kafka_topic
        delivery.begin(self._client)
        report = self._bridge.reporter(delivery)
        try:
            if records.headers:
                headers: list[tuple[str, str | bytes | None]] = [*records.headers]
                for value in records.values:
                    self._client.produce(topic, value, records.key, headers=headers, on_delivery=report)
                return
            messages: list[dict[str, Any]] = [{"value": value, "key": records.key} for value in records.values]
            self._client.produce_batch(topic, messages, on_delivery=report)
            refused = [message["_error"] for message in messages if "_error" in message]
            if refused and delivery.report(refused[0], len(refused)):
                self._bridge.end(delivery)
        except BufferError:
            delivery.error = KafkaError(KafkaError._QUEUE_FULL)
            self._bridge.end(delivery)
        except KafkaException as error:
            delivery.error = error.args[0]
            self._bridge.end(delivery)

    def _settle(self, delivery: BatchDelivery) -> None:
        error = delivery.error
        if error is None:
            self._pauses.reset()
            self._room.give_back(delivery.records.size)
            delivery.acknowledged()
        elif not delivery.wanted():
            self._room.give_back(delivery.records.size)
        elif self._is_closed.is_set():
            self._give_up(delivery)
        elif error.code() in REFUSED_FOR_EVER:
            self._trials.add(delivery)
        else:
            self._send_again(delivery, error)

    def _tried(self, delivery: BatchDelivery, error: KafkaError | None) -> None:
        """It was sent alone: now an error is its own."""
        if error is not None and error.code() in REFUSED_FOR_EVER and delivery.wanted():
            self._room.give_back(delivery.records.size)
            delivery.failed(_refusal(error, delivery.records.size))
            return
        delivery.error = error
        self._settle(delivery)

    def _send_again(self, delivery: BatchDelivery, error: KafkaError) -> None:
        self.unknown += 1
        self._again.append(delivery)
        # Those that were in the same client fail for the same reason, and it is replaced once.
        if delivery.carrier is self._client and (error.fatal() or error.code() == KafkaError._FATAL):
            self._replace_client(error)
        if len(self._again) == 1:
            pause_s = self._pauses.next_s()
            log.warning("kafka.delivery_unknown", error=error.str(), again_after_s=round(pause_s, 3))
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._resend)

    def _resend(self) -> None:
        again, self._again = self._again, []
        for delivery in again:
            if delivery.wanted():
                self._produce(delivery)
            else:
                self._room.give_back(delivery.records.size)

    def _replace_client(self, error: KafkaError) -> None:
        """Its state is broken and it will take nothing more: everything in it ends with an error, and is sent again by
        the new one."""
        broken, self._client = self._client, self._connect(self._options())
        log.error("kafka.client_replaced", error=error.str())
        broken.purge()
        # Its last reports are fetched once more; whoever waits for them would wait for ever.
        threading.Thread(target=lambda: broken.flush(ANSWER_S_MAX), name="pm-kafka-broken", daemon=True).start()

    def _poll(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._client.poll(POLL_S)
            except Exception:  # without this thread no batch would ever be acknowledged, and nobody would know why
                log.exception("kafka.poll_failed")
                self._is_closed.wait(POLL_S)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "bootstrap.servers": settings.kafka_bootstrap,
            "client.id": "headrace-pm",
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": LINGER_MS,
            "delivery.timeout.ms": int(settings.kafka_delivery_timeout_s * 1_000),
            "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
            "queue.buffering.max.kbytes": 4 * settings.kafka_queue_bytes >> 10,
            # What is too large is for the broker to say, which knows the size after compression.
            "message.max.bytes": RECORD_BYTES_MAX,
            "reconnect.backoff.max.ms": 1_000,
            # What it logs comes by its errors, too.
            "log_level": 0,
            "error_cb": log_error,
        }


@asynccontextmanager
async def open_producer(settings: KafkaSettings, connect: Connect = Producer) -> AsyncIterator[CounterProducer]:
    """A producer for as long as the block runs."""
    producer = CounterProducer(settings, connect)
    try:
        yield producer
    finally:
        await producer.close()


def log_error(error: KafkaError) -> None:
    """What a client of Kafka tells beside its answers. It tries to connect many times a second: one line is enough for
    a whole round of brokers."""
    told = error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN
    (log.warning if told else log.debug)("kafka.client", error=error.str())


def check_topic(client: Any, topic: str) -> None:
    """`Unreachable` if no broker answers, `OperatorError` if there is no such topic."""
    with contextlib.suppress(UnicodeDecodeError):
        try:
            found = client.list_topics(topic, timeout=ANSWER_S_MAX).topics[topic]
        except KafkaException as error:
            raise Unreachable(f"Kafka does not answer: {error.args[0].str()}", "is PM_KAFKA_BOOTSTRAP right?") from None
        if found.error is not None:
            raise OperatorError(f"Kafka has no topic {topic}: {found.error.str()}", "make it, or set PM_KAFKA_TOPIC")


def _refusal(error: KafkaError, size: int) -> Exception:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        hint = "lower PM_BATCH, or raise max.message.bytes of the topic"
        return TooLarge(f"Kafka refuses a batch of {size:,} bytes: {error.str()}", hint)
    return RecordRefused(f"Kafka refuses a record: {error.str()}", "see the log of the broker, then headrace pm redo")
