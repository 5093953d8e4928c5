"""A command: a program of this machine, in a session of its own, so that stopping it stops what it has started.

It gets the run's token, resource and job id by its environment, and of ours only what programs need to start. A command
that is cancelled is killed: by then the lock is about to be lost, and there is no time for politeness.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from headrace import Dead
from headrace_scheduler.handlers.allow_lists import command_allowed
from headrace_scheduler.handlers.payload_fields import refuse_others, texts_of
from headrace_scheduler.handlers.running_job import RunFailed, RunningJob

INHERITED = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"})
OUTPUT_BYTES_MAX = 16_384


def fencing_environment(environment: Mapping[str, str], resource: str, token: int) -> dict[str, str]:
    """What a child is started with: little of ours, and what fences it."""
    kept = {name: value for name, value in environment.items() if name in INHERITED}
    return {**kept, "FENCING_TOKEN": str(token), "FENCING_RESOURCE": resource}


class Command:
    """`{"type": "command", "argv": ["program", "argument"]}`."""

    def __init__(self, allowed: Sequence[str], environment: Mapping[str, str]) -> None:
        self._allowed, self._inherited = tuple(allowed), environment

    def check(self, payload: Mapping[str, Any]) -> None:
        texts_of(payload, "argv")
        refuse_others(payload, ("argv",))

    async def run(self, job: RunningJob) -> object:
        argv = texts_of(job.payload, "argv")
        if not command_allowed(argv, self._allowed):
            raise Dead(f"{argv[0]} is not allowed: WORKER_COMMAND_ALLOW names no prefix of it", "not_allowed")
        variables = fencing_environment(self._inherited, job.resource, job.fencing_token)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env={**variables, "JOB_ID": job.job_id},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise RunFailed(f"{argv[0]} cannot be started: {error.strerror}") from error
        try:
            output = await _last_of(process)
            code = await process.wait()
        finally:
            await _end(process)
        if code:
            raise RunFailed(f"{argv[0]} ended with {code}: {output[-500:]}")
        return {"exit_code": code, "output": output}


async def _last_of(process: asyncio.subprocess.Process) -> str:
    """The end of what it printed; all of it is read, so that it never waits for us."""
    assert process.stdout is not None
    kept = b""
    while piece := await process.stdout.read(65_536):
        kept = (kept + piece)[-OUTPUT_BYTES_MAX:]
    return kept.decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Whatever of its session is left is killed, also when the command itself has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
