"""The account of a silver queue: every task that was ever put was applied once, or is one dead letter, or still waits.

A trigger of the test's own notes every write of a record together with it, so that a second one cannot go unseen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg
from waiting import until

from headrace_silver.queue.consumer import ConsumedTasks, ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.postgres.store import PostgresSilverStore
from headrace_silver.stores.silver_store import init_script

WORKER_S_MAX = 120
NOTED = """
CREATE TABLE applied (key TEXT NOT NULL);
CREATE FUNCTION note_bar() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO applied VALUES (NEW.symbol || ' ' || NEW.trade_date); RETURN NULL; END$$;
CREATE FUNCTION note_article() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO applied VALUES (NEW.url_canonical); RETURN NULL; END$$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON ta_silver FOR EACH ROW EXECUTE FUNCTION note_bar();
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON sa_silver FOR EACH ROW EXECUTE FUNCTION note_article();
"""
PUT = "INSERT INTO task_q (task_type, payload, priority) VALUES (%s, %s::jsonb, %s) RETURNING id"


def bar(**changes: Any) -> dict[str, Any]:
    known = {"symbol": "VNM", "trade_date": "2024-02-29", "open": 10, "high": 12, "low": 9, "close": 11, "volume": 100}
    return {**known, **changes}


def article(**changes: Any) -> dict[str, Any]:
    known = {
        "url_canonical": "https://tin.vn/1",
        "source_domain": "tin.vn",
        "publisher_time": "2024-02-29T08:00:00+07:00",
        "title": "Phiên tăng điểm",
        "text_normalized": "thị trường " * 20,
        "content_hash": "a1",
    }
    return {**known, **changes}


@dataclass(slots=True)
class Queue:
    """A database made from the specification's DDL alone, as a foreign producer would have it."""

    url: str
    connection: psycopg.Connection[tuple[Any, ...]]
    keys: dict[int, str] = field(default_factory=dict)

    @classmethod
    def make(cls, url: str) -> Queue:
        connection = psycopg.connect(url, autocommit=True)
        connection.execute(init_script().encode())
        connection.execute(NOTED)
        # Only a crash of the server could tell the difference, and a worker's own commits are as durable as ever.
        connection.execute("SET synchronous_commit = off")
        return cls(url, connection)

    def put(self, kind: str, payload: Any, priority: int = 100) -> int:
        task: int = self.ask(PUT, kind, json.dumps(payload), priority)[0][0]
        known = payload if isinstance(payload, dict) else {}
        self.keys[task] = known.get("url_canonical") or f"{known.get('symbol')} {known.get('trade_date')}"
        return task

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        found = self.connection.execute(statement.encode(), values or None)
        return found.fetchall() if found.description else []

    def reasons(self) -> dict[int, tuple[str, str | None]]:
        rows = self.ask("SELECT task_id, reason, rule_id FROM task_q_dlq ORDER BY id")
        assert len(rows) == len({row[0] for row in rows}), "a task has two letters"
        return {task: (reason, rule) for task, reason, rule in rows}

    def message(self, task: int) -> str:
        return str(self.ask("SELECT error_msg FROM task_q_dlq WHERE task_id = %s", task)[0][0])

    def flag(self) -> bool | None:
        rows = self.ask("SELECT value FROM control_flags WHERE name = 'SCRAPE_SLOW'")
        return rows[0][0] if rows else None

    def ready(self) -> set[int]:
        return {row[0] for row in self.ask("SELECT id FROM task_q WHERE status = 'ready'")}

    def check(self) -> Counter[str]:
        """How many tasks came to which end; fails if any of them is not accounted for exactly once."""
        states = dict(self.ask("SELECT id, status FROM task_q"))
        letters = Counter(row[0] for row in self.ask("SELECT task_id FROM task_q_dlq WHERE error_msg <> ''"))
        applied = Counter(row[0] for row in self.ask("SELECT key FROM applied"))
        ends = {task: states.get(task, "applied") for task in self.keys}
        assert set(states) <= set(self.keys), "a task that nobody put"
        assert {task: 1 for task, end in ends.items() if end == "dlq"} == dict(letters)
        assert set(ends.values()) <= {"applied", "dlq", "ready"}
        gone = Counter(self.keys[task] for task, end in ends.items() if end == "applied")
        assert set(applied) == set(gone), "a record without its task, or a task without its record"
        twice = {key: count for key, count in applied.items() if count > gone[key]}
        assert not twice, f"applied more often than there were tasks: {twice}"
        return Counter(ends.values())

    def await_free_lock(self) -> None:
        """The server notices the end of a killed worker by itself, but not at once."""
        holders = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
        ours = f"{holders} WHERE locktype = 'advisory' AND datname = current_database()"
        until(lambda: self.ask(ours)[0][0] == 0, "nobody holds the lock")

    def worker(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the worker as the specification calls it."""
        return subprocess.run(
            worker_line(*arguments),
            env=worker_environment(self.url, **variables),
            capture_output=True,
            text=True,
            timeout=WORKER_S_MAX,
            check=False,
        )


def consume(queue: Queue, mode: Mode = Mode.ONE, **settings: Any) -> tuple[ConsumedTasks, list[str]]:
    """Run the consumer in this process; what it did, and its lines."""
    store, lines = PostgresSilverStore(queue.url), list[str]()
    try:
        return TaskConsumer(store, ConsumeSettings(**settings), mode, line=lines.append).run(), lines
    finally:
        store.close()


def worker_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "worker.main", "silver_consume", *arguments]


def worker_environment(url: str, **variables: str) -> dict[str, str]:
    own = ("BATCH_SIZE", "BACKLOG_THRESHOLD", "PG_DSN", "SILVER_SYMBOL_PATTERN")
    inherited = {name: value for name, value in os.environ.items() if name not in own}
    return {**inherited, "PG_DSN": url, "PYTHONIOENCODING": "utf-8", **variables}
