"""A service of the scheduler in a process of its own, that the demo can kill, freeze and wake."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.errors import OperatorError

READY = " is ready at "
STOP_S_MAX = 20.0


class ServiceProcess:
    """`url` is where it listens."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, url: str) -> None:
        self.name, self.url, self._process = name, url, process

    @property
    def pid(self) -> int:
        return self._process.pid

    def holds(self, worker_id: str) -> bool:
        """Whether a run is of this process: a worker's id names its machine, its process and its life."""
        return f":{self.pid}:" in worker_id

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Ask it to stop; what does not is killed."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
            self.wake()
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await self._process.wait()
        except TimeoutError:
            await self.kill()


@asynccontextmanager
async def service_process(name: str, environment: Mapping[str, str], log: Path) -> AsyncIterator[ServiceProcess]:
    """Start a service on any port, and stop it at the end."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headrace", "scheduler", name, "--port", "0"),
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            # A Ctrl-C is for the demo, which stops them in order.
            start_new_session=True,
        )
    started = ServiceProcess(name, process, "")
    try:
        started.url = await _url(process, log)
        yield started
    finally:
        await started.end()


async def _url(process: asyncio.subprocess.Process, log: Path) -> str:
    assert process.stdout is not None
    async for line in process.stdout:
        _, said, url = line.decode().strip().partition(READY)
        if said:
            return url
    raise OperatorError("a service of the demo did not start", f"see {log}")


def signal_program(pid: int, number: signal.Signals) -> None:
    """A program that has ended meanwhile needs none."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
