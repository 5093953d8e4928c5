"""What every server of the rig promises, walked through once with each: started, broken, stopped, left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from server_clients import CLIENT_S_MAX, REQUESTS, SETTINGS, request_of
from waiting import until

from headrace.core.errors import CallerError
from headrace.testing.rig import children
from headrace.testing.rig.catalogue import SERVERS, server_class
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.rig.server import STOP_S_MAX, Server

READY_S_MAX = 120.0
# A Java machine of its own, on cores that all the others start on.
JAVA_READY_S_MAX = 240.0
JAVA = ("cassandra", "kafka")
SILENCE_S = 0.4
ORPHAN_S_MAX = 60.0
MEMORY_MAX = 2_000_000_000
PYTEST_S_MAX = 300


@dataclass
class Started:
    """A server that a thread has started, and what was seen of it then."""

    server: Server
    ready_s: float = 0.0
    memory: int = 0

    def start(self) -> None:
        before = time.monotonic()
        self.server.start()
        self.ready_s = time.monotonic() - before


@pytest.fixture(scope="module")
def each() -> Iterator[dict[str, Started]]:
    """One of each, started at the same time by threads that have ended since."""
    with contextlib.ExitStack() as stack:
        started = {name: Started(server_class(name)()) for name in SERVERS}
        for one in started.values():
            stack.callback(one.server.remove)
        threads = [threading.Thread(target=one.start) for one in started.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in started.values():
            one.memory = one.server.memory()
        yield started


def members_of(server: Server) -> dict[int, int]:
    """The processes of a server, each with the moment it was started: a pid alone may be given to another."""
    return children.identities(children.family(server.pid))


def await_gone(members: dict[int, int]) -> None:
    until(lambda: not children.alive_of(members), lambda: f"{children.alive_of(members)} are gone", ORPHAN_S_MAX)


def note_of(home: Path) -> Path:
    return home.with_name(f"{home.name}.json")


async def answers(server: Server, when: str) -> None:
    try:
        assert await asyncio.wait_for(request_of(server), CLIENT_S_MAX), when
    except TimeoutError:
        pytest.fail(f"{server.name} does not answer {when}")


async def is_silent(server: Server) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(request_of(server), SILENCE_S)


def test_every_server_of_the_catalogue_is_walked_through() -> None:
    assert set(REQUESTS) == set(SETTINGS) == set(SERVERS)
    assert {name: server_class(name).name for name in SERVERS} == {name: name for name in SERVERS}


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_is_started_frozen_killed_and_stopped(name: str, each: dict[str, Started]) -> None:
    server, ready_s = each[name].server, each[name].ready_s
    url, port, home, members = server.url, server.port, server.home, members_of(server)
    assert 0 < ready_s < (JAVA_READY_S_MAX if name in JAVA else READY_S_MAX), f"ready after {ready_s:.1f} s"
    await answers(server, "though the thread that started it has ended")
    with pytest.raises(CallerError, match="runs already"):
        server.start()

    server.pause()
    await is_silent(server)
    server.resume()
    await answers(server, "after it was frozen")

    server.kill()
    assert not server.running
    assert children.alive_of(members) == [], "a kill takes the whole family"
    chosen = SETTINGS[name]
    server.start(chosen.settings)
    assert (server.url, server.port, server.home) == (url, port, home), "it comes back where it was"
    assert await chosen.ask(server) == chosen.told, "a setting for one start has reached it"
    assert server.log().strip(), "it has a log"

    members = members_of(server)
    server.pause()
    before = time.monotonic()
    server.stop()
    assert time.monotonic() - before < STOP_S_MAX, "it can be stopped while it is frozen"
    assert children.alive_of(members) == [], "it leaves no process"
    assert home.exists(), "its data stays until it is removed"
    server.remove()
    assert not home.exists()
    assert not note_of(home).exists()
    with socket.create_server(("127.0.0.1", port)):
        """Its port is free."""


def test_all_together_use_less_than_two_gigabytes(each: dict[str, Started]) -> None:
    used = {name: one.memory / 1_000_000 for name, one in each.items()}
    assert all(0.3 < megabytes < 500 for megabytes in used.values()), used
    assert sum(used.values()) * 1_000_000 < MEMORY_MAX, used


KILLED_RUN = """
    import json, sys, threading
    from headrace.testing.rig import children
    from headrace.testing.rig.catalogue import server_class

    servers = [server_class(name)() for name in sys.argv[1:]]
    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [children.identities(children.family(server.pid)) for server in servers]
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""
NEXT_RUN = """
    from headrace.testing.rig.redis import RedisServer

    with RedisServer() as server:
        print(server.call("PING"))
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory in which no other run on this machine cleans up, and which all users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-killed-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def test_a_run_that_was_killed_leaves_nothing_that_stops_the_next(temporary: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED_RUN), *SERVERS]
    variables = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        told = json.loads(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
    for members in told:
        assert members
        await_gone({int(pid): at for pid, at in members.items()})

    homes = temporary / f"headrace-rig-{os.geteuid()}"
    assert len(list(homes.iterdir())) == 2 * len(SERVERS)
    following = [sys.executable, "-c", textwrap.dedent(NEXT_RUN)]
    assert subprocess.run(following, env=variables, capture_output=True, text=True, check=True).stdout == "PONG\n"
    assert list(homes.iterdir()) == []


def members_while_rewriting(server: RedisServer) -> dict[int, int]:
    """Redis with the child that it has forked to rewrite its file."""
    server.call("SET", "key", "value")
    server.call("BGREWRITEAOF")

    def with_a_child() -> dict[int, int] | None:
        members = members_of(server)
        return members if len(members) >= 2 else None

    return until(with_a_child, "Redis has forked a child", CLIENT_S_MAX)


def kill_the_parent(server: Server) -> None:
    """As somebody else would: the children and the handle are not told."""
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not server.running, f"{server.name} is dead", CLIENT_S_MAX)


def test_a_kill_takes_what_the_server_has_started_since() -> None:
    with RedisServer({"rdb-key-save-delay": "20000000"}) as server:
        members = members_while_rewriting(server)
        server.kill()
        assert children.alive_of(members) == []


def test_a_start_ends_what_the_server_had_started_before_it_died_by_itself() -> None:
    with RedisServer({"rdb-key-save-delay": "20000000"}) as server:
        members = members_while_rewriting(server)
        server.pause()
        kill_the_parent(server)
        assert len(children.alive_of(members)) == 1
        server.start()
        assert children.alive_of(members) == []


def test_a_server_that_died_by_itself_is_started_again_without_the_rest_of_it() -> None:
    with PostgresServer() as server:
        members = members_of(server)
        assert len(members) > 3
        # Its children are frozen: they cannot follow their parent, and hold the shared memory.
        server.pause()
        kill_the_parent(server)
        assert len(children.alive_of(members)) > 2
        server.start()
        assert children.alive_of(members) == []
        assert server.query("SELECT 1") == [(1,)]


TALKING = """
    import pathlib
    from waiting import until
    from headrace.testing.rig.postgres import PostgresServer
    from headrace.testing.rig.redis import RedisServer

    def test_both_servers_are_ours():
        here, there = pathlib.Path({here!r}), pathlib.Path({there!r})
        with RedisServer() as redis, PostgresServer() as postgres:
            redis.call("SET", "whose", here.name)
            postgres.query(f"CREATE TABLE {{here.name}} ()")
            here.touch()
            until(there.exists, "the other run is here too", 200)
            assert redis.call("GET", "whose") == here.name
            assert postgres.query("SELECT relname FROM pg_stat_user_tables") == [(here.name,)]
"""


def test_two_test_runs_side_by_side_do_not_meet(tmp_path: Path) -> None:
    runs = []
    for here, there in (("one", "two"), ("two", "one")):
        file = tmp_path / f"test_{here}_run.py"
        file.write_text(textwrap.dedent(TALKING.format(here=str(tmp_path / here), there=str(tmp_path / there))))
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), str(file)]
        path = {"PYTHONPATH": str(Path(__file__).parents[1])}
        runs.append(
            subprocess.Popen(
                command,
                cwd=tmp_path,
                env=os.environ | path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        told = [run.communicate(timeout=PYTEST_S_MAX)[0] for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0, 0], "\n".join(told)
    assert all("1 passed" in text for text in told)
