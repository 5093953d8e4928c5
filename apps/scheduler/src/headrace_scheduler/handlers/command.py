"""A command: a program of this machine, in a session of its own, so that stopping it stops what it has started.

It gets the run's token, resource and job id by its environment, and of ours only what programs need to start. A command
that is cancelled is killed: by then the lock is about to be lost, and there is no time for politeness.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace import Dead
from headrace_scheduler.handlers.allow_lists import AllowListed, command_allowed
from headrace_scheduler.handlers.payload_fields import refuse_others, texts_of
from headrace_scheduler.handlers.process_session import end_session, start_session
from headrace_scheduler.handlers.running_job import RunFailed, RunningJob

INHERITED = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"})
OUTPUT_BYTES_MAX = 16_384
OUTPUT_S_MAX = 1.0


def fencing_environment(environment: Mapping[str, str], resource: str, token: int) -> dict[str, str]:
    """What a child is started with: little of ours, and what fences it."""
    kept = {name: value for name, value in environment.items() if name in INHERITED}
    return {**kept, "FENCING_TOKEN": str(token), "FENCING_RESOURCE": resource}


class Command(AllowListed):
    """`{"type": "command", "argv": ["program", "argument"]}`."""

    setting = "WORKER_COMMAND_ALLOW"

    def __init__(self, allowed: Sequence[str], environment: Mapping[str, str]) -> None:
        self.allowed, self._inherited = tuple(allowed), environment

    def check(self, payload: Mapping[str, Any]) -> None:
        texts_of(payload, "argv")
        refuse_others(payload, ("argv",))

    def refusal(self, payload: Mapping[str, Any]) -> str:
        argv = texts_of(payload, "argv")
        allowed = command_allowed(argv, self.allowed)
        return "" if allowed else f"{argv[0]} is not allowed: {self.setting} names no prefix of it"

    async def run(self, job: RunningJob) -> object:
        argv = texts_of(job.payload, "argv")
        if refusal := self.refusal(job.payload):
            raise Dead(refusal, "not_allowed")
        variables = fencing_environment(self._inherited, job.resource, job.fencing_token)
        output = CommandOutput()
        try:
            with output.lent() as pipe:
                process = await _started(argv, {**variables, "JOB_ID": job.job_id}, pipe)
            try:
                code = await process.wait()
            finally:
                await end_session(process)
            text = await output.text()
        finally:
            output.close()
        if code:
            raise RunFailed(f"{argv[0]} ended with {code}: {text[-500:]}")
        return {"exit_code": code, "output": text}


class CommandOutput:
    """The end of what a command printed; all of it is read, so that it never waits for us.

    The pipe is our own: asyncio counts a process as ended only when all that it has started closed theirs.
    """

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        self._kept = b""
        self._file = os.fdopen(reading, "rb", 0)
        self._reading = asyncio.ensure_future(self._read())
        self._reading.add_done_callback(lambda _: self._file.close())

    @contextlib.contextmanager
    def lent(self) -> Iterator[int]:
        """The end to write to, while a process is started with it."""
        try:
            yield self._writing
        finally:
            os.close(self._writing)

    async def text(self) -> str:
        """When the command has ended; a child that left its session may hold the pipe for ever."""
        await asyncio.wait([self._reading], timeout=OUTPUT_S_MAX)
        return self._kept.decode("utf-8", "replace")

    def close(self) -> None:
        self._reading.cancel()

    async def _read(self) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._file)
        try:
            while piece := await reader.read(65_536):
                self._kept = (self._kept + piece)[-OUTPUT_BYTES_MAX:]
        finally:
            transport.close()


async def _started(argv: Sequence[str], environment: Mapping[str, str], output: int) -> asyncio.subprocess.Process:
    streams = {"stdin": asyncio.subprocess.DEVNULL, "stdout": output, "stderr": asyncio.subprocess.STDOUT}
    try:
        return await start_session(argv, environment, **streams)
    except OSError as error:
        raise RunFailed(f"{argv[0]} cannot be started: {error.strerror}") from None
