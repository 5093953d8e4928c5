"""A program in a session of its own, so that killing it kills what it has started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any


async def start_session(
    argv: Sequence[str], environment: Mapping[str, str], **streams: Any
) -> asyncio.subprocess.Process:
    """A process that is cancelled while it starts may have started others: it is awaited, and ended with them. asyncio
    would kill the process alone. `streams` are those of `asyncio.create_subprocess_exec`."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*argv, env=dict(environment), start_new_session=True, **streams)
    )
    try:
        return await asyncio.shield(starting)
    except OSError:
        raise
    except BaseException as stopped:
        # At the end of its hold a handler takes no further step, so this is not left to one.
        starting.add_done_callback(_kill_started)
        if isinstance(stopped, asyncio.CancelledError):
            await asyncio.wait([starting])
            if starting.exception() is None:
                await end_session(starting.result())
        raise


def kill_session(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def end_session(process: asyncio.subprocess.Process) -> int:
    """Whatever of its session is left is killed, also when the program itself has ended. Its exit code."""
    kill_session(process)
    return await process.wait()


def _kill_started(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        kill_session(starting.result())
