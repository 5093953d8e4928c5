"""A producer and a reader of Kafka by the URL of a topic."""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

DELIVERED_S_MAX = 60.0
# Its lines would go to stderr, past the test that they belong to.
SILENT = {"log_level": 0}


def produce(url: str, values: Iterable[bytes], idempotent: bool = True) -> list[KafkaError | None]:
    """Send all and wait; what became of each. A lost answer is soon asked for again."""
    place = urlsplit(url)
    options = {"bootstrap.servers": place.netloc, "enable.idempotence": idempotent, "acks": "all", "linger.ms": 0}
    producer = Producer({**SILENT, **options, "reconnect.backoff.ms": 10, "retry.backoff.ms": 10})
    told: list[KafkaError | None] = []

    def note(error: KafkaError | None, _: Message) -> None:
        told.append(error)

    for value in values:
        producer.produce(place.path.lstrip("/"), value, on_delivery=note)
    assert producer.flush(DELIVERED_S_MAX) == 0, "all have been told of"
    return told


def stored(url: str) -> list[bytes]:
    """All that the topic's only partition holds now, in order."""
    place = urlsplit(url)
    consumer = Consumer({**SILENT, "bootstrap.servers": place.netloc, "group.id": "rig", "enable.auto.commit": False})
    try:
        partition = TopicPartition(place.path.lstrip("/"), 0, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(partition, timeout=DELIVERED_S_MAX)
        consumer.assign([partition])
        found: list[bytes] = []
        deadline = time.monotonic() + DELIVERED_S_MAX
        while len(found) < end:
            assert time.monotonic() < deadline, f"{len(found)} of {end}"
            found += [message.value() or b"" for message in consumer.consume(end, timeout=1.0)]
        return found
    finally:
        consumer.close()
