"""`headrace doctor` on a server: what is wrong with it, how bad that is, and what to do about it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable

import psycopg
import pytest

from headrace.adapters.postgres import schema
from headrace.adapters.postgres.checks import headroom, idle_transactions, skew, version
from headrace.adapters.postgres.connections import connect
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.checks import Health
from headrace.core.claims import Want
from headrace.core.jobs import Submission
from headrace.testing.contracts.bench import flow, parcel, work
from headrace.testing.rig.postgres import PostgresServer

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Examined = Callable[[str], tuple[int, dict[str, list[dict[str, str]]]]]
SETTINGS = {"max_connections": "100", "superuser_reserved_connections": "3", "reserved_connections": "0"}


@pytest.fixture
def examined(headrace_command: Command) -> Examined:
    """The exit code, and the checks by name."""

    def examine(url: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
        done = headrace_command("doctor", "--json", "--store", url)
        checks: dict[str, list[dict[str, str]]] = {}
        for check in json.loads(done.stdout)["checks"]:
            checks.setdefault(check["name"], []).append(check)
        return done.returncode, checks

    return examine


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_healthy_server_is_all_green(postgres_database: str, examined: Examined) -> None:
    asyncio.run(schema.up(postgres_database))
    code, checks = examined(postgres_database)
    assert code == 0
    assert {check["state"] for found in checks.values() for check in found} == {"ok"}
    expected = {"versions", "driver", "settings", "server", "durability", "clock", "connections", "autovacuum"}
    assert set(checks) == expected | {"transactions", "schema", "claims", "store", "workers"}


def test_a_server_that_is_short_of_everything_says_so(
    postgres_server: PostgresServer, postgres_database: str, examined: Examined
) -> None:
    postgres_server.stop()
    postgres_server.start({"max_connections": "7", "autovacuum": "off", "max_wal_senders": "0"})
    try:
        code, checks = examined(postgres_database)
    finally:
        postgres_server.restart()
    assert code == 1
    assert checks["connections"][0]["state"] == "bad"
    assert "max_connections" in checks["connections"][0]["hint"]
    assert checks["autovacuum"][0]["state"] == "warning"


def test_settings_that_lose_commits_are_bad(postgres_url: str, examined: Examined) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    run(postgres_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    code, checks = examined(postgres_url)
    assert code == 1
    assert [check["state"] for check in checks["durability"]] == ["bad", "bad", "bad"]
    told = " ".join(check["found"] for check in checks["durability"])
    assert [word for word in ("fsync", "full_page_writes", "synchronous_commit") if word not in told] == []


def test_an_empty_database_stays_empty(postgres: PostgresServer, examined: Examined) -> None:
    with postgres.database() as url:
        _, checks = examined(url)
        assert checks["schema"][0]["state"] == "warning"
        assert asyncio.run(schema.versions(url)).found == 0


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("DELETE FROM headrace.migration WHERE number > 3", "headrace migrate up"),
        ("UPDATE headrace.migration SET functions = 'other'", "headrace migrate up"),
        ("INSERT INTO headrace.migration (number, name) VALUES (9999, 'later')", "install the newer headrace"),
    ],
)
def test_a_schema_of_another_time_is_bad(postgres_url: str, examined: Examined, change: str, hint: str) -> None:
    run(postgres_url, change)
    code, checks = examined(postgres_url)
    assert (code, checks["schema"][0]["state"], checks["schema"][0]["hint"]) == (1, "bad", hint)


def test_a_read_only_server_is_bad(postgres_url: str, examined: Examined) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    run(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    code, checks = examined(postgres_url)
    assert (code, checks["role"][0]["state"]) == (1, "bad")


def test_a_server_that_does_not_answer_is_bad_and_hides_the_password(examined: Examined) -> None:
    code, checks = examined("postgresql://user:secret-word@127.0.0.1:1/jobs")
    assert (code, checks["store"][0]["state"]) == (1, "bad")
    assert "secret-word" not in json.dumps(checks)


def test_a_transaction_that_is_left_open_is_named(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, application_name="report") as lazy, connect(postgres_url) as looking:
        lazy.execute("SELECT 1")
        check = idle_transactions(looking, 0.0)
        assert (check.state, f"pid {lazy.info.backend_pid} (report)" in check.found) == (Health.WARNING, True)
        lazy.rollback()
        assert idle_transactions(looking, 0.0).state is Health.OK


def test_claims_that_nobody_sweeps_are_told(postgres_url: str, examined: Examined) -> None:
    asyncio.run(claim_and_vanish(postgres_url))
    run(postgres_url, "UPDATE headrace.claim SET until = clock_timestamp() - interval '1 minute'")
    _, checks = examined(postgres_url)
    assert checks["claims"][0]["state"] == "warning"
    assert "1 claims ran out, the oldest 60 s ago" in checks["claims"][0]["found"]


async def claim_and_vanish(url: str) -> None:
    declared = flow(work("a"))
    store = await PostgresStore.open(url)
    await store.submit(Submission("j", declared.name, declared.graph, (parcel("a", 4),)))
    assert (await store.claim("gone", [Want(declared.name, "a", 1, 1)], 30.0)).claims
    await store.close()


@pytest.mark.parametrize(("clients", "state"), [(10, Health.OK), (85, Health.WARNING), (95, Health.BAD)])
def test_connections_are_told_before_they_run_out(clients: int, state: Health) -> None:
    assert headroom(SETTINGS, clients).state is state


def test_a_clock_that_differs_is_told_unless_the_line_is_that_slow() -> None:
    assert skew(0.4, 0.01).state is Health.OK
    assert skew(-3.0, 0.01).state is Health.WARNING
    assert skew(-3.0, 2.5).state is Health.OK


def test_an_old_server_is_bad() -> None:
    assert version(schema.SERVER_MIN).state is Health.OK
    assert version(schema.SERVER_MIN - 1).state is Health.BAD
