"""The lock client on the command line, as people and programs in other languages use it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from scheduler_world import World
from waiting import eventually, turn, until

from headrace.services import LockClient
from headrace.testing.rig.children import started_at
from headrace_scheduler.frame import FRAME
from headrace_scheduler.locks.guarded_command import GuardedCommand, run_guarded
from headrace_scheduler.parts import open_tables
from headrace_scheduler.tables.audit_events import AuditEvents

Locks = Callable[..., tuple[int, Any]]
LONG_MS = "300000"
"""Longer than the commands of a test take on a busy machine."""


@pytest.fixture
def locks(headrace_command: Any, environment: dict[str, str]) -> Locks:
    """One command: its exit code, and its document."""

    def run(*arguments: str) -> tuple[int, Any]:
        done = headrace_command("scheduler", "locks", *arguments, "--json", **environment)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    return run


def test_a_lock_is_acquired_refused_renewed_and_released(locks: Locks) -> None:
    name = f"shop:{uuid4()}"
    code, first = locks("acquire", name, "--holder", "a", "--ttl-ms", LONG_MS)
    assert (code, set(first), first["acquired"]) == (0, {"acquired", "token", "expire_at", "epoch"}, True)
    assert datetime.fromisoformat(first["expire_at"]) > datetime.now(UTC)
    code, refused = locks("acquire", name, "--holder", "b", "--ttl-ms", "5000")
    assert (code, set(refused), refused["acquired"], refused["token"]) == (4, set(first), False, None)
    assert datetime.fromisoformat(refused["expire_at"]) > datetime.now(UTC)
    own = ("--holder", "a", "--token", str(first["token"]))
    code, renewed = locks("renew", name, *own, "--ttl-ms", LONG_MS)
    assert (code, renewed["renewed"], renewed["holder"]) == (0, True, "a")
    code, other = locks("renew", name, "--holder", "b", "--token", str(first["token"]), "--ttl-ms", "9000")
    assert (code, other["renewed"], other["holder"], other["token"]) == (4, False, "a", None)
    code, shown = locks("show", name)
    assert (code, shown["resource"], shown["token"], shown["expired"]) == (0, name, first["token"], False)
    assert name in [each["resource"] for each in locks("list")[1]["locks"]]
    assert locks("release", name, *own) == (0, {"released": True, "resource": name})
    assert locks("show", name)[0] == 3
    code, second = locks("acquire", name, "--holder", "b", "--ttl-ms", "5000")
    assert (code, second["token"] > first["token"]) == (0, True)
    assert locks("release", name, *own)[0] == 4


def test_people_who_are_refused_a_lock_are_told_who_has_it(
    headrace_command: Any, embedded_environment: dict[str, str]
) -> None:
    asked = ("scheduler", "locks", "acquire", "shop", "--ttl-ms", LONG_MS, "--holder")
    first = headrace_command(*asked, "a", **embedded_environment)
    assert (first.returncode, "token=" in first.stdout) == (0, True)
    done = headrace_command(*asked, "b", **embedded_environment)
    assert (done.returncode, "token" in done.stdout) == (4, False)
    assert done.stdout.startswith("acquired=False  holder=a  expire_at=")


def test_a_forced_release_is_audited(locks: Locks, headrace_command: Any, environment: dict[str, str]) -> None:
    name = f"shop:{uuid4()}"
    assert locks("acquire", name, "--holder", "a", "--ttl-ms", LONG_MS)[0] == 0
    assert locks("release", name, "--force", "--yes")[0] == 0
    assert locks("release", name, "--force", "--yes")[0] == 4

    async def audited() -> list[Any]:
        async with open_tables(FRAME.load(environment)) as opened:
            return await AuditEvents(opened.tables).of_day(datetime.now(UTC).date().isoformat())

    (event,) = [each for each in asyncio.run(audited()) if each.subject == name]
    assert (event.action, event.detail.startswith("holder=a token=")) == ("lock.force_release", True)


async def test_a_release_without_its_token_is_refused(
    embedded_environment: dict[str, str], headrace_command: Any
) -> None:
    done = headrace_command("scheduler", "locks", "release", "x", **embedded_environment)
    assert (done.returncode, "--holder and --token" in done.stderr) == (2, True)


def line(*words: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "scheduler", "locks", "run", *words]


def test_a_command_runs_while_its_lock_is_held_and_longer_than_its_time(
    environment: dict[str, str], locks: Locks, tmp_path: Path
) -> None:
    name, script = f"job:{uuid4()}", "sleep 3.5; echo $FENCING_TOKEN $JOB_ID"
    variables = {**environment, "LOCK_TTL_MS": "3000"}
    command = line(name, "--", "/bin/sh", "-c", script)
    done = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    token, job_id = done.stdout.split()
    assert (int(token) > 0, job_id) == (True, name.removeprefix("job:"))
    assert locks("show", name)[0] == 3


def test_a_command_whose_lock_is_lost_is_killed_within_it(
    environment: dict[str, str], locks: Locks, tmp_path: Path
) -> None:
    name, note = f"shop:{uuid4()}", tmp_path / "pid"
    script = f"import os, pathlib, signal; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); signal.pause()"
    variables = {**environment, "LOCK_TTL_MS": "6000"}
    with subprocess.Popen(
        line(name, "--", sys.executable, "-c", script), env=variables, cwd=tmp_path, stderr=subprocess.PIPE
    ) as running:
        child = int(until(lambda: note.exists() and note.read_text(), "the command runs"))
        assert locks("release", name, "--force", "--yes")[0] == 0
        assert running.wait(60) == 4
        with pytest.raises(ProcessLookupError):
            os.kill(child, signal.SIG_DFL)


def test_a_command_dies_with_whoever_holds_its_lock(embedded_environment: dict[str, str], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"import os, pathlib, signal; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); signal.pause()"
    with subprocess.Popen(
        line("shop", "--", sys.executable, "-c", script), env=embedded_environment, cwd=tmp_path
    ) as running:
        child = int(until(lambda: note.exists() and note.read_text(), "the command runs"))
        running.kill()
        until(lambda: started_at(child) is None, "the command is gone")


def test_a_program_that_is_not_there_is_named(embedded_environment: dict[str, str], tmp_path: Path) -> None:
    command = line("shop", "--", "no-such-program")
    done = subprocess.run(
        command, env=embedded_environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode != 0, "no-such-program cannot be started" in done.stderr) == (True, True)


def children_of_this() -> set[int]:
    """Processes that this one has started, and not what servers of other tests have."""
    return {int(pid) for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


async def test_a_command_cancelled_while_it_starts_leaves_nothing_behind(embedded: World, tmp_path: Path) -> None:
    """Its process runs before asyncio says so, and may have started others by then."""
    note, client = tmp_path / "pid", LockClient(embedded.parts.leases)
    script = f"sleep 60 & echo $! > {note}.tmp && mv {note}.tmp {note}; wait"
    lock = await client.acquire("shop", "a", 300.0, 5.0)
    command = GuardedCommand("shop", "a", 300.0, ["/bin/sh", "-c", script], os.environ)
    before = children_of_this()
    running = asyncio.ensure_future(run_guarded(client, command, lock.token))
    while children_of_this() <= before:
        assert not running.done()
        await turn()
    # The loop stands still meanwhile, so the cancellation finds it in the middle of its start.
    until(note.exists, "it runs")
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    await eventually(lambda: started_at(int(note.read_text())) is None, "its child is gone")


def test_the_exit_code_of_a_command_is_handed_on(embedded_environment: dict[str, str], tmp_path: Path) -> None:
    command = line("shop", "--", "/bin/sh", "-c", "exit 3")
    assert subprocess.run(command, env=embedded_environment, cwd=tmp_path, timeout=120, check=False).returncode == 3


async def test_every_change_of_a_lock_is_told(
    embedded: World, embedded_environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "headrace", "scheduler", "locks", "watch", "--count", "2", "--interval-ms", "50"]
    watching = await asyncio.create_subprocess_exec(
        *command, "--json", env=embedded_environment, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    assert watching.stdout is not None
    leased = await embedded.parts.leases.acquire("shop", "a", 300.0)
    held = json.loads(await watching.stdout.readline())
    await embedded.parts.leases.release("shop", leased.lease.fence)
    released = json.loads(await watching.stdout.readline())
    assert await watching.wait() == 0
    assert (held["change"], held["holder"], released["change"]) == ("held", "a", "released")
