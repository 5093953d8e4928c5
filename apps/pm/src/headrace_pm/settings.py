"""What the environment says of the whole application; read once, at the edge.

Without `PM_MYSQL_DSN` nothing has to be installed: tables are in a SQLite file of `PM_HOME`, the second sink writes
Parquet files there, and the table answers what Redis would.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from headrace.services import setting
from headrace_pm.clickhouse.settings import HTTP_PORT as CLICKHOUSE_PORT
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.ftp.settings import FtpSettings

HTTP_PORTS = {"all": 8090, "clickhouse": CLICKHOUSE_PORT, "scan": 8092, "worker": 8093, "mover": 8094, "shadow": 8095}
DATABASE_FILE = "pm.db"
# Claims, renewals and settlements are not to wait behind rows.
LANES_BESIDE = 4
MEBIBYTE = 1 << 20


def _dsn(text: str) -> str:
    if urlsplit(text).scheme != "mysql":
        raise ValueError("is no address: mysql://USER:PASSWORD@HOST:PORT/DATABASE")
    return text


def _redis(text: str) -> str:
    if urlsplit(text).scheme not in ("redis", "rediss", "unix"):
        raise ValueError("is no address: redis://HOST:PORT/DATABASE")
    return text


@dataclass(frozen=True)
class PmSettings(ClickHouseSettings, FtpSettings):
    """All settings of pm, with the prefix `PM_`."""

    mysql_dsn: str = setting(
        "",
        "MySQL or MariaDB as mysql://USER:PASSWORD@HOST:PORT/DATABASE",
        secret=True,
        parse=_dsn,
        without="SQLite and Parquet files in `PM_HOME`",
    )
    kafka_topic_after_mysql: str = setting(
        "", "a second topic, for records whose rows are in MySQL; their file is done when it has them", without="none"
    )
    redis_url: str = setting(
        "",
        "Redis as redis://HOST:PORT/DATABASE",
        secret=True,
        parse=_redis,
        without="none: the table says which names are known",
    )
    redis_password: str = setting(
        "", "its password, if the URL has none", secret=True, without="none", variable="REDIS_PASSWORD"
    )
    redis_connections: int = setting(20, "connections to Redis, at most", low=1, high=1_000)
    redis_timeout_s: float = setting(3.0, "how long Redis may take for an answer", low=0.1, high=60.0)
    home: Path = setting(Path("pm-data"), "where everything is if there is no MySQL")
    scan_interval_s: float = setting(10.0, "seconds between two looks at a folder", low=0.1, high=86_400.0)
    move_interval_s: float = setting(30.0, "seconds between two rounds of moving files", low=0.1, high=86_400.0)
    recover_interval_s: float = setting(
        300.0, "seconds between two looks for files that are stuck or may be tried again", low=0.1, high=86_400.0
    )
    dictionary_interval_s: float = setting(
        60.0, "seconds between two looks at servers and dictionaries in the tables", low=0.1, high=86_400.0
    )
    keep_days: int = setting(
        30,
        "days after which the row of a file that was moved is deleted, with what belongs to it; 0: never",
        low=0,
        high=36_500,
    )
    max_retry: int = setting(3, "`max_retry` of files that the scan registers", low=1, high=1_000)
    batch: int = setting(
        1_000,
        "counters in a batch; what was begun with another number is written from its beginning",
        low=1,
        high=9_000,
    )
    files_parallel: int = setting(20, "files that one process works on at a time", low=1, high=1_000)
    lease_s: float = setting(30.0, "a file is held for so long without a renewal", low=1.0, high=3_600.0)
    mysql_parallel: int = setting(5, "transactions of rows at a time, in each process", low=1, high=100)
    sink_wait_s: float = setting(
        10.0,
        "a sink that acknowledges nothing for so long is away: files wait, and the other goes on",
        low=0.5,
        high=600.0,
    )
    memory_max_bytes: int = setting(
        512 * MEBIBYTE, "with more memory than this (RssAnon) a process takes no new files", low=16 * MEBIBYTE
    )
    shadow_topic: str = setting("pm.counters.shadow", "the topic of `headrace pm shadow`")

    @property
    def is_embedded(self) -> bool:
        return not self.mysql_dsn

    @property
    def tables_url(self) -> str:
        """Where the tables are."""
        if self.is_embedded:
            return f"sqlite:///{self.home.absolute() / DATABASE_FILE}"
        parts = urlsplit(self.mysql_dsn)
        if "lanes=" in parts.query:
            return self.mysql_dsn
        lanes = f"lanes={self.mysql_parallel + LANES_BESIDE}"
        return parts._replace(query=f"{parts.query}&{lanes}" if parts.query else lanes).geturl()
