"""How a keyspace is reached, and which consistency each kind of operation has: one table of settings.

A conditional write commits at the `write` level of its operation and is decided at the keyspace's serial level. A read
of the operation `lock` is a serial read: it finishes or supersedes what an earlier write left half done. One of `seen`
need only see what was reported to whoever wrote it: where locks are decided in one data centre and committed to a
majority of it, a plain read of a majority does, for a third of what a serial read costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.core.errors import CallerError
from headrace.core.redaction import redacted

FORM = "cassandra://user:password@host1,host2:9042/keyspace?local_dc=datacenter1"
PORT = 9042
# Identifiers cannot be bound as values; what is written into a statement is one of these.
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,47}")


class Serial(StrEnum):
    """The two kinds of serial consistency. Two clients that use different ones do not exclude each other."""

    LOCAL = "LOCAL_SERIAL"
    GLOBAL = "SERIAL"


class Level(StrEnum):
    """The regular consistency levels that make sense here."""

    ONE = "ONE"
    LOCAL_ONE = "LOCAL_ONE"
    QUORUM = "QUORUM"
    LOCAL_QUORUM = "LOCAL_QUORUM"
    EACH_QUORUM = "EACH_QUORUM"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of one kind of operation. `read` None: the keyspace's serial level."""

    read: Level | None
    write: Level


LOCK, SEEN, QUEUE, HISTORY, SETTINGS = "lock", "seen", "queue", "history", "settings"
_MAJORITIES = frozenset({Level.QUORUM, Level.LOCAL_QUORUM, Level.EACH_QUORUM, Level.ALL})
CONSISTENCY: Mapping[str, Levels] = {
    LOCK: Levels(None, Level.LOCAL_QUORUM),
    SEEN: Levels(Level.LOCAL_QUORUM, Level.LOCAL_QUORUM),
    QUEUE: Levels(Level.LOCAL_QUORUM, Level.LOCAL_QUORUM),
    HISTORY: Levels(Level.LOCAL_QUORUM, Level.LOCAL_QUORUM),
    # Written once, when a keyspace is made.
    SETTINGS: Levels(Level.LOCAL_QUORUM, Level.QUORUM),
}


FIXED = frozenset({("read", LOCK), ("read", SEEN), ("write", SEEN)})
"""What follows from the rest."""


@dataclass(frozen=True, slots=True)
class CassandraOptions:
    """Where the keyspace is and how it is used. `block_size` tokens of a lock are drawn at a time; `timeout_s` is what
    a statement may take, `connect_timeout_s` each step of connecting; `in_flight_max` statements are sent ahead of
    their answers, whose rows come in pages of `page_rows`; an answer of more than `rows_max` is refused. A Cassandra
    before 4.0 speaks `protocol_version` 4."""

    keyspace: str
    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = PORT
    local_dc: str = "datacenter1"
    username: str = ""
    password: str = field(default="", repr=False)
    serial: Serial = Serial.LOCAL
    block_size: int = 100
    timeout_s: float = 5.0
    connect_timeout_s: float = 5.0
    in_flight_max: int = 512
    page_rows: int = 1_000
    rows_max: int = 100_000
    protocol_version: int = 5
    consistency: Mapping[str, Levels] = field(default_factory=lambda: CONSISTENCY)

    def __post_init__(self) -> None:
        identifier(self.keyspace)
        if self.block_size < 1:
            raise CallerError("block_size is at least 1")
        if min(self.timeout_s, self.connect_timeout_s, self.in_flight_max, self.page_rows, self.rows_max) <= 0:
            raise CallerError("timeouts, in_flight_max, page_rows and rows_max are above 0")

    def levels(self, operation: str, *, reads: bool) -> tuple[Level | Serial, Serial]:
        """The regular and the serial consistency of a statement."""
        # The table that records the kind of serial consistency cannot depend on it.
        serial = Serial.GLOBAL if operation == SETTINGS else self.serial
        row = self.consistency[operation]
        if operation == SEEN and not (serial is Serial.LOCAL and self.consistency[LOCK].write in _MAJORITIES):
            row = self.consistency[LOCK]
        return (row.read or serial) if reads else row.write, serial

    @classmethod
    def of(cls, url: str) -> CassandraOptions:
        """Understand a URL, or say how one looks."""
        try:
            parts = urlsplit(url)
            user, _, place = parts.netloc.rpartition("@")
            hosts, _, port = place.partition(":")
            name, _, password = user.partition(":")
            asked = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
            if parts.scheme != "cassandra" or not all(hosts.split(",")):
                raise ValueError("it names no host of a Cassandra")
            return cls(
                parts.path.removeprefix("/"),
                tuple(hosts.split(",")),
                int(port or PORT),
                username=unquote(name),
                password=unquote(password),
                **_settings(asked),
            )
        except ValueError as error:
            raise CallerError(f"{redacted(url)} is not the URL of a keyspace: {error}", f"write {FORM}") from None


def identifier(name: str) -> str:
    """The name of a keyspace, as it may be written into a statement."""
    if not _IDENTIFIER.fullmatch(name):
        raise CallerError(f"{name!r} is no name of a keyspace", "lower-case letters, digits and _, at most 48")
    return name


def _settings(asked: dict[str, str]) -> dict[str, Any]:
    """The options of a URL by their names; `read.history=ONE` changes one cell of the table of consistencies."""
    taken: dict[str, Any] = {}
    table = dict(CONSISTENCY)
    readers: dict[str, Callable[[str], Any]] = {
        "local_dc": str,
        "serial": Serial,
        "block_size": int,
        "timeout_s": float,
        "in_flight_max": int,
    }
    for name, value in asked.items():
        way, _, operation = name.partition(".")
        if name in readers:
            taken[name] = readers[name](value)
        elif way in ("read", "write") and operation in table and (way, operation) not in FIXED:
            was = table[operation]
            table[operation] = Levels(Level(value), was.write) if way == "read" else Levels(was.read, Level(value))
        else:
            raise ValueError(f"there is no option {name}")
    return {**taken, "consistency": table}
