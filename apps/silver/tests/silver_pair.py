"""One queue in two databases: the same tasks go into PostgreSQL and SQLite, and what became of them is read back alike.

Times that are "now" are left out, and so are messages, which may quote a database's own words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
from psycopg.types.json import set_json_loads

from headrace_silver.queue.consumer import ConsumedTasks, ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.silver_store import SilverStore, open_store

BAR = (
    "symbol trade_date open high low close volume vwap adj_close currency price_multiplier source first_seen_time "
    "content_hash"
)
COLUMNS = {
    "ta_silver": BAR,
    "sa_silver": "url_canonical source_domain publisher_time first_seen_time language title text_normalized "
    "content_hash symbols author topic_tags hype_raw hype_crowd hype_elitist account_weights_applied",
    "task_q": "id task_type payload status priority first_seen",
    "task_q_dlq": "id task_id reason rule_id payload",
    "silver_revision": BAR,
    "silver_reject_day": "reason rule_id count",
    "control_flags": "name value",
}
SEQUENCES = ("task_q_id_seq", "task_q_dlq_id_seq", "silver_revision_id_seq")
LISTS = {"symbols", "topic_tags"}
BOOLEANS = {"account_weights_applied", "value"}
PUT = "INSERT INTO task_q (task_type, payload, priority, first_seen) VALUES ({}, {}, {}, {})"
OLD_BAR = (
    "INSERT INTO ta_silver (symbol, trade_date, open, high, low, close, volume) "
    "VALUES ('VNM', '2024-02-29', 1, 1, 1, 1, 1)"
)
# Numbers as they are written: as doubles the two texts of one number could not be told from two numbers.
exactly = partial(json.loads, parse_float=Decimal, parse_int=Decimal)


class Sent(NamedTuple):
    """A task as a producer puts it: `payload` is JSON text."""

    kind: str
    payload: str
    priority: int
    first_seen: datetime


@dataclass(slots=True)
class Pair:
    postgres: psycopg.Connection[tuple[Any, ...]]
    sqlite: apsw.Connection
    stores: tuple[SilverStore, SilverStore]

    def empty(self) -> None:
        # Among tasks of one moment PostgreSQL takes those first that lie first, so the queue gets a new heap.
        self.postgres.execute("TRUNCATE task_q")
        self.postgres.execute("; ".join(f"DELETE FROM {table}" for table in COLUMNS).encode())
        self.postgres.execute("; ".join(f"SELECT setval('{name}', 1, false)" for name in SEQUENCES).encode())
        with self.sqlite:
            for table in (*COLUMNS, "sqlite_sequence"):
                self.sqlite.execute(f"DELETE FROM {table}")

    def put(self, tasks: Sequence[Sent]) -> None:
        with self.postgres.pipeline(), self.postgres.cursor() as cursor:
            cursor.executemany(PUT.format("%s", "%s::jsonb", "%s", "%s").encode(), tasks)
        with self.sqlite:
            rows = [(*task[:3], task.first_seen.isoformat(timespec="microseconds")) for task in tasks]
            self.sqlite.executemany(PUT.format("?", "?", "?", "?"), rows)

    def put_old_bar(self) -> None:
        """A bar that somebody else has written, who noted no first_seen_time."""
        self.postgres.execute(OLD_BAR)
        self.sqlite.execute(OLD_BAR)

    def consume(self, settings: ConsumeSettings, mode: Mode) -> list[ConsumedTasks]:
        """What the run on PostgreSQL and the run on SQLite say they did."""
        return [TaskConsumer(store, settings, mode, line=lambda _: None).run() for store in self.stores]

    def contents(self) -> list[dict[str, list[dict[str, Any]]]]:
        """All tables of PostgreSQL and all of SQLite."""
        return [
            {table: _rows(execute, table, columns.split()) for table, columns in COLUMNS.items()}
            for execute in (self.postgres.execute, self.sqlite.execute)
        ]


@contextmanager
def pair_of(url: str, path: Path) -> Iterator[Pair]:
    # Only a crash could tell the difference, and here none is made.
    hasty = f"{url}?options=-csynchronous_commit%3Doff"
    stores = open_store(hasty), open_store(str(path))
    for store in stores:
        store.create()
    with psycopg.connect(hasty, autocommit=True) as postgres:
        # As text, so that a string that holds JSON is not taken for it.
        set_json_loads(lambda text: text if isinstance(text, str) else text.decode(), postgres)
        postgres.execute("SET TIME ZONE 'UTC'")
        sqlite = apsw.Connection(str(path))
        sqlite.set_busy_timeout(5_000)
        yield Pair(postgres, sqlite, stores)
        sqlite.close()
    for store in stores:
        store.close()


def _rows(execute: Any, table: str, columns: list[str]) -> list[dict[str, Any]]:
    found = execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    said = [{name: _said(name, value) for name, value in zip(columns, row, strict=True)} for row in found]
    return sorted(said, key=lambda row: [str(row[name]) for name in columns if name != "payload"])


def _said(name: str, value: Any) -> Any:
    """A value in words that both databases have."""
    match value:
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case float():
            # PostgreSQL's jsonb has no negative zero.
            return value + 0.0
        case str() if name in LISTS:
            return json.loads(value)
        case str() if name == "payload":
            return exactly(value)
        case int() if name in BOOLEANS:
            return bool(value)
    return value
