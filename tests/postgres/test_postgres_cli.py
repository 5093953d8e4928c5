"""The life of a job on the command line over a live server, with worker processes of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from greeting_app import APP

from headrace.testing.rig.postgres import PostgresServer

WORK = ("worker", "app:flow", "--until-idle", "--hold-s", "5")

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Answer = Callable[..., Any]


@pytest.fixture
def command(headrace_command: Command, tmp_path: Path, postgres_url: str) -> Command:
    """A command on this test's database, in a directory with an `app.py`."""
    (tmp_path / "app.py").write_text(APP)
    return lambda *arguments: headrace_command(*arguments, HEADRACE_STORE=postgres_url)


@pytest.fixture
def answer(command: Command) -> Answer:
    """The JSON document of a command that must go well."""

    def run(*arguments: str) -> Any:
        done = command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_a_job_is_submitted_worked_and_accounted_for(command: Command, answer: Answer) -> None:
    opened = answer("jobs", "submit", "app:flow", '"one two bad"', "--key", "k")
    assert opened["state"] == "open"
    assert answer("jobs", "submit", "app:flow", '"one two bad"', "--key", "k")["id"] == opened["id"]
    assert command("jobs", "submit", "app:flow", '"other"', "--key", "k").returncode == 4
    worked = command(*WORK, "--processes", "2")
    assert worked.returncode == 0, worked.stderr

    shown = answer("jobs", "show", opened["id"])
    assert shown["state"] == "failed"
    assert {name: stage["done"] for name, stage in shown["stages"].items()} == {"split": 1, "greet": 2, "report": 1}
    items = answer("jobs", "items", opened["id"], "--stage", "greet")
    assert [(item["payload"], item["state"]) for item in items] == [("one", "done"), ("two", "done"), ("bad", "dead")]
    assert [job["id"] for job in answer("jobs", "list", "--state", "failed")] == [opened["id"]]
    whole = {"clean": True, "jobs": 1, "recounted": 1, "items_dropped": 0, "findings": [], "open": []}
    assert answer("verify") == whole


def test_dead_letters_are_redriven_and_purged(command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"good bad"')["id"]
    assert command(*WORK).returncode == 0
    (letter,) = answer("dead", "list", "--rule", "words")
    assert (letter["job"], letter["key"], letter["reason"]) == (job, "bad", "not a word")
    assert answer("dead", "redrive", "--job", job) == {"redriven": 1}
    assert command(*WORK).returncode == 0
    assert [line["state"] for line in answer("jobs", "show", job)["finish_lines"]] == ["failed", "failed"]
    assert answer("dead", "purge", "--job", job) == {"purged": 1}
    assert answer("dead", "list") == []
    assert answer("verify", job)["clean"]


def test_a_job_is_paused_resumed_and_cancelled(command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"one"')["id"]
    for verb in ("pause", "resume", "cancel"):
        assert answer("jobs", verb, job) == {"job": job, "changed": True}
    assert answer("jobs", "cancel", job) == {"job": job, "changed": False}
    watched = command("jobs", "watch", job, "--jsonl")
    assert json.loads(watched.stdout.splitlines()[-1])["state"] == "cancelled"
    assert command("jobs", "show", "nobody").returncode == 3


def test_a_schema_is_applied_and_told(headrace_command: Command, postgres: PostgresServer) -> None:
    with postgres.database() as url:

        def migrate(verb: str) -> tuple[int, Any]:
            done = headrace_command("migrate", verb, "--json", "--store", url)
            return done.returncode, json.loads(done.stdout)

        assert migrate("status")[0] == 1
        assert migrate("up")[1]["applied"]
        assert migrate("up") == (0, {"applied": []})
        code, found = migrate("status")
        assert (code, found["current"]) == (0, True)
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE headrace.migration SET functions = 'other'")
        code, found = migrate("status")
        assert (code, found["current"], found["schema"]) == (1, False, found["needed"])
        assert migrate("up") == (0, {"applied": ["functions"]})
        assert "CREATE TABLE headrace.job" in "".join(part["sql"] for part in migrate("sql")[1])


@pytest.mark.parametrize("line", [["jobs", "list"], ["verify"], ["migrate", "status"], ["worker", "app:flow"]])
def test_a_wrong_password_is_an_unreachable_store_and_is_never_shown(
    headrace_command: Command, postgres: PostgresServer, tmp_path: Path, line: list[str]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    role = f"keeper_{'_'.join(line).replace(':', '_')}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right'".encode())
    postgres.require_password(role)
    url = f"postgresql://{role}:secret-word@127.0.0.1:{postgres.port}/postgres"
    done = headrace_command(*line, "--json", "--store", url)
    assert done.returncode == 5, done.stderr
    assert "secret-word" not in done.stdout + done.stderr
    assert f"{role}@127.0.0.1" in done.stderr
    assert "password" in done.stderr
