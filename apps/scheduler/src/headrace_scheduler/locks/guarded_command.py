"""A command that runs while a lock is held, and no longer.

The lock counts from before a renewal was asked for, on this machine's monotonic clock, and is renewed at a third of it.
One that could not be renewed kills the command with all it has started while a tenth is left: when the lock can be
another holder's, the command is gone. Nobody is there to do so when this process is killed with -9: the kernel does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import CallerError, HeadraceError
from headrace.services import LockClient
from headrace_scheduler.handlers.process_session import dying_with_us, end_session, start_session
from headrace_scheduler.jobs.values import RESOURCE

RENEWED_AT, DROPPED_AT = 1 / 3, 0.9
# A server that does not answer is asked again so often within the time that is left.
AGAIN_AT = 1 / 20


@dataclass(frozen=True, slots=True)
class GuardedCommand:
    """What is run, and under which lock."""

    resource: str
    holder: str
    ttl_s: float
    argv: Sequence[str]
    environment: Mapping[str, str]

    def variables(self, token: int) -> dict[str, str]:
        """All of the caller's environment, and what fences the command."""
        own = {
            "FENCING_TOKEN": str(token),
            "FENCING_RESOURCE": self.resource,
            "JOB_ID": self.resource.removeprefix(RESOURCE),
        }
        return {**self.environment, **own}


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """`code` as a shell has it; `lost`: the command was killed because its lock was."""

    code: int
    lost: bool


async def run_guarded(client: LockClient, command: GuardedCommand, token: int) -> CommandEnd:
    """Run it to its end, or to that of its lock, whichever comes first."""
    # The grant may have been long on its way, and was asked for several times: a renewal is counted from here.
    asked_at = time.monotonic()
    if not await client.renew(command.resource, command.holder, token, command.ttl_s):
        return CommandEnd(0, lost=True)
    try:
        variables = command.variables(token)
        process = await start_session(dying_with_us(command.argv, variables), variables)
    except OSError as error:
        await client.release(command.resource, command.holder, token)
        raise CallerError(f"{command.argv[0]} cannot be started: {error.strerror}") from None
    keeping = asyncio.ensure_future(_keep(client, command, token, asked_at))
    ending = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait((keeping, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        lost = not ending.done()
        keeping.cancel()
        code = await end_session(process)
    if not lost:
        with contextlib.suppress(HeadraceError):
            await client.release(command.resource, command.holder, token)
    return CommandEnd(128 - code if code < 0 else code, lost)


async def _keep(client: LockClient, command: GuardedCommand, token: int, asked_at: float) -> None:
    """Return when the lock is lost, or is about to be."""
    ttl_s = command.ttl_s
    due_at = asked_at + ttl_s * RENEWED_AT
    while True:
        drop_at = asked_at + ttl_s * DROPPED_AT
        await asyncio.sleep(max(0.0, min(due_at, drop_at) - time.monotonic()))
        now = time.monotonic()
        if now >= drop_at:
            return
        try:
            async with asyncio.timeout(drop_at - now):
                if not await client.renew(command.resource, command.holder, token, ttl_s):
                    return
        except (HeadraceError, TimeoutError):
            due_at = time.monotonic() + ttl_s * AGAIN_AT
            continue
        asked_at, due_at = now, now + ttl_s * RENEWED_AT
