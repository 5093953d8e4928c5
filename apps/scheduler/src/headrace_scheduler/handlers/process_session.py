"""A program in a session of its own, so that killing it kills what it has started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import Any

_IF_NOT_ORPHANED = ("/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
"""Whoever asks for the signal after its parent has died never gets it."""


def dying_with_us(argv: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The same command, which the kernel kills when this process ends, however it ends. What the command has started
    is not killed with it, nor is one that changes its user. `FileNotFoundError`: there is no such program."""
    if shutil.which(argv[0], path=variables.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return list(argv)
    return [setpriv, "--pdeathsig=KILL", *_IF_NOT_ORPHANED, str(os.getpid()), *argv]


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
