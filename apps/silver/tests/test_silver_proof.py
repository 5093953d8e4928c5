"""The worker is killed at every statement, meets others of its kind and loses its server: nothing lost or doubled."""

from __future__ import annotations

import os
from datetime import date, timedelta
from itertools import count
from multiprocessing.connection import wait
from pathlib import Path

import psycopg
import pytest
from silver_account import WORKER_S_MAX, Queue, article, bar, consume
from silver_child import start_worker
from silver_counting_proxy import CountingProxy
from silver_foreign_consumer import consume as foreign_consume

from headrace.testing.rig.postgres import PostgresServer
from headrace_silver.queue.consumer import Mode
from worker.main import main

# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
LOCK_BUSY = "Lock 'silver_consume' đang bận; worker thoát 0.\n"
BATCH = 8
# Every statement is hit only at full size. Finding a refused record takes many statements more.
STEP, STEP_REFUSED, STEP_DRAIN = (3, 4, 5) if TIMES == 1 else (1, 1, 1)
RESTART_S_MAX = 120
OWN_TABLES = (
    "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'silver%'"
)
_numbers = count()


def put_mixed(queue: Queue, refused: bool) -> None:
    """A batch of everything: records, a second task for one of them, rejects and one that only the database refuses."""
    number = next(_numbers)
    day = date(2000, 1, 3) + timedelta(days=number)
    for symbol in ("VNM", "FPT", "HPG"):
        queue.put("ta.bar", bar(symbol=symbol, trade_date=day.isoformat()))
    queue.put("ta.bar", bar(trade_date=day.isoformat(), close=10.5))
    queue.put("sa.article", article(url_canonical=f"https://tin.vn/{number}"))
    queue.put("ta.bar", bar(symbol="xx", trade_date=day.isoformat()))
    queue.put("sa.video", {})
    queue.put("ta.bar", bar(symbol="MWG", trade_date=day.isoformat(), source="refused" if refused else "hose"))


def kill_at(queue: Queue, statement: int | None, *arguments: str) -> tuple[int, bool]:
    """Run a worker through the proxy and kill it there; how many statements it sent, and whether it was killed."""
    proxy = CountingProxy(queue.url, statement, lambda: process.kill())
    process = start_worker(list(arguments), {"PG_DSN": proxy.url, "BATCH_SIZE": str(BATCH)})
    process.join()
    # Waits for the proxy's threads: the one that killed says so only afterwards.
    proxy.close()
    killed = proxy.stopped.is_set()
    assert process.exitcode == (-9 if killed else 0)
    return proxy.seen, killed


def drop_own_tables(queue: Queue) -> None:
    """All that the worker makes beside the tables of the specification."""
    for (name,) in queue.ask(OWN_TABLES):
        queue.ask(f"DROP TABLE {name} CASCADE")


@pytest.mark.parametrize("refused", [False, True], ids=["good", "with a refused record"])
def test_a_worker_killed_at_any_statement_loses_and_doubles_nothing(queue: Queue, refused: bool) -> None:
    queue.ask("ALTER TABLE ta_silver ADD CONSTRAINT picky CHECK (source IS DISTINCT FROM 'refused')")
    put_mixed(queue, refused)
    statements, _ = kill_at(queue, None)
    assert queue.check() == ({"applied": 5, "dlq": 3} if refused else {"applied": 6, "dlq": 2})
    committed = []
    for statement in (*range(1, statements, STEP_REFUSED if refused else STEP), statements):
        put_mixed(queue, refused)
        waiting = len(queue.ready())
        # Made again in every run, so that it may be killed at that as well.
        drop_own_tables(queue)
        _, killed = kill_at(queue, statement)
        assert killed, f"statement {statement} of {statements} was never sent"
        queue.await_free_lock()
        queue.check()
        committed.append(waiting - len(queue.ready()))
    # A batch is there whole or not at all, and both happened: before COMMIT was passed on, and after.
    assert set(committed) == {0, BATCH}
    assert committed == sorted(committed)
    assert queue.worker("--drain").returncode == 0
    assert set(queue.check()) == {"applied", "dlq"}


def test_a_drain_killed_at_any_statement_loses_and_doubles_nothing(queue: Queue) -> None:
    """Other than a single batch, it reads and judges a batch while the one before is settled."""
    committed, killed = [], True
    # How many there are depends on how often the flag is written.
    statements = count(1, STEP_DRAIN)
    while killed:
        for _ in range(4):
            put_mixed(queue, refused=False)
        _, killed = kill_at(queue, next(statements), "--drain")
        queue.await_free_lock()
        queue.check()
        committed.append(4 * BATCH - len(queue.ready()))
        consume(queue, Mode.DRAIN)
        assert set(queue.check()) == {"applied", "dlq"}
    assert set(committed) == {0, BATCH, 2 * BATCH, 3 * BATCH, 4 * BATCH}
    assert committed == sorted(committed)


def test_of_eight_workers_at_once_one_works(queue: Queue, tmp_path: Path) -> None:
    for number in range(40):
        queue.put("ta.bar", bar(trade_date=(date(2001, 1, 1) + timedelta(days=number)).isoformat()))
    outputs = [tmp_path / str(number) for number in range(8)]
    # A table that the one cannot write until we let go keeps it at work while the seven come and go.
    with queue.connection.transaction():
        queue.ask("LOCK TABLE ta_silver IN SHARE MODE")
        workers = [start_worker([], {"PG_DSN": queue.url}, str(output)) for output in outputs]
        waiting = list(workers)
        while len(waiting) > 1:
            assert wait([worker.sentinel for worker in waiting], WORKER_S_MAX), "nobody goes"
            waiting = [worker for worker in waiting if worker.is_alive()]
        assert len(waiting) == 1
    waiting[0].join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert sorted(output.read_text("utf-8") for output in outputs) == ["", *[LOCK_BUSY] * 7]
    assert queue.check() == {"applied": 40}


def test_a_foreign_consumer_and_ours_take_turns_on_one_queue(queue: Queue) -> None:
    for _ in range(6 * TIMES):
        put_mixed(queue, refused=False)
    taken = 0
    while queue.ready():
        taken += foreign_consume(queue.url, 5) or 0
        queue.check()
        assert queue.worker(BATCH_SIZE="7").returncode == 0
        queue.check()
    assert taken >= 15
    assert queue.check() == {"applied": 36 * TIMES, "dlq": 12 * TIMES}
    queue.await_free_lock()


def test_a_foreign_consumer_at_work_makes_ours_go(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    queue.ask("SELECT pg_advisory_lock(hashtext('silver_consume'))")
    done = queue.worker()
    assert (done.returncode, done.stdout) == (0, LOCK_BUSY)
    assert queue.check() == {"ready": 1}


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_restarted_in_mid_batch_has_lost_nothing(
    queue: Queue, postgres_server: PostgresServer, mode: str
) -> None:
    queue.ask("SET synchronous_commit = on")
    put_mixed(queue, refused=False)
    restarted = []

    def restart() -> None:
        restarted.append(postgres_server.pid)
        queue.connection.close()
        postgres_server.stop(mode)  # type: ignore[arg-type]
        postgres_server.start()

    proxy = CountingProxy(queue.url, b"INSERT INTO sa_silver", restart)
    code = main(["silver_consume"], {"PG_DSN": proxy.url})
    assert proxy.stopped.wait(RESTART_S_MAX)
    drained = main(["silver_consume", "--drain"], {"PG_DSN": queue.url})
    proxy.close()
    assert (code, drained, len(restarted)) == (1, 0, 1)
    queue.connection = psycopg.connect(queue.url, autocommit=True)
    assert queue.check() == {"applied": 6, "dlq": 2}
