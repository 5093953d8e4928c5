"""Children that die with us, and the families they found.

The kernel sends a child its death signal when the *thread* that started it ends, so all children are started by one
thread that lives as long as the process; any thread may ask it to.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.core.errors import OperatorError

# Whoever asks for the death signal after the parent has died never gets it.
IF_NOT_ORPHANED = ("/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
LOOK = "`headrace rig doctor` looks for what is wrong with the machine"
GONE_S_MAX = 30.0
FROZEN = "T"
FROZEN_S_MAX = 2.0
RUN_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class ServerOwner:
    """Whom a server runs as when we are root, because it refuses root or should not have it."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start, where, and as whom."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    owner: ServerOwner | None = None
    death: signal.Signals = signal.SIGTERM


def spawn(launch: Launch, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own; `death` is sent to it when this process ends, however it ends."""
    answer: Future[subprocess.Popen[bytes]] = Future()
    _requests().put((launch, log, answer))
    return answer.result()


def run(launch: Launch, timeout_s: float = RUN_S_MAX) -> str:
    """Run a program to its end as the server's user; what it printed, or an error that shows it."""
    try:
        done = subprocess.run(
            command_line(launch),
            env=dict(launch.environment),
            cwd=launch.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise OperatorError(f"{launch.command[0]} did not end within {timeout_s:g} s", LOOK) from error
    if done.returncode:
        raise OperatorError(f"{launch.command[0]} failed:\n{done.stdout[-1500:]}{done.stderr[-1500:]}", LOOK)
    return done.stdout


def command_line(launch: Launch) -> list[str]:
    """What is really run: the command, as its user, and only as a child of ours that will hear of our death."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise OperatorError("the rig needs `setpriv`", "sudo apt-get install -y util-linux")
    # The death signal comes last: changing the user id clears it.
    death = f"--pdeathsig={launch.death.name.removeprefix('SIG')}"
    user = [f"--reuid={launch.owner.uid}", f"--regid={launch.owner.gid}", "--clear-groups"] if launch.owner else []
    return [setpriv, *user, death, *IF_NOT_ORPHANED, str(os.getpid()), *launch.command]


def family(pid: int) -> list[int]:
    """This process and everything under it, parents first."""
    found, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        found.append(each)
        # A thread may end while we look, and so may the process: then not even its directory can be listed.
        with contextlib.suppress(OSError):
            for listing in Path(f"/proc/{each}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    waiting += [int(text) for text in listing.read_text().split()]
    return found


def freeze(pid: int) -> list[int]:
    """Stop this process and everything under it, also what is being born meanwhile; who they are, parents first."""
    frozen: list[int] = []
    while fresh := [each for each in family(pid) if each not in frozen]:
        signal_all(fresh, signal.SIGSTOP)
        frozen += fresh
    # The signal is on its way, and a thread on the other core may still answer.
    deadline = time.monotonic() + FROZEN_S_MAX
    while any(state_of(each) not in (FROZEN, "Z", "X", "") for each in frozen) and time.monotonic() < deadline:
        time.sleep(0.001)
    return frozen


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def await_gone(pids: Iterable[int]) -> None:
    """Until none of them runs; one that has ended and was not yet waited for counts as gone."""
    members = identities(pids)
    deadline = time.monotonic() + GONE_S_MAX
    while alive := alive_of(members):
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {alive} do not end")
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """The state of a process, as `ps` writes it: `FROZEN` by a signal, `S` while it sleeps. Nothing if it is gone."""
    return _stat(pid)[0]


def started_at(pid: int) -> int | None:
    """When a running process was started, in clock ticks since boot: with the pid, its identity. None if it is gone."""
    state, *fields = _stat(pid)
    return None if state in ("Z", "X", "") else int(fields[18])


def _stat(pid: int) -> list[str]:
    # The name of the program, in parentheses, may have anything in it.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [""]


def identities(pids: Iterable[int]) -> dict[int, int]:
    """Who runs under these pids now. A pid alone may be somebody else's by the time it is used."""
    return {pid: at for pid in pids if (at := started_at(pid)) is not None}


def alive_of(members: Mapping[int, int]) -> list[int]:
    """Those of them that still run."""
    return [pid for pid, at in members.items() if started_at(pid) == at]


def memory(pids: Sequence[int]) -> int:
    """The bytes of these processes, shared pages counted once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


_Request = tuple[Launch, IO[bytes], "Future[subprocess.Popen[bytes]]"]
_lock = threading.Lock()
_queues: dict[int, queue.SimpleQueue[_Request]] = {}


def _requests() -> queue.SimpleQueue[_Request]:
    """The queue of this process: a forked child has no such thread and gets its own."""
    with _lock:
        if os.getpid() not in _queues:
            waiting: queue.SimpleQueue[_Request] = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(waiting,), name="rig-spawner", daemon=True).start()
            _queues[os.getpid()] = waiting
        return _queues[os.getpid()]


def _serve(waiting: queue.SimpleQueue[_Request]) -> None:
    while True:
        launch, log, answer = waiting.get()
        try:
            answer.set_result(
                subprocess.Popen(
                    command_line(launch),
                    env=dict(launch.environment),
                    cwd=launch.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        except BaseException as error:
            answer.set_exception(error)
