"""`headrace doctor` on a store file: what is wrong, how bad it is, and what to do about it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from headrace.adapters.sqlite.checks import FREE_BYTES_BAD, FREE_BYTES_LOW, LOG_BYTES_MAX, log_size, space
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.checks import Health
from headrace.core.claims import Want
from headrace.testing.passage import ManualClock

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Answer = Callable[..., Any]
Checks = dict[str, dict[str, str]]

GREEN = ["versions", "driver", "settings", "writer", "file system", "permissions", "log", "wake sockets"]
GREEN += ["schema", "claims", "journal", "durability", "store", "handlers"]


@pytest.fixture
def examined(headrace_command: Command, here: Path, answer: Answer) -> Callable[..., tuple[int, Checks]]:
    """The exit code, and the checks by name."""
    answer("jobs", "submit", "app:flow", '"one"')

    def examine(*arguments: str) -> tuple[int, Checks]:
        done = headrace_command("doctor", "--json", *arguments)
        document = json.loads(done.stdout)
        assert document["healthy"] == (done.returncode == 0)
        return done.returncode, {check["name"]: check for check in document["checks"]}

    return examine


Examined = Callable[..., tuple[int, Checks]]


def alter(path: Path, statement: str) -> None:
    """What another program does to the file, with another SQLite library."""
    program = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute({statement!r}); c.commit(); c.close()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_healthy_store_is_all_green(examined: Examined) -> None:
    code, checks = examined("app:flow")
    assert code == 0
    assert checks.pop("workers")["state"] == "warning"
    assert checks.pop("disk space")["state"] in ("ok", "warning")
    assert {name: check["state"] for name, check in checks.items()} == dict.fromkeys(GREEN, "ok")


def test_people_get_a_line_and_a_way_out_for_each(headrace_command: Command, examined: Examined) -> None:
    told = headrace_command("doctor").stdout.splitlines()
    assert "warning  workers: none, and jobs are open" in told
    assert told[told.index("warning  workers: none, and jobs are open") + 1].strip() == "→ headrace worker app:flow"
    assert (
        "         → headrace worker app:flow app:flow"
        in headrace_command("doctor", "app:flow", "app:flow").stdout.splitlines()
    )


def test_a_journal_mode_that_somebody_changed_is_told(examined: Examined, here: Path) -> None:
    alter(here / "headrace.db", "PRAGMA journal_mode = delete")
    code, checks = examined()
    assert (code, checks["journal"]["state"]) == (0, "warning")
    assert "delete" in checks["journal"]["found"]


def test_a_schema_of_another_time_is_bad(examined: Examined, here: Path) -> None:
    alter(here / "headrace.db", "PRAGMA user_version = 1")
    code, checks = examined()
    assert (code, checks["store"]["state"]) == (1, "bad")
    assert "headrace migrate up" in checks["store"]["hint"]


def test_a_file_that_everybody_may_write_to_is_told(examined: Examined, here: Path) -> None:
    (here / "headrace.db").chmod(0o666)
    _, checks = examined()
    assert checks["permissions"]["state"] == "warning"
    assert checks["permissions"]["hint"].startswith("chmod o-w ")


def test_a_frozen_writer_is_named(examined: Examined, here: Path) -> None:
    descriptor = os.open(here / "headrace.db-writer", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.pwrite(descriptor, f"{os.getpid():>10} {time.monotonic() - 100:>20.3f}\n".encode(), 0)
        code, checks = examined()
    finally:
        os.close(descriptor)
    assert (code, checks["writer"]["state"]) == (1, "bad")
    assert checks["writer"]["hint"] == f"kill -9 {os.getpid()}"


@pytest.mark.parametrize(("count", "state"), [(3, "ok"), (60, "warning")])
def test_sockets_of_processes_that_are_gone_are_counted(examined: Examined, here: Path, count: int, state: str) -> None:
    (here / "headrace.db-wake").mkdir(exist_ok=True)
    with chdir(here):
        for number in range(count):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
                gone.bind(f"headrace.db-wake/{number}")
    _, checks = examined()
    assert checks["wake sockets"]["state"] == state
    assert str(count) in checks["wake sockets"]["found"]


async def claim_and_vanish(path: Path) -> None:
    """A worker of an earlier boot of this machine took something and was never heard of again."""
    store = await SqliteStore.open(str(path), clock=ManualClock())
    grant = await store.claim("gone", [Want("greet", "split", 1, 1)], 30.0)
    assert grant.claims
    await store.close()


def test_claims_that_nobody_sweeps_are_told(examined: Examined, here: Path) -> None:
    asyncio.run(claim_and_vanish(here / "headrace.db"))
    _, checks = examined()
    assert checks["claims"]["state"] == "warning"
    assert "1 claims ran out" in checks["claims"]["found"]


def test_a_flow_that_cannot_be_imported_is_the_callers_mistake(headrace_command: Command, examined: Examined) -> None:
    assert headrace_command("doctor", "nowhere:flow").returncode == 2


def test_little_room_is_told_before_there_is_none() -> None:
    assert space(FREE_BYTES_LOW).state is Health.OK
    assert space(FREE_BYTES_LOW - 1).state is Health.WARNING
    assert space(FREE_BYTES_BAD - 1).state is Health.BAD


def test_a_log_that_is_never_written_back_is_told() -> None:
    assert log_size(LOG_BYTES_MAX).state is Health.OK
    assert log_size(LOG_BYTES_MAX + 1).state is Health.WARNING


def test_a_process_whose_store_was_deleted_is_named(headrace_command: Command, examined: Examined, here: Path) -> None:
    with here.joinpath("headrace.db").open("rb") as opened:
        here.joinpath("headrace.db").unlink()
        done = headrace_command("doctor", "--json")
        assert opened.readable()
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, checks["file"]["state"]) == (1, "bad")
    assert f"process {os.getpid()} has it open" in checks["file"]["found"]
    assert checks["store"]["found"] == "there is none yet"


def test_a_worker_that_ended_is_not_listed(headrace_command: Command, examined: Examined) -> None:
    assert headrace_command("worker", "app:flow", "--until-idle").returncode == 0
    _, checks = examined()
    assert checks["workers"]["found"] == "none, and no job is open"


async def renew_as(path: Path, pid: int) -> None:
    store = await SqliteStore.open(str(path))
    store.renew("worker", [], 30.0)
    await store.close()
    alter(path, f"UPDATE headrace_worker SET pid = {pid}")


def test_a_worker_that_was_killed_is_told_from_one_that_lives(examined: Examined, here: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    asyncio.run(renew_as(here / "headrace.db", gone.pid))
    _, checks = examined()
    assert checks["workers"]["found"] == "none, and jobs are open"
    asyncio.run(renew_as(here / "headrace.db", os.getpid()))
    _, checks = examined()
    assert checks["workers"]["found"].endswith(f":{os.getpid()} (0 claims)")
