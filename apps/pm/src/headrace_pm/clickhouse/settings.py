"""What the environment says about the way from Kafka into ClickHouse."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from headrace.services import setting
from headrace_pm.kafka.settings import MEBIBYTE, KafkaSettings

DATABASE = "default"
URL = "http://127.0.0.1:8123"
HTTP_PORT = 8091
SCHEMES = ("http", "https")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("is no address: http://HOST:PORT or http://HOST:PORT/DATABASE")
    return text


@dataclass(frozen=True, slots=True)
class ClickHouseSettings(KafkaSettings):
    """Where blocks go, and when a block is large enough."""

    clickhouse_url: str = setting(
        "",
        "ClickHouse as http://HOST:PORT/DATABASE or http://USER:PASSWORD@HOST:PORT/DATABASE",
        secret=True,
        parse=_url,
        without=f"`{URL}`",
    )
    clickhouse_group: str = setting("pm-clickhouse", "the consumer group that shares the topic's partitions")
    clickhouse_block_rows: int = setting(200_000, "a block is written with so many rows", low=1, high=1_000_000)
    clickhouse_block_bytes: int = setting(
        32 * MEBIBYTE, "or when records of so many bytes wait, in each process", low=MEBIBYTE, high=1_024 * MEBIBYTE
    )
    clickhouse_block_s: float = setting(5.0, "or when its first record waits for so long", low=0.05, high=600.0)
    clickhouse_session_s: float = setting(
        15.0,
        "partitions of a process that was killed go to others after so long; brokers allow 6 s or more by default",
        low=1.0,
        high=300.0,
    )
    clickhouse_timeout_s: float = setting(
        60.0, "a request without an answer for so long is made again", low=1.0, high=240.0
    )

    @property
    def clickhouse(self) -> SplitResult:
        return urlsplit(self.clickhouse_url or URL)

    @property
    def clickhouse_database(self) -> str:
        return self.clickhouse.path.strip("/") or DATABASE
