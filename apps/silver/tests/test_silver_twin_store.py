"""The embedded store by itself: its lock, its waiting, its values, and what it refuses as PostgreSQL does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import chdir
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import apsw
import pytest
from silver_account import article, bar, worker_environment, worker_line
from waiting import until

from headrace.errors import SchemaMismatch, Unreachable
from headrace_silver.queue.consumer import LOCK_BUSY, ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.silver_store import open_store
from headrace_silver.stores.sqlite.store import SqliteSilverStore

SEEN = datetime(2024, 3, 1, 12, tzinfo=UTC)
PUT = "INSERT INTO task_q (task_type, payload, first_seen) VALUES (?, ?, ?)"
HOLDER = """
import sys
from headrace_silver.stores.silver_store import open_store
store = open_store(sys.argv[1])
print(store.lock(), flush=True)
sys.stdin.read()
"""
WAIT_S = 60.0


def put(store: SqliteSilverStore, *tasks: tuple[str, Any]) -> None:
    with store.transaction():
        store.load("put_tasks", ((kind, json.dumps(payload), 100) for kind, payload in tasks))


def consume(embedded_store: SqliteSilverStore, batch_size: int = 500) -> list[str]:
    lines: list[str] = []
    TaskConsumer(embedded_store, ConsumeSettings(batch_size), Mode.DRAIN, line=lines.append).run()
    return lines


def test_a_path_and_a_url_lead_to_the_same_file(embedded_path: str, embedded_store: SqliteSilverStore) -> None:
    put(embedded_store, ("ta.bar", bar()))
    for url in (embedded_path, f"sqlite:///{embedded_path}"):
        opened = open_store(url)
        assert opened.rows("put_backlog") == [(1,)]
        opened.close()


def test_a_relative_url_starts_here(tmp_path: Path) -> None:
    with chdir(tmp_path):
        opened = open_store("sqlite:///here.db")
        opened.create()
        opened.close()
    assert (tmp_path / "here.db").exists()


def test_a_file_that_is_not_there_is_not_made_by_looking(embedded_path: str) -> None:
    store = SqliteSilverStore(embedded_path)
    with pytest.raises(Unreachable):
        store.rows("put_backlog")
    with pytest.raises(Unreachable):
        store.lock()
    assert not os.path.exists(embedded_path)


def test_a_database_without_the_queue_says_what_to_do(embedded_path: str) -> None:
    connection = apsw.Connection(embedded_path)
    connection.execute("CREATE TABLE other (a)")
    connection.close()
    store = SqliteSilverStore(embedded_path)
    with pytest.raises(SchemaMismatch) as raised:
        store.lock()
    assert "headrace silver init" in raised.value.hint
    store.close()


def test_of_two_stores_in_one_process_one_has_the_lock(embedded_path: str, embedded_store: SqliteSilverStore) -> None:
    second = SqliteSilverStore(embedded_path)
    assert embedded_store.lock()
    assert embedded_store.lock(), "who has it may ask again"
    assert not second.lock()
    embedded_store.unlock()
    assert second.lock()
    second.unlock()
    second.unlock()
    second.close()


def test_a_link_to_the_file_is_the_same_lock(
    embedded_path: str, embedded_store: SqliteSilverStore, tmp_path: Path
) -> None:
    (tmp_path / "link.db").symlink_to(embedded_path)
    second = SqliteSilverStore(str(tmp_path / "link.db"))
    assert embedded_store.lock()
    assert not second.lock()
    second.close()


def test_a_worker_beside_another_goes_with_0_and_the_lock_of_the_dead_is_free(
    embedded_path: str, embedded_store: SqliteSilverStore
) -> None:
    put(embedded_store, ("ta.bar", bar()))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, embedded_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    done = subprocess.run(
        worker_line(),
        env=worker_environment(embedded_path),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{LOCK_BUSY}\n")
    assert not embedded_store.lock()
    holder.kill()
    holder.communicate()
    assert embedded_store.lock()


def test_waiting_ends_when_somebody_else_has_put(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    consume(embedded_store)
    waited: list[float] = []

    def wait() -> None:
        started = time.monotonic()
        waiting.wait(WAIT_S)
        waited.append(time.monotonic() - started)

    waiting = embedded_store
    thread = threading.Thread(target=wait)
    thread.start()
    embedded_other.execute(PUT, ("ta.bar", json.dumps(bar()), "2024-03-01T00:00:00.000000+00:00"))
    thread.join()
    assert waited[0] < WAIT_S


def test_what_was_put_between_the_batch_and_the_wait_is_not_waited_for(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    consume(embedded_store)
    embedded_other.execute(PUT, ("ta.bar", json.dumps(bar()), "2024-03-01T00:00:00.000000+00:00"))
    started = time.monotonic()
    embedded_store.wait(WAIT_S)
    assert time.monotonic() - started < WAIT_S


def test_waiting_for_nothing_ends_in_time(embedded_store: SqliteSilverStore) -> None:
    consume(embedded_store)
    started = time.monotonic()
    embedded_store.wait(0.05)
    assert 0.05 <= time.monotonic() - started < WAIT_S


def test_a_producer_that_writes_meanwhile_is_waited_for(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    put(embedded_store, ("ta.bar", bar()))
    embedded_other.execute("BEGIN IMMEDIATE")
    embedded_other.execute(PUT, ("ta.bar", json.dumps(bar(symbol="FPT")), "2024-03-01T00:00:00.000000+00:00"))
    worker = threading.Thread(target=consume, args=(embedded_store,))
    worker.start()
    embedded_other.execute("COMMIT")
    worker.join()
    assert embedded_other.execute("SELECT symbol FROM ta_silver ORDER BY symbol").fetchall() == [("FPT",), ("VNM",)]


def test_values_go_in_and_come_out_as_python_has_them(embedded_store: SqliteSilverStore) -> None:
    put(embedded_store, ("sa.article", article(symbols=["VNM"])), ("ta.bar", bar()), ("sa.video", {}))
    consume(embedded_store)
    [(value, updated_at)] = embedded_store.rows("put_flag", {"name": "SCRAPE_SLOW"})
    assert value is False
    assert updated_at.tzinfo is UTC
    assert abs(datetime.now(UTC) - updated_at) < timedelta(minutes=5)
    [symbol] = embedded_store.rows("report_symbols", {"today": date(2024, 3, 1)})
    assert symbol == ("VNM", date(2024, 2, 29), date(2024, 2, 29))
    assert embedded_store.rows("report_symbols", {"today": date(2024, 2, 28)}) == [("VNM", None, None)]
    tokyo = datetime(2024, 2, 29, 10, tzinfo=timezone(timedelta(hours=9)))
    assert embedded_store.rows("report_articles", {"since": tokyo}) == [(1, 1, 1)]
    assert embedded_store.rows("report_articles", {"since": tokyo + timedelta(microseconds=1)}) == [(0, 0, 0)]


def test_a_batch_left_without_a_settlement_has_done_nothing(embedded_store: SqliteSilverStore) -> None:
    put(embedded_store, ("ta.bar", bar()))
    with embedded_store.batch(10) as batch:
        assert [task.id for task in batch.tasks] == [1]
    assert embedded_store.rows("put_backlog") == [(1,)]


def test_the_number_of_a_task_is_never_given_again(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    put(embedded_store, ("ta.bar", bar()))
    consume(embedded_store)
    put(embedded_store, ("sa.video", {}))
    consume(embedded_store)
    assert embedded_other.execute("SELECT task_id FROM task_q_dlq").fetchall() == [(2,)]


def test_a_follower_and_producers_share_the_file(
    embedded_path: str, embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    follower = subprocess.Popen(worker_line("--follow"), env=worker_environment(embedded_path, BATCH_SIZE="7"))
    days = [date(2000, 1, 3) + timedelta(days=number) for number in range(200)]
    for some in (days[:50], days[50:51], days[51:]):
        put(embedded_store, *[("ta.bar", bar(trade_date=day.isoformat())) for day in some])
        await_empty(embedded_other)
    follower.terminate()
    assert follower.wait(WAIT_S) == 0
    assert embedded_other.execute("SELECT count(*) FROM ta_silver").fetchall() == [(200,)]
    assert embedded_store.lock(), "who was told to stop has let go"


def test_a_follower_whose_file_is_moved_away_stops_and_says_so(
    embedded_path: str, embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    with subprocess.Popen(
        worker_line("--follow"),
        env=worker_environment(embedded_path),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as follower:
        put(embedded_store, ("ta.bar", bar()))
        await_empty(embedded_other)
        os.rename(embedded_path, f"{embedded_path}.old")
        assert follower.wait(WAIT_S) == 1
        assert follower.stdout is not None
        assert "was deleted while it was open" in follower.stdout.read()


def await_empty(connection: apsw.Connection) -> None:
    left = "SELECT EXISTS (SELECT 1 FROM task_q)"
    until(lambda: connection.execute(left).fetchall() == [(0,)], "the follower has taken everything", WAIT_S)
