"""The worker as a process: its lines, its exit codes, its modes, and how it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from silver_account import WORKER_S_MAX, Queue, bar, worker_environment, worker_line
from silver_counting_proxy import CountingProxy
from waiting import until

from headrace.errors import CallerError, Unreachable
from headrace.services import table
from headrace.testing.rig.postgres import PostgresServer
from headrace_silver.queue.consumer import ConsumeSettings
from headrace_silver.records.rules import PREFIX, RuleSettings
from headrace_silver.records.values import Judged
from headrace_silver.stores.postgres.store import PostgresSilverStore
from headrace_silver.stores.silver_store import StoreSettings
from worker.main import main

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def follower(queue: Queue, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = worker_environment(queue.url, **variables)
    with subprocess.Popen(
        worker_line("--follow"), env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_empty(queue: Queue) -> None:
    until(lambda: not queue.ready(), "everything is consumed", WORKER_S_MAX)


def test_one_batch_by_default_and_the_rest_with_drain(queue: Queue) -> None:
    for number in range(7):
        queue.put("ta.bar", bar(trade_date=f"2020-01-0{number + 1}"))
    one = queue.worker(BATCH_SIZE="3", BACKLOG_THRESHOLD="3")
    assert (one.returncode, one.stdout, one.stderr) == (0, "", "")
    assert (len(queue.ready()), queue.flag()) == (4, True)
    rest = queue.worker("--drain", BATCH_SIZE="3")
    assert (rest.returncode, rest.stdout) == (0, "Không có task nào, worker kết thúc.\n")
    assert (queue.check(), queue.flag()) == ({"applied": 7}, False)


def test_rejects_are_no_failure(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    bad = queue.put("ta.bar", bar(volume=2**63))
    assert main(["silver_consume"], {"PG_DSN": queue.url}) == 0
    assert capsys.readouterr().out == f"Lỗi xử lý task {bad}: {queue.message(bad)}\n"
    queue.await_free_lock()


@pytest.mark.parametrize(
    ("name", "value"),
    [("BATCH_SIZE", "0"), ("BATCH_SIZE", "many"), ("BATCH_SIZE", "1e3"), ("BACKLOG_THRESHOLD", "-1")],
)
def test_a_wrong_variable_is_named(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["silver_consume"], {name: value}) == 2
    assert name in capsys.readouterr().err


def test_an_empty_variable_states_nothing() -> None:
    assert ConsumeSettings.read({"BATCH_SIZE": "", "BACKLOG_THRESHOLD": " "}) == ConsumeSettings(500, 10_000)
    with pytest.raises(CallerError, match="BATCH_SIZE"):
        ConsumeSettings.read({"BATCH_SIZE": "٣٠"})


@pytest.mark.parametrize(("declared", "prefix"), [(StoreSettings, ""), (ConsumeSettings, ""), (RuleSettings, PREFIX)])
def test_the_table_of_the_page_is_what_the_code_declares(declared: type, prefix: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "silver.md").read_text("utf-8")
    assert [row for row in table(declared, prefix).splitlines() if row not in page] == []


@pytest.mark.parametrize("line", [[], ["gold_consume"], ["silver_consume", "--drain", "--follow"]])
def test_an_unknown_command_line_is_a_usage_error(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line, {}) == 2
    assert "silver_consume" in capsys.readouterr().err


def test_without_a_database_the_answer_is_five_and_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["silver_consume"], {"PG_DSN": "postgresql://me:secret@127.0.0.1:1/none"}) == 5
    assert main(["silver_consume"], {"PG_DSN": "postgresql://me:secret@[1/none"}) == 2
    told = capsys.readouterr()
    assert "secret" not in told.out + told.err


def test_without_a_dsn_libpq_has_its_own_variables(queue: Queue, postgres_server: PostgresServer) -> None:
    queue.put("ta.bar", bar())
    names = {"PGHOST": "127.0.0.1", "PGPORT": str(postgres_server.port), "PGUSER": "postgres"}
    schema = queue.ask("SELECT current_schema()")[0][0]
    names |= {"PGDATABASE": queue.connection.info.dbname, "PGOPTIONS": f"-csearch_path={schema}"}
    done = queue.worker(PG_DSN="", **names)
    assert (done.returncode, queue.check()) == (0, {"applied": 1})


def test_the_worker_runs_from_a_bare_source_tree(queue: Queue, tmp_path: Path) -> None:
    queue.put("ta.bar", bar())
    environment = {**worker_environment(queue.url), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(worker_line(), cwd=tmp_path, env=environment, check=False)
    assert (done.returncode, queue.check()) == (0, {"applied": 1})


def test_a_batch_whose_connection_breaks_is_rolled_back_and_told(
    queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.put("ta.bar", bar())
    proxy = CountingProxy(queue.url, b"INSERT INTO ta_silver")
    assert main(["silver_consume"], {"PG_DSN": proxy.url}) == 1
    proxy.close()
    assert capsys.readouterr().out.startswith("Lỗi nghiêm trọng, rollback batch: ")
    queue.await_free_lock()
    assert queue.check() == {"ready": 1}


def test_a_drain_tries_again_after_its_connection_broke(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    proxy = CountingProxy(queue.url, b"INSERT INTO ta_silver")
    assert main(["silver_consume", "--drain"], {"PG_DSN": proxy.url}) == 0
    proxy.close()
    assert proxy.stopped.is_set()
    assert queue.check() == {"applied": 1}
    queue.await_free_lock()


def test_a_drain_that_recovered_on_an_empty_queue_has_not_failed(
    queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = CountingProxy(queue.url, b"INSERT INTO control_flags")
    assert main(["silver_consume", "--drain"], {"PG_DSN": proxy.url}) == 0
    proxy.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Lỗi nghiêm trọng, rollback batch: ")
    assert lines[-1] == "Không có task nào, worker kết thúc."
    assert queue.flag() is False


def test_a_timeout_is_not_the_records_fault(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    impatient = queue.url + "%20-cstatement_timeout%3D200"
    with queue.connection.transaction():
        queue.ask("LOCK TABLE ta_silver IN SHARE MODE")
        assert main(["silver_consume"], {"PG_DSN": impatient}) == 1
    assert queue.check() == {"ready": 1}
    assert main(["silver_consume"], {"PG_DSN": queue.url}) == 0
    assert queue.check() == {"applied": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_follower_takes_what_comes_and_stops_when_it_is_told(queue: Queue, number: signal.Signals) -> None:
    with follower(queue) as process:
        for day in range(1, 4):
            queue.put("ta.bar", bar(trade_date=f"2020-01-0{day}"))
            queue.ask("NOTIFY silver_task")
            await_empty(queue)
        process.send_signal(number)
        assert process.wait(WORKER_S_MAX) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""
    assert (queue.check(), queue.flag()) == ({"applied": 3}, False)
    queue.await_free_lock()


def test_a_follower_that_is_told_to_stop_finishes_its_batch(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    with follower(queue) as process:
        with queue.connection.transaction():
            queue.ask("LOCK TABLE ta_silver IN SHARE MODE")
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'ta_silver'::regclass"
            until(lambda: queue.ask(waiting)[0][0], "the follower is in the middle of its batch", WORKER_S_MAX)
            process.send_signal(signal.SIGTERM)
        assert process.wait(WORKER_S_MAX) == 0
    assert queue.check() == {"applied": 1}


def test_a_follower_outlives_its_server(queue: Queue, postgres_server: PostgresServer) -> None:
    queue.ask("SET synchronous_commit = on")
    with follower(queue) as process:
        queue.put("ta.bar", bar())
        await_empty(queue)
        queue.connection.close()
        postgres_server.stop("immediate")
        postgres_server.start()
        queue.connection = psycopg.connect(queue.url, autocommit=True)
        queue.put("ta.bar", bar(symbol="FPT"))
        await_empty(queue)
        process.terminate()
        assert process.wait(WORKER_S_MAX) == 0
    assert queue.check() == {"applied": 2}
    queue.await_free_lock()


def test_a_connection_that_was_cut_while_idle_gives_no_batch_before_the_lock_is_had_again(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    proxy = CountingProxy(queue.url)
    store = PostgresSilverStore(proxy.url)
    assert store.lock()
    with store.batch(0) as batch:
        batch.settle(Judged(), None)
    proxy.cut()
    with pytest.raises(Unreachable):
        store.wait(WORKER_S_MAX)
    queue.await_free_lock()
    with pytest.raises(Unreachable, match="lock"), store.batch(1):
        pass
    assert store.lock()
    with store.batch(1) as batch:
        assert len(batch.tasks) == 1
    store.close()
    proxy.close()


def test_lines_reach_a_terminal_that_has_no_letters_for_them(queue: Queue) -> None:
    queue.put("ta.bar", bar(volume=2**63))
    done = queue.worker(PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("L\\u1ed7i x\\u1eed l\\xfd task ")
    assert queue.check() == {"dlq": 1}


def test_the_worker_starts_with_little(queue: Queue, tmp_path: Path) -> None:
    """A run per minute by cron should not import the engine or its account."""
    program = """
import sys
from headrace_silver.stores.silver_store import open_store
from worker.main import main

store = open_store(sys.argv[1])
store.create()
store.close()
assert main(["silver_consume"], {"PG_DSN": sys.argv[1]}) == 0
heavy = ("headrace.runtime", "headrace.adapters.sqlite.store", "headrace.adapters.postgres.store", "typer", "structlog")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    for url in (queue.url, str(tmp_path / "silver.db")):
        line = [sys.executable, "-c", program, url]
        done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", env=os.environ, check=False)
        assert (done.stdout.splitlines()[-1:], done.stderr) == (["[]"], "")
