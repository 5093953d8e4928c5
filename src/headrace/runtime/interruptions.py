"""What ends a handler and is not its own: the process is interrupted, or its coroutine is closed from outside."""

from __future__ import annotations

import asyncio
from typing import Any


def interrupts(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether this error, which came out of a handler that `task` runs, must end the task as well.

    `GeneratorExit` is thrown into a coroutine that is closed from outside, and then its task is not the one that runs.
    One that a handler raises itself is a failed attempt like any other: a lane that ended of it would not be missed,
    and its item would be held for ever.
    """
    if isinstance(error, GeneratorExit):
        return task is None or _running() is not task
    return isinstance(error, KeyboardInterrupt)


def _running() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: the coroutine is collected as garbage
        return None
