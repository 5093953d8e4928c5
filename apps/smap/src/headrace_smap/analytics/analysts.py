"""Who does the computing: child processes, or a thread of this one.

A child can be lost without losing the service: a post that ends its process, or never comes back, costs one child.
Work and answers pass through a socket as frames; no code and no pickle ever does. A child that runs out of time ends
itself, by a watchdog that needs no interpreter lock, also when nobody is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from headrace.errors import Unreachable
from headrace_smap.analytics.modules import Pipeline
from headrace_smap.analytics.work import FRAME, Outcome, Work, analyse, encode_body

START_S_MAX = 60.0
GRACE_S = 5.0
CLOSE_S_MAX = 2.0
READ_BYTES = 1_048_576
PROGRAM = "headrace_smap.analytics.analyst"

Request = tuple[float, Sequence[Work]]
decode_answer = msgspec.msgpack.Decoder(list[Outcome]).decode


class Lost(Exception):
    """Whoever was computing is gone, and with it the answers. `late`: it ran out of time."""

    def __init__(self, late: bool) -> None:
        super().__init__("out of time" if late else "lost")
        self.late = late


class Analysts(Protocol):
    """Any number of calls may be made at once; they wait for each other."""

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        """What becomes of each, in their order. Raises `Lost`: nobody knows, and the same call again may be lost
        too."""

    async def warm(self) -> None:
        """Load what the first call would wait for."""

    async def close(self) -> None: ...


class ThreadAnalyst:
    """One thread at a time. A call that runs out of time is left behind; nobody can end a thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._turn = pipeline, asyncio.Lock()

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Outcome]] = loop.create_future()

        def tell(outcomes: list[Outcome]) -> None:
            if not answer.done():
                answer.set_result(outcomes)

        def work() -> None:
            outcomes = analyse(self._pipeline, works, datetime.now(UTC))
            with contextlib.suppress(RuntimeError):  # The loop has ended without us.
                loop.call_soon_threadsafe(tell, outcomes)

        async with self._turn:
            # Not a pool's thread: those are waited for at the end of the process, and one that hangs never ends.
            threading.Thread(target=work, name="smap-analyst", daemon=True).start()
            try:
                return await asyncio.wait_for(answer, limit_s)
            except TimeoutError:
                raise Lost(late=True) from None

    async def warm(self) -> None:
        await asyncio.to_thread(self._pipeline.warm)

    async def close(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True, slots=True)
class AnalystConnection:
    """A child process and the socket that leads to it."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @staticmethod
    async def open(environment: Mapping[str, str]) -> AnalystConnection:
        ours, theirs = socket.socketpair()
        command = (sys.executable, "-m", PROGRAM)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=theirs.fileno(), stdout=theirs.fileno(), env={**os.environ, **environment}
            )
        return AnalystConnection(process, *await asyncio.open_connection(sock=ours, limit=READ_BYTES))

    def ask(self, body: bytes) -> None:
        self.writer.writelines((FRAME.pack(len(body)), body))

    async def answer(self) -> bytes:
        head = await self.reader.readexactly(FRAME.size)
        return await self.reader.readexactly(FRAME.unpack(head)[0])

    async def end(self, patience_s: float) -> None:
        self.writer.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), patience_s)
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


class AnalystChild:
    """One child process, started when it is first needed and again when it was lost."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._line: AnalystConnection | None = None

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        line = self._line or await self._start()
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(limit_s + GRACE_S):
                line.ask(encode_body((limit_s, works)))
                return decode_answer(await line.answer())
        except (TimeoutError, asyncio.IncompleteReadError, OSError, msgspec.DecodeError):
            await self.end(0.0)
            raise Lost(late=clock() - began >= limit_s) from None
        except BaseException:
            # Cancelled between question and answer: the next one to ask would get the wrong answer.
            await self.end(0.0)
            raise

    async def warm(self) -> None:
        if self._line is None:
            await self._start()

    async def end(self, patience_s: float) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.end(patience_s)

    async def _start(self) -> AnalystConnection:
        """A child that does not even begin is nobody's fault but the surroundings': it is tried again later."""
        line = self._line = await AnalystConnection.open(self._environment)
        try:
            async with asyncio.timeout(START_S_MAX):
                await line.answer()
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            await self.end(0.0)
            raise Unreachable("an analyst does not start", "what it says stands above, on stderr") from None
        except BaseException:
            await self.end(0.0)
            raise
        return line


class ChildAnalysts:
    """So many children; whoever asks gets one that is free."""

    def __init__(self, environment: Mapping[str, str], count: int) -> None:
        self._children = [AnalystChild(environment) for _ in range(count)]
        self._free: asyncio.LifoQueue[AnalystChild] = asyncio.LifoQueue()
        for child in self._children:
            self._free.put_nowait(child)

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        child = await self._free.get()
        try:
            return await child.run(works, limit_s)
        finally:
            self._free.put_nowait(child)

    async def warm(self) -> None:
        await asyncio.gather(*(child.warm() for child in self._children))

    async def close(self) -> None:
        await asyncio.gather(*(child.end(CLOSE_S_MAX) for child in self._children))
