"""Making the topic of counters where it is missing."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.errors import OperatorError, Unreachable
from headrace_pm.kafka.settings import KafkaSettings

ANSWER_S_MAX = 20.0


def make_topic(settings: KafkaSettings, partitions: int = 1) -> bool:
    """Make the topic; whether it was missing."""
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 0})
    asked = admin.create_topics([NewTopic(settings.kafka_topic, partitions)], operation_timeout=ANSWER_S_MAX)
    try:
        asked[settings.kafka_topic].result(ANSWER_S_MAX)
    except KafkaException as error:
        told: KafkaError = error.args[0]
        if told.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if told.retriable():
            raise Unreachable(f"Kafka does not answer: {told.str()}", "is PM_KAFKA_BOOTSTRAP right?") from None
        raise OperatorError(f"Kafka does not make {settings.kafka_topic}: {told.str()}") from None
    except TimeoutError:
        raise Unreachable("Kafka does not answer", "is PM_KAFKA_BOOTSTRAP right?") from None
    return True
