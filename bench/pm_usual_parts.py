"""What the two baselines have in common: counters by attributes of pycapnp, rows one by one into MySQL and Kafka.

Nothing here is slow on purpose. Where the text says nothing the quicker way was taken: one connection to MySQL for each
thread, a commit for every 1,000 rows, one producer for all threads, moves over a connection that stays.
"""

from __future__ import annotations

import ftplib
import json
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import capnp
import pymysql
from confluent_kafka import Producer

from headrace_pm.counters.dictionary import LEVEL_COLUMN
from headrace_pm.counters.dictionary_files import read_dictionary
from headrace_pm.wire import counter_file

SCHEMA = Path(counter_file.__file__).with_name("counter.capnp")
PATH, FIRST_STOP, LAST_STOP = "/Access/5G/Others/", "ClickHouse/", "ClickHouse/Done/"
BATCH = 1_000
ENDED_S_MAX = 600.0
COLUMNS = (
    *("ne_id", "record_time", "duration", "counter_id", "counter_value", "group_code", "rat_type"),
    *("cell_index", "obj_hash", "extra_field", "version"),
)
INSERT = (
    f"INSERT INTO pm_counter_data ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))}) "
    "ON DUPLICATE KEY UPDATE counter_value = VALUES(counter_value)"
)
OPTIONS = {"enable.idempotence": True, "acks": "all", "compression.type": "lz4", "linger.ms": 5, "log_level": 0}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlowOrders:
    """Where a baseline finds its servers and dictionaries, and how many files it is to take in. `files_made` is a
    folder of all of them, for one that takes none from the server."""

    ftp: str
    mysql: str
    topic: str
    dictionaries: str
    files_made: str
    files: int


class AttributeReader:
    """A file in memory becomes rows, field by field."""

    def __init__(self, dictionaries: Path) -> None:
        capnp.remove_import_hook()
        self._schema: Any = capnp.load(str(SCHEMA))
        self._rows = read_dictionary(dictionaries)
        self._level = self._rows.extra_field_column[LEVEL_COLUMN]
        self._functions = {name.lower(): rat_type for name, rat_type in self._rows.node_function.items()}

    def rows(self, content: bytes) -> Iterator[Row]:
        with self._schema.CounterDataCollection.from_bytes(content, traversal_limit_in_words=1 << 40) as read:
            ne_id = self._rows.ne[read.unit]
            for each in read.data:
                location = each.location.strip()
                pairs = dict(piece.split("=", 1) for piece in location.split(",") if "=" in piece)
                extra = {key.strip().lower(): value.strip() for key, value in pairs.items()}
                fixed = {
                    "ne_id": ne_id,
                    "record_time": each.time,
                    "duration": each.duration,
                    "rat_type": self._functions.get(extra.get("nodefunction", "").lower(), ""),
                    "cell_index": each.cell,
                    "obj_hash": sha256(f"{location}|{each.cell}".encode()).hexdigest()[:16],
                    "extra_field": extra,
                    "version": 1,
                }
                for counter in each.data:
                    group = self._rows.counter_cat.get((counter.id, self._level))
                    if group is not None:
                        value = counter.value
                        shown = value if math.isfinite(value) else None
                        yield {**fixed, "counter_id": counter.id, "counter_value": shown, "group_code": group}


def in_batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    gathered: list[Row] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) == BATCH:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def as_values(row: Row) -> tuple[Any, ...]:
    """A row as the driver takes it."""
    changed = {
        "record_time": datetime.fromtimestamp(row["record_time"] / 1_000, UTC).replace(tzinfo=None),
        "obj_hash": int(row["obj_hash"], 16),
        "extra_field": json.dumps(row["extra_field"]),
    }
    return tuple(changed.get(name, row[name]) for name in COLUMNS)


def connected(url: str) -> Any:
    """The driver's usual connection."""
    place = urlsplit(url)
    return pymysql.connect(
        host=place.hostname,
        port=place.port or 0,
        user=place.username,
        password=place.password or "",
        database=place.path[1:],
        autocommit=False,
    )


class ThreadsOwn(threading.local):
    """A connection to MySQL for each thread."""

    def __init__(self, url: str) -> None:
        self.mysql = connected(url)


class RowProducer:
    """One JSON message for each row, by one producer."""

    def __init__(self, topic_url: str) -> None:
        place = urlsplit(topic_url)
        self._topic = place.path.lstrip("/")
        queue = {"queue.buffering.max.messages": 2_000_000}
        self._producer = Producer({**OPTIONS, **queue, "bootstrap.servers": place.netloc})

    def send(self, rows: list[Row]) -> None:
        """Returns when all of them are acknowledged."""
        acknowledged, left = threading.Event(), [len(rows)]

        def report(error: Any, _message: Any) -> None:
            assert error is None, error
            left[0] -= 1
            if left[0] == 0:
                acknowledged.set()

        for row in rows:
            self._producer.produce(self._topic, json.dumps(row).encode(), str(row["ne_id"]), on_delivery=report)
            self._producer.poll(0)
        while not acknowledged.is_set():
            self._producer.poll(0.01)


def logged_in(url: str) -> ftplib.FTP:
    place = urlsplit(url)
    client = ftplib.FTP(timeout=ENDED_S_MAX)
    client.connect(place.hostname or "", place.port or 0)
    client.login(place.username or "", place.password or "")
    return client


def fetched(client: ftplib.FTP, path: str) -> bytes:
    """A whole file in memory."""
    content = BytesIO()
    client.retrbinary(f"RETR {path}", content.write)
    return content.getvalue()


def listed(client: ftplib.FTP, folder: str) -> list[str]:
    """The paths of the files in a folder; servers differ in whether they name it."""
    names = {name.rpartition("/")[2] for name in client.nlst(folder)}
    return sorted(folder + name for name in names if name.endswith(".dat"))
