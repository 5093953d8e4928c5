"""What the environment says about Kafka. Read once, at the edge."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.services import HttpSettings, setting
from headrace_pm.kafka.forms import RecordForm

PREFIX = "PM_"
MEBIBYTE = 1 << 20


def _form(text: str) -> RecordForm:
    try:
        return RecordForm(text.lower())
    except ValueError:
        raise ValueError(f"is no form: {' or '.join(RecordForm)}") from None


@dataclass(frozen=True, slots=True)
class KafkaSettings(HttpSettings):
    """Where records go, and how many may wait for their delivery reports."""

    kafka_bootstrap: str = setting("127.0.0.1:9092", "brokers as HOST:PORT, separated by commas")
    kafka_topic: str = setting("pm.counters", "the topic of counters")
    kafka_form: RecordForm = setting(
        RecordForm.JSON, "`json`: one record for each counter; `rowbinary`: one for each batch", parse=_form
    )
    kafka_parallel: int = setting(
        10, "batches that wait for their delivery reports, in each process", low=1, high=1_000
    )
    kafka_queue_bytes: int = setting(
        16 * MEBIBYTE, "bytes of records that wait for their delivery reports, in each process", low=MEBIBYTE
    )
    kafka_delivery_timeout_s: float = setting(
        120.0, "a record without a report for so long is sent again", low=1.0, high=3_600.0
    )
    kafka_close_s: float = setting(5.0, "seconds that the end waits for reports", low=0.0, high=60.0)
