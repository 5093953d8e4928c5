"""What the page about PostgreSQL shows is run against a live server, with the rights that it grants and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pages import Reader

from headrace.testing.rig.postgres import PostgresServer

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """The server without what the page creates, before and afterwards."""
    yield postgres
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")
        for role in ("shop", "shop_worker"):
            connection.execute(f"DROP ROLE IF EXISTS {role}".encode())


def test_what_the_page_shows_is_run(
    server: PostgresServer, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    def query(text: str) -> None:
        url = server.url if "CREATE DATABASE" in text else server.url_of("shop")
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in filter(str.strip, text.split(";")):
                connection.execute(statement.encode())

    address = f"127.0.0.1:{server.port}/shop"
    given = {"HEADRACE_STORE": f"postgresql://shop@{address}", "WORKER": f"postgresql://shop_worker@{address}"}
    Reader(tmp_path, headrace_command, capfd, query, given).follow("docs/postgres.md")
    with psycopg.connect(server.url_of("shop")) as connection:
        assert connection.execute("SELECT amount FROM booking ORDER BY amount").fetchall() == [(5,), (7,)]


@pytest.mark.usefixtures("own_modules")
def test_what_the_page_about_transactions_shows_is_run(
    postgres_url: str, tmp_path: Path, headrace_process: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    # In processes of their own: Django is set up once in a process, and other tests do so as well.
    def query(text: str) -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(text.encode())

    Reader(tmp_path, headrace_process, capfd, query, {"HEADRACE_STORE": postgres_url}).follow("docs/transactions.md")
    flows = ("bills:flow", "orders:flow", "sell:flow")
    done = headrace_process("worker", *flows, "--until-idle", HEADRACE_STORE=postgres_url)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT flow, count(*) FROM headrace.job GROUP BY flow ORDER BY flow").fetchall()
        assert found == [("bills", 1), ("orders", 2), ("sales", 1)]
        assert connection.execute("SELECT article FROM shop_order ORDER BY id").fetchall() == [("BOLT",), ("nut",)]
    assert answers_of_a_thread_that_lost_its_connection(tmp_path, postgres_url) == ["bill", "again", "lost"]


LOSING = """
import psycopg, shop
from bills import bill
from django.db.utils import OperationalError

def lose():
    with psycopg.connect(shop.os.environ["HEADRACE_STORE"], autocommit=True) as other:
        pid = shop.connection.connection.info.backend_pid
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))

bill(1)
print("bill")
lose()
bill(1)
print("again")
lose()
try:
    bill.__wrapped__(1)
except OperationalError:
    print("lost")
"""


def answers_of_a_thread_that_lost_its_connection(folder: Path, url: str) -> list[str]:
    """What the page's handler does then, and what it does without its decorator."""
    line = [sys.executable, "-c", LOSING]
    environment = {**os.environ, "HEADRACE_STORE": url}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()
