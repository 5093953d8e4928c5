"""Real worker processes that a test can kill, freeze and replace. They die with the test run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from headrace.runtime.programs import PARENT_VARIABLE, READY_VARIABLE

STOP_S_MAX = 15.0


def flow_command(flow: str, hold_s: float = 1.0) -> list[str]:
    """The command line of a worker process of one flow."""
    return [sys.executable, "-m", "headrace.cli.child", "--hold-s", str(hold_s), "--", flow]


class WorkerProcesses:
    """So many processes of one command over one store, in one directory. Nobody but the test looks after them."""

    def __init__(self, store: str, command: Sequence[str], folder: Path) -> None:
        self._command = command
        self._environment = {**os.environ, "HEADRACE_STORE": store, PARENT_VARIABLE: str(os.getpid())}
        self._folder = folder
        self._log: IO[bytes] = (folder / "workers.log").open("ab")
        self.children: list[subprocess.Popen[bytes]] = []
        self._ready: dict[int, int] = {}
        self.deaths = 0

    def start(self, count: int, variables: Mapping[str, str] | None = None) -> None:
        self._environment.update(variables or {})
        for _ in range(count):
            self.children.append(self._spawn())

    def _spawn(self) -> subprocess.Popen[bytes]:
        ready, tell = os.pipe()
        os.set_blocking(ready, False)
        child = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env={**self._environment, READY_VARIABLE: str(tell)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(tell,),
        )
        os.close(tell)
        self._ready[child.pid] = ready
        return child

    def ready(self) -> list[int]:
        """The indexes of those that have got as far as claiming work."""
        found = []
        for index, child in enumerate(self.children):
            descriptor = self._ready.get(child.pid)
            if descriptor is None:
                found.append(index)
                continue
            with suppress(BlockingIOError):
                if os.read(descriptor, 1):
                    os.close(self._ready.pop(child.pid))
                    found.append(index)
        return found

    def kill(self, index: int) -> None:
        """kill -9, and a new process in its place."""
        child = self.children[index]
        child.kill()
        child.wait()
        self.replace_dead()

    def replace_dead(self) -> int:
        """Start a new process for each that has died, whoever killed it; how many there were."""
        dead = [index for index, child in enumerate(self.children) if child.poll() is not None]
        for index in dead:
            self.deaths += 1
            self.children[index] = self._spawn()
        return len(dead)

    async def freeze(self, index: int, seconds: float) -> None:
        """It stands still for so long, and then goes on as if nothing had happened."""
        os.kill(self.children[index].pid, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.thaw(index)

    def thaw(self, index: int) -> None:
        os.kill(self.children[index].pid, signal.SIGCONT)

    def log(self) -> str:
        return (self._folder / "workers.log").read_text(errors="replace")

    def stop(self) -> None:
        """Kill what is left, and wait until it is gone."""
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait(STOP_S_MAX)
        for descriptor in self._ready.values():
            os.close(descriptor)
        self._log.close()


def copy_flow(source: Path, folder: Path, names: Sequence[str]) -> None:
    """Put the modules that hold a flow where worker processes look for them."""
    for name in names:
        (folder / f"{name}.py").write_text((source / f"{name}.py").read_text())
