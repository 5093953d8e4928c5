"""What the page about PostgreSQL shows is run against a live server, with the rights that it grants and no others."""

from __future__ import annotations

import subprocess
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


def test_what_the_page_about_transactions_shows_is_run(
    postgres_url: str, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    def query(text: str) -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(text.encode())

    Reader(tmp_path, headrace_command, capfd, query, {"HEADRACE_STORE": postgres_url}).follow("docs/transactions.md")
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT flow, count(*) FROM headrace.job GROUP BY flow ORDER BY flow").fetchall()
        assert found == [("orders", 2), ("sales", 1)]
