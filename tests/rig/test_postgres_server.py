"""PostgreSQL: how it stops, what it is told at its start, its databases, and what of it lies in the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.testing.rig.cached import census
from headrace.testing.rig.postgres import Postgres15Server, PostgresServer

STARTED_S_MAX = 180.0
RECOVERED = "database system was not properly shut down"
STARTS_ONE = """
from headrace.testing.rig.postgres import PostgresServer

with PostgresServer() as server:
    print(server.query("SHOW server_version")[0][0], server.programs)
"""


@pytest.fixture(scope="module", params=[PostgresServer, Postgres15Server], ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with request.param() as server:
        yield server


def show(server: PostgresServer, name: str) -> object:
    return server.query(f"SHOW {name}")[0][0]


def test_it_is_the_version_it_says(server: PostgresServer) -> None:
    wanted = {"postgres": "18.", "postgres15": "15."}[server.name]
    assert str(show(server, "server_version")).startswith(wanted)


@pytest.mark.parametrize(("mode", "recovers"), [("fast", False), ("smart", False), ("immediate", True)])
def test_only_an_immediate_stop_is_a_crash(server: PostgresServer, mode: str, recovers: bool) -> None:
    server.query("DROP TABLE IF EXISTS kept")
    server.query("CREATE TABLE kept AS SELECT 7 AS number")
    before = server.log().count(RECOVERED)
    server.stop(mode)  # type: ignore[arg-type]
    assert not server.running
    server.start()
    assert (server.log().count(RECOVERED) > before) is recovers
    assert server.query("SELECT number FROM kept") == [(7,)]


def test_shared_memory_goes_with_the_home(server: PostgresServer) -> None:
    """In /dev/shm nobody would remove what a killed one has left."""
    assert show(server, "dynamic_shared_memory_type") == "mmap"
    assert list((server.data / "pg_dynshmem").iterdir())


def test_a_setting_of_one_start_is_gone_with_the_next(server: PostgresServer) -> None:
    assert (show(server, "fsync"), show(server, "max_connections")) == ("on", "100")
    server.stop()
    server.start({"max_connections": "23"})
    assert show(server, "max_connections") == "23"
    assert show(server.restart(), "max_connections") == "100"


def test_a_setting_of_a_server_stays() -> None:
    with PostgresServer({"max_connections": "23"}) as server:
        server.kill()
        assert show(server.start(), "max_connections") == "23"


def test_a_database_has_what_its_template_has_and_goes_whoever_is_connected(server: PostgresServer) -> None:
    with server.database() as template:
        name = psycopg.conninfo.conninfo_to_dict(template)["dbname"]
        with psycopg.connect(template, autocommit=True) as connection:
            connection.execute("CREATE TABLE book (title text)")
        with server.database(str(name)) as url:
            reader = psycopg.connect(url)
            assert reader.execute("SELECT * FROM book").fetchall() == []
    with pytest.raises(psycopg.OperationalError):
        reader.execute("SELECT 1")
    reader.close()
    assert server.query("SELECT datname FROM pg_database WHERE datname LIKE 'test%'") == []


def test_a_role_that_must_bring_a_password_gets_in_with_the_right_one_only(server: PostgresServer) -> None:
    server.query("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    server.require_password("guarded")
    for password, gets_in in (("right", True), ("wrong", False)):
        url = f"postgresql://guarded:{password}@127.0.0.1:{server.port}/postgres"
        if gets_in:
            psycopg.connect(url).close()
        else:
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(url)


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    """An empty cache that an unprivileged user may enter."""
    with tempfile.TemporaryDirectory(prefix="headrace-cache-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def start_with(cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "HEADRACE_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_three_that_start_at_once_with_an_empty_cache_fill_it_once(cache: Path) -> None:
    started = [start_with(cache) for _ in range(3)]
    told = [child.communicate(timeout=STARTED_S_MAX) for child in started]
    assert [out.partition(".")[0] for out, _ in told] == ["18", "18", "18"], told
    assert [path.name for path in cache.glob(".*.part-*")] == []
    assert len(list(cache.glob("postgres-data-*"))) == 1


def test_what_lost_a_file_in_the_cache_is_made_anew(cache: Path) -> None:
    start_with(cache).communicate(timeout=STARTED_S_MAX)
    (data,) = cache.glob("postgres-data-*")
    before = census(data)
    (data / "data" / "global" / "pg_filenode.map").unlink()
    half_made = cache / f".{data.name}.part-of-a-killed-run"
    half_made.mkdir()
    out, error = start_with(cache).communicate(timeout=STARTED_S_MAX)
    assert out.startswith("18."), error
    assert census(data) == before
    assert not half_made.exists()
