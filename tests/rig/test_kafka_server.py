"""Kafka: what is acknowledged stays, a repeated send counts once, and clients stay behind their proxy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient
from kafka_clients import DELIVERED_S_MAX, SILENT, produce, stored

from headrace.testing.rig.java import ARCHIVE
from headrace.testing.rig.kafka import KafkaServer
from headrace.testing.rig.kafka_requests import RequestRefused, delete_topic
from headrace.testing.rig.proxy import Proxy

UNKNOWN_TOPIC = 3


def test_its_classes_are_mapped_from_the_archive(kafka_server: KafkaServer) -> None:
    assert ARCHIVE in Path(f"/proc/{kafka_server.pid}/maps").read_text()


def test_acknowledged_records_survive_a_kill(kafka_topic: str, kafka_server: KafkaServer) -> None:
    sent = [f"record {number}".encode() for number in range(500)]
    assert produce(kafka_topic, sent) == [None] * len(sent)
    kafka_server.kill()
    kafka_server.start()
    assert stored(kafka_topic) == sent


@pytest.mark.parametrize(("idempotent", "copies"), [(True, 1), (False, 2)])
def test_a_record_whose_answer_was_lost_is_there_once_if_its_producer_is_idempotent(
    kafka_topic: str, fault_proxy: Callable[[str], Proxy], idempotent: bool, copies: int
) -> None:
    proxy = fault_proxy(kafka_topic)
    proxy.cut_reply_to(b"the payment")
    assert produce(proxy.url, [b"the payment"], idempotent) == [None]
    assert proxy.cuts == 1
    assert stored(kafka_topic) == [b"the payment"] * copies


def test_a_client_that_came_through_the_proxy_is_led_back_to_it(
    kafka_topic: str, kafka_server: KafkaServer, fault_proxy: Callable[[str], Proxy]
) -> None:
    proxy = fault_proxy(kafka_topic)
    for url, port in ((kafka_topic, kafka_server.port), (proxy.url, proxy.port)):
        told = AdminClient({**SILENT, "bootstrap.servers": urlsplit(url).netloc}).list_topics(timeout=DELIVERED_S_MAX)
        assert [(broker.host, broker.port) for broker in told.brokers.values()] == [("127.0.0.1", port)]


def test_a_topic_is_gone_with_its_block(kafka_server: KafkaServer) -> None:
    with kafka_server.topic(partitions=3) as url:
        name = urlsplit(url).path.lstrip("/")
        admin = AdminClient({**SILENT, "bootstrap.servers": urlsplit(url).netloc})
        assert len(admin.list_topics(name, timeout=DELIVERED_S_MAX).topics[name].partitions) == 3
    with pytest.raises(RequestRefused) as refused:
        delete_topic(("127.0.0.1", kafka_server.port), name)
    assert refused.value.code == UNKNOWN_TOPIC
