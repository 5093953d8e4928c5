"""A service in a process of its own, that can be killed, frozen, woken and asked to stop.

    async with ServiceProcess(Program("shop", ("python", "-m", "shop", "api"), environment), log) as shop:
        await client.get(f"{shop.url}/healthz")

Its lines are read by a thread as they come, so that a pipe that is full stops nobody, and whoever waits for one has it
at once: a thread by `result`, a coroutine by `asyncio.wrap_future`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from headrace.core.errors import OperatorError
from headrace.runtime.programs import Program, ending
from headrace.testing.rig.children import family, identities

READY = " is ready at "
READY_S_MAX = 60.0
STOP_S_MAX = 30.0
# What was printed is read within moments, unless somebody who lives longer has the same pipe.
READ_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class _AwaitedLine:
    words: str
    times: int
    line: Future[str] = field(default_factory=Future)


def exported_variables(lines: Iterable[str]) -> dict[str, str]:
    """What a shell would know after these lines."""
    words = [shlex.split(line)[1] for line in tuple(lines) if line.startswith("export ")]
    return dict(word.split("=", 1) for word in words)


class ServiceProcess:
    """One process of a program, in a session of its own: a Ctrl-C is for whoever started it, and stops it in order.
    `lines` are what it has printed, `log` is the file for its standard error."""

    def __init__(self, program: Program, log: Path, folder: Path | None = None) -> None:
        self.name, self.log = program.name, log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                program.command,
                env=dict(program.environment),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.lines: list[str] = []
        self._awaited: list[_AwaitedLine] = []
        self._silent = False
        self._lock = threading.Lock()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        """Where it listens; waits until it is ready."""
        return self.line_with(READY).result(READY_S_MAX).partition(READY)[2]

    @property
    def exported(self) -> dict[str, str]:
        """The variables by which other commands find its data, as `up` prints them."""
        return exported_variables(self.lines)

    def line_with(self, words: str, times: int = 1) -> Future[str]:
        """The line that has these words, the first or a later one, as soon as it is printed. `OperatorError` when there
        will be none."""
        awaited = _AwaitedLine(words, times)
        # Who gives up waiting must not cancel it: then there would be nothing left to answer.
        awaited.line.set_running_or_notify_cancel()
        with self._lock:
            self._awaited.append(awaited)
            self._answer()
        return awaited.line

    async def ready(self) -> str:
        """Where it listens, when it is ready. One that does not get there is killed."""
        try:
            line = await asyncio.wrap_future(self.line_with(READY))
        except BaseException:
            self.kill()
            raise
        return line.partition(READY)[2]

    def below(self, *words: str) -> list[int]:
        """The processes under it: all, or those that have these words side by side in their command line."""
        wanted, found = "\0".join(words).encode(), []
        for pid in identities(family(self.pid)[1:]):
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def say(self, line: str) -> None:
        """A line for its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9; one that has ended is left as it is."""
        self.process.kill()
        self._gone()

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = STOP_S_MAX) -> int:
        """Ask it to stop, also while it is frozen; its exit code, when all that it printed was read. What does not stop
        in time is killed."""
        self.process.send_signal(number)
        self.wake()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)
        self.kill()
        self._reading.join(READ_S_MAX)
        return self.process.returncode

    async def __aenter__(self) -> ServiceProcess:
        await self.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _gone(self) -> None:
        self.process.wait()
        if self.process.stdin is not None:
            # What it was told and has not read goes nowhere.
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                self._hear(line.decode(errors="replace").strip())
        self._hear(None)

    def _hear(self, line: str | None) -> None:
        with self._lock:
            if line is None:
                self._silent = True
            else:
                self.lines.append(line)
            self._answer()

    def _answer(self) -> None:
        """Tell those who wait for a line that is there, or will never be."""
        for awaited in list(self._awaited):
            found = [line for line in self.lines if awaited.words in line]
            if len(found) >= awaited.times:
                awaited.line.set_result(found[awaited.times - 1])
            elif self._silent:
                awaited.line.set_exception(self._ended(awaited.words))
            else:
                continue
            self._awaited.remove(awaited)

    def _ended(self, words: str) -> OperatorError:
        code = self.process.poll()
        how = "says nothing more" if code is None else ending(code)
        return OperatorError(f"{self.name} {how}, and has not said {words.strip()!r}", f"see {self.log}")
