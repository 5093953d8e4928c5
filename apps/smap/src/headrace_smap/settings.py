"""What the environment says. Read once, at the edge; every part that is not named has its embedded form.

A setting that cannot work is refused with its name; nothing is guessed. What only one part knows is declared there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from headrace.errors import CallerError
from headrace.services import HttpSettings, setting, whole_environment
from headrace_smap.days import VIETNAM, zone_named
from headrace_smap.envelope import ANALYTICS_QUEUE

PREFIX = "SMAP_"
HTTP_PORTS = {"project": 8081, "collector": 8082, "analytics": 8083, "insight": 8084}
PREFETCH_MAX = 10_000
BATCH_MAX = 1_000
PLACE = "{project}"
_ADDRESS = re.compile(r"https?://[^\s/?#@{}\\]+[/?#]\S*", re.IGNORECASE)


def leads_to_project(address: str) -> bool:
    """Whether it is an address of the web, the project's place being behind the host, and nobody's password in it."""
    return bool(_ADDRESS.fullmatch(address)) and address.isprintable() and PLACE in address


def _report_url(text: str) -> str:
    """A page would run what begins with javascript."""
    if not leads_to_project(text):
        hint = f"write http(s)://host:port/projects/{PLACE}/report, without a password"
        raise CallerError("SMAP_REPORT_URL is not the address of a report", hint)
    return text


def _dsn(text: str) -> str:
    """A URL only: the store of headrace would take the other form, `host=… password=…`, for the name of a file."""
    if not text.startswith(("postgresql://", "postgres://")):
        hint = "write postgresql://user:password@host/database"
        raise CallerError("SMAP_PG_DSN is not the URL of a PostgreSQL", hint)
    return text


@dataclass(frozen=True, slots=True)
class SmapSettings(HttpSettings):
    """The settings that all services share. `environment` is for what a part or a child process reads by itself."""

    http_port: int | None = setting(
        None,
        "the port to listen on, 0: any that is free; `up` takes four from there on",
        low=0,
        high=65_535,
        without="8081 to 8084",
    )
    amqp_url: str = setting("", "RabbitMQ", secret=True, without="a bus in the store")
    redis_url: str = setting(
        "",
        "Redis; its database is 1 unless the URL says another, and never 0",
        secret=True,
        without="a count in the store",
    )
    s3_url: str = setting(
        "",
        "`https://host:port/bucket` (with the keys below) or `file:///directory`; without a bucket the first segment "
        "of a path names it",
        secret=True,
        without="`SMAP_HOME/blobs`",
    )
    pg_dsn: str = setting(
        "",
        "PostgreSQL 15 or later, as a `postgresql://` URL",
        secret=True,
        without="SQLite files in `SMAP_HOME`",
        parse=_dsn,
    )
    home: Path = setting(Path("smap-data"), "where embedded parts live")
    queue: str = setting(ANALYTICS_QUEUE, "the queue that analytics share")
    prefetch: int = setting(
        200,
        "most posts of one batch, for each of the `SMAP_WORKERS` batches; analytics take 1,000 at the most",
        low=1,
        high=PREFETCH_MAX,
    )
    workers: int = setting(4, "batches at a time", low=1, high=1_000)
    posts_max: int = setting(1_000_000, "most posts of a project", low=1)
    seal_idle_s: float | None = setting(None, "seal by itself when nothing moved for so long", low=0.0, without="off")
    reconcile_s: float = setting(1.0, "how often truth and count are compared", low=0.01)
    timezone: ZoneInfo = setting(
        VIETNAM,
        "the zone whose midnights divide days: of date ranges, reports, exports and notifications",
        parse=zone_named,
    )
    report_url: str = setting(
        "",
        "where the project service links to reports, such as `https://host/projects/{project}/report`; `up` knows it "
        "by itself",
        without="no link",
        parse=_report_url,
    )
    environment: Mapping[str, str] = whole_environment()

    @property
    def batch_max(self) -> int:
        """Most messages of one call."""
        return min(self.prefetch, BATCH_MAX)

    @property
    def engine_url(self) -> str:
        """Where smap's tables and headrace's own account are kept."""
        return self.pg_dsn or f"sqlite:///{self.home / 'smap.db'}"
