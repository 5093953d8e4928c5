"""What the environment says. Read once, at the edge; every part that is not named has its embedded form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from headrace.services import HttpSettings, setting, whole_environment
from headrace_matching.events.names import EXCHANGE

PREFIX = "MATCHING_"
HTTP_PORTS = {
    "api": 8085,
    "products": 8101,
    "videos": 8102,
    "embedding": 8103,
    "keypoint": 8104,
    "matcher": 8105,
    "evidence": 8106,
}
DATABASE_FILE = "matching.db"
UUID7, ANY = "uuid7", "any"


def _dsn(text: str) -> str:
    """A URL only: the store would take the other form, `host=… password=…`, for the name of a file."""
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("is not the URL of a PostgreSQL: postgresql://user:password@host/database")
    return text


def _event_ids(text: str) -> str:
    if text not in (UUID7, ANY):
        raise ValueError(f"is {UUID7} or {ANY}")
    return text


def _api_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no address: http://host:port")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class MatchingSettings(HttpSettings):
    """The settings that all services share. `environment` is for what a part or a child process reads by itself."""

    http_port: int | None = setting(
        None,
        "the port to listen on, 0: any that is free; `up` takes seven from there on",
        low=0,
        high=65_535,
        without="8085; workers 8101 to 8106",
    )
    amqp_url: str = setting("", "RabbitMQ", secret=True, without="a bus in the store")
    exchange: str = setting(EXCHANGE, "the topic exchange of the events")
    pg_dsn: str = setting(
        "",
        "PostgreSQL 15 or later, as a `postgresql://` URL",
        secret=True,
        without="a SQLite file in `MATCHING_HOME`",
        parse=_dsn,
    )
    s3_url: str = setting(
        "",
        "`http://host:port/bucket`, with keys by `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`; the bucket is made",
        secret=True,
        without="`MATCHING_HOME/blobs`",
    )
    home: Path = setting(Path("matching-data"), "where embedded parts live")
    api_url: str = setting("http://127.0.0.1:8085", "where services other than `api` find the Main API", parse=_api_url)
    folders: tuple[str, ...] = setting(
        (), "directories below which a source of the type `folder` may lie", without="none: such sources are refused"
    )
    lookback_s: float = setting(
        30.0, "an event for a job that is not known waits so long before it is refused", low=0.0, high=86_400.0
    )
    event_ids: str = setting(
        UUID7, "`any` also takes event ids that are UUIDs of other versions, with a warning", parse=_event_ids
    )
    phase_deadline_s: float | None = setting(
        None,
        "a job whose phase lasts longer fails, with the names of the events that are missing",
        low=0.1,
        without="off",
    )
    environment: Mapping[str, str] = whole_environment()

    @property
    def engine_url(self) -> str:
        """Where the tables and headrace's own account are kept."""
        return self.pg_dsn or f"sqlite:///{self.home / DATABASE_FILE}"

    @property
    def any_event_ids(self) -> bool:
        return self.event_ids == ANY
