"""A worker on the embedded store is killed at every statement of a batch: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from silver_account import Queue, article, bar
from silver_embedded_child import run_worker

from headrace_silver.stores.silver_store import open_store

# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
BATCH = 8
NOTED = """
CREATE TABLE applied (key TEXT NOT NULL);
CREATE TRIGGER noted_bar AFTER INSERT ON ta_silver
  BEGIN INSERT INTO applied VALUES (NEW.symbol || ' ' || NEW.trade_date); END;
CREATE TRIGGER noted_bar_again AFTER UPDATE ON ta_silver
  BEGIN INSERT INTO applied VALUES (NEW.symbol || ' ' || NEW.trade_date); END;
CREATE TRIGGER noted_article AFTER INSERT ON sa_silver BEGIN INSERT INTO applied VALUES (NEW.url_canonical); END;
CREATE TRIGGER noted_article_again AFTER UPDATE ON sa_silver BEGIN INSERT INTO applied VALUES (NEW.url_canonical); END;
CREATE TRIGGER picky BEFORE INSERT ON ta_silver WHEN NEW.source = 'refused'
  BEGIN SELECT raise(ABORT, 'a foreign trigger says no'); END;
"""
PUT = "INSERT INTO task_q (task_type, payload, priority) VALUES (?, ?, ?) RETURNING id"
_numbers = count()


@dataclass(slots=True)
class EmbeddedQueue(Queue):
    """The same account over a SQLite file."""

    connection: Any

    @classmethod
    def at(cls, url: str) -> EmbeddedQueue:
        with closing(open_store(url)) as store:
            store.create()
        connection = apsw.Connection(url)
        connection.set_busy_timeout(5_000)
        connection.execute(NOTED)
        return cls(url, connection)

    def put(self, kind: str, payload: Any, priority: int = 100) -> int:
        task: int = self.ask(PUT, kind, json.dumps(payload), priority)[0][0]
        self.keys[task] = payload.get("url_canonical") or f"{payload.get('symbol')} {payload.get('trade_date')}"
        return task

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.connection.execute(statement, values).fetchall()
        return found


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[EmbeddedQueue]:
    made = EmbeddedQueue.at(str(tmp_path / "silver.db"))
    yield made
    made.connection.close()


def put_mixed(queue: EmbeddedQueue, refused: bool) -> None:
    """A batch of everything: records, a second task for one of them, rejects and one that only the database refuses."""
    number = next(_numbers)
    day = (date(2000, 1, 3) + timedelta(days=number)).isoformat()
    for symbol in ("VNM", "FPT", "HPG"):
        queue.put("ta.bar", bar(symbol=symbol, trade_date=day))
    queue.put("ta.bar", bar(trade_date=day, close=10.5))
    queue.put("sa.article", article(url_canonical=f"https://tin.vn/{number}"))
    queue.put("ta.bar", bar(symbol="xx", trade_date=day))
    queue.put("sa.video", {})
    queue.put("ta.bar", bar(symbol="MWG", trade_date=day, source="refused" if refused else "hose"))


@pytest.mark.parametrize("refused", [False, True], ids=["good", "with a refused record"])
def test_an_embedded_worker_killed_at_any_statement_loses_and_doubles_nothing(
    queue: EmbeddedQueue, refused: bool
) -> None:
    environment = {"PG_DSN": queue.url, "BATCH_SIZE": str(BATCH)}
    put_mixed(queue, refused)
    statements, code = run_worker([], environment, None)
    assert code == 0
    assert queue.check() == ({"applied": 5, "dlq": 3} if refused else {"applied": 6, "dlq": 2})
    committed = []
    # A process for each takes its time: all of them are hit only at full size.
    step = 1 if TIMES > 1 else 5 if refused else 2
    for statement in (*range(1, statements, step), statements):
        put_mixed(queue, refused)
        waiting = len(queue.ready())
        assert run_worker([], environment, statement) == (statement, -9)
        queue.check()
        committed.append(waiting - len(queue.ready()))
    # The last statement is COMMIT, and each of them was killed before it.
    assert set(committed) == {0}
    assert run_worker(["--drain"], environment, None)[1] == 0
    assert set(queue.check()) == {"applied", "dlq"}
    assert queue.ask("PRAGMA integrity_check") == [("ok",)]


def test_an_embedded_worker_killed_between_two_batches_has_kept_the_first(queue: EmbeddedQueue) -> None:
    put_mixed(queue, refused=False)
    statements, _ = run_worker([], {"PG_DSN": queue.url, "BATCH_SIZE": str(BATCH)}, None)
    for _ in range(3):
        put_mixed(queue, refused=False)
    killed = run_worker(["--drain"], {"PG_DSN": queue.url, "BATCH_SIZE": str(BATCH)}, statements + 3)
    assert killed[1] == -9
    assert len(queue.ready()) == 2 * BATCH
    assert queue.check()["ready"] == 2 * BATCH
    assert run_worker(["--drain"], {"PG_DSN": queue.url}, None)[1] == 0
    assert queue.check() == {"applied": 24, "dlq": 8}
