"""A program that somebody keeps running, and how it and its parent talk.

The parent tells a child its process id, so that the child can end with it, and a pipe, by which the child says that it
is ready, and where. Both are variables of the environment; a child calls `die_with_parent` and `tell_ready`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

READY_VARIABLE, PARENT_VARIABLE = "HEADRACE_READY_FD", "HEADRACE_PARENT"
STORE_VARIABLE = "HEADRACE_STORE"
WORDS_BYTES_MAX = 4_096
LINE_BYTES_MAX = 65_536
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, in how many processes. `lines` is given what it prints, line by line; without it a program prints
    where its parent does."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    processes: int = 1
    lines: Callable[[str], None] | None = None


def worker_program(
    flows: Sequence[str], environment: Mapping[str, str], processes: int, hold_s: float, debug: bool = False
) -> Program:
    """Worker processes for these flows. The environment names the store (`HEADRACE_STORE`): arguments can be read by
    everybody on the machine."""
    words = ("--hold-s", str(hold_s), *(("--debug",) if debug else ()), "--", *flows)
    return Program("worker", (sys.executable, "-m", "headrace.cli.child", *words), environment, processes)


@dataclass(slots=True)
class Child:
    """One process of a program; `ready` becomes what it said when it was ready, or None if it never was."""

    program: Program
    process: asyncio.subprocess.Process
    started_at: float
    ready: asyncio.Future[str | None] = field(repr=False)
    lines: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_ready(self) -> bool:
        return self.ready.done() and self.ready.result() is not None

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code, when everything that it has printed was passed on."""
        code = await self.process.wait()
        if self.lines is not None:
            await self.lines
        return code


async def start(program: Program, now: float, variables: Mapping[str, str]) -> Child:
    """Start one process of a program."""
    reading, writing = os.pipe()
    told = {READY_VARIABLE: str(writing), PARENT_VARIABLE: str(os.getpid())}
    try:
        process = await asyncio.create_subprocess_exec(
            *program.command,
            env={**program.environment, **told, **variables},
            pass_fds=(writing,),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=None if program.lines is None else asyncio.subprocess.PIPE,
            # A Ctrl-C on the terminal is for the parent alone; it decides what its children get.
            process_group=0,
        )
    finally:
        os.close(writing)
    child = Child(program, process, now, _ready(reading))
    if program.lines is not None and process.stdout is not None:
        child.lines = asyncio.ensure_future(_pass_on(process.stdout, program.lines))
    return child


def _ready(reading: int) -> asyncio.Future[str | None]:
    """What the other end of the pipe says before it closes."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str | None] = loop.create_future()

    def heard() -> None:
        loop.remove_reader(reading)
        said = os.read(reading, WORDS_BYTES_MAX)
        os.close(reading)
        if not ready.done():
            ready.set_result(said.decode(errors="replace") if said else None)

    loop.add_reader(reading, heard)
    return ready


async def _pass_on(stream: asyncio.StreamReader, lines: Callable[[str], None]) -> None:
    """Line by line; one that is too long, or not ended, goes as it is."""
    rest = b""
    while piece := await stream.read(LINE_BYTES_MAX):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            whole, rest = [*whole, rest], b""
        for line in whole:
            lines(line.decode(errors="replace"))
    if rest:
        lines(rest.decode(errors="replace"))


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Called by a child: when the parent goes, however it goes, this process gets this signal."""
    parent = int(os.environ.get(PARENT_VARIABLE, "0"))
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    # The parent may have gone before the line above: then nobody will ever signal.
    if os.getppid() != parent:
        os._exit(1)


def tell_ready(words: str = "ready") -> None:
    """Called by a child: it has what it needs and begins to work; `words` may say where."""
    descriptor = os.environ.pop(READY_VARIABLE, "")
    if descriptor:
        with contextlib.suppress(OSError):
            os.write(int(descriptor), words.encode()[:WORDS_BYTES_MAX])
            os.close(int(descriptor))


def ending(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
