"""A program that somebody keeps running, and how it and its parent talk.

The parent tells a child its process id, so that the child can end with it, and a pipe, by which the child says that it
is ready, and where. Both are variables of the environment; a child calls `die_with_parent` and `tell_ready`. A worker
goes on to say by the same pipe for how long it has not got on, because nobody else can know, and how long it may be
silent.
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
REPORT_S = 1.0
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
    """One process of a program; `ready` becomes what it said when it was ready, or None if it never was. `still_s` is
    for how long it has not got on, as it says itself, and `silent_s` for how long it has said nothing, which may be
    work for `silent_s_max` (None: it does not report)."""

    program: Program
    process: asyncio.subprocess.Process
    started_at: float
    ready: asyncio.Future[str | None] = field(repr=False)
    lines: asyncio.Task[None] | None = field(default=None, repr=False)
    still_s: float = 0.0
    silent_s: float = 0.0
    silent_s_max: float | None = None

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
    child = Child(program, process, now, asyncio.get_running_loop().create_future())
    _listen(child, reading)
    if program.lines is not None and process.stdout is not None:
        child.lines = asyncio.ensure_future(_pass_on(process.stdout, program.lines))
    return child


def _listen(child: Child, reading: int) -> None:
    """Hear what a child says until it closes its end: a line when it is ready, and then for how many seconds it is
    still and may be silent."""
    loop = asyncio.get_running_loop()

    def heard() -> None:
        lines = os.read(reading, WORDS_BYTES_MAX).decode(errors="replace").splitlines()
        if not lines:
            loop.remove_reader(reading)
            os.close(reading)
        if not child.ready.done():
            child.ready.set_result(lines.pop(0) if lines else None)
        if lines:
            child.still_s, child.silent_s_max = (float(seconds) for seconds in lines[-1].split())
            child.silent_s = 0.0

    loop.add_reader(reading, heard)


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


def tell_ready(words: str = "ready") -> Callable[[float, float], None]:
    """Called by a child: it has what it needs and begins to work; `words`, a line, may say where. A worker reports with
    the answer, from any thread, for how many seconds it has not got on, and for how many it may say nothing at all."""
    descriptor = int(os.environ.pop(READY_VARIABLE, "-1"))

    def say(line: str) -> None:
        # Nobody listens to a process that was started by hand, and a parent may have heard enough.
        with contextlib.suppress(OSError):
            os.write(descriptor, line.encode()[: WORDS_BYTES_MAX - 1] + b"\n")

    if descriptor >= 0:
        os.set_inheritable(descriptor, False)
        say(words)
    return lambda still_s, silent_s_max: say(f"{still_s:.1f} {silent_s_max:.1f}")


def ending(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
