"""The one way for a test to wait for what it cannot be told of: look, rest a moment, look again, until a deadline.

What can be awaited is awaited; this is for other processes, servers and files, which have no signal to give.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
Why = str | Callable[[], str]
# For what must come at all, on a machine that is busy with other tests. Who asks how soon says so.
PATIENCE_S = 60.0
TRIES = 10
# Whoever looks rests three times as long as the look took: a look that reads all processes or asks over HTTP takes the
# processor from what it waits for.
REST_S_MIN, REST_S_MAX, REST = 0.01, 0.25, 3.0


async def turn() -> None:
    """One turn of the loop, for what is ready to run; it takes no time."""
    await asyncio.sleep(0)


def until(condition: Callable[[], T | None], why: Why, timeout_s: float = PATIENCE_S) -> T:
    """The first true answer of the condition; `why` says what is waited for, if need be only when it did not come."""
    deadline = time.monotonic() + timeout_s
    began = time.monotonic()
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_missed(why, timeout_s))
        time.sleep(_rest_s(began))
        began = time.monotonic()
    return answer


async def eventually(
    condition: Callable[[], T | Awaitable[T | None] | None],
    why: Why,
    timeout_s: float = PATIENCE_S,
    otherwise: type[Exception] = AssertionError,
) -> T:
    """The same beside a running loop; the deadline also ends a look that hangs.

    A test that must fail on a broken twin waits with `otherwise=TimeoutError`: there an AssertionError is the proof
    that the twin was noticed, and a wait that ran out proves nothing.
    """
    try:
        async with asyncio.timeout(timeout_s) as limit:
            began = time.monotonic()
            while not (answer := await _look(condition)):
                await asyncio.sleep(_rest_s(began))
                began = time.monotonic()
            return answer
    except TimeoutError:
        if not limit.expired():
            raise
        raise otherwise(_missed(why, timeout_s)) from None


def by_the_clock(proof: Callable[[], None], tries: int = TRIES) -> None:
    """A proof that something takes so long and no longer. Where it fails it is made again, because the machine may have
    been busy with something else; what is too slow, or too quick, is so each time."""
    for attempt in range(1, tries + 1):
        try:
            proof()
        except AssertionError:
            if attempt == tries:
                raise
        else:
            return


async def _look(condition: Callable[[], T | Awaitable[T | None] | None]) -> T | None:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer


def _rest_s(began: float) -> float:
    """After a look that began then."""
    return min(REST_S_MAX, max(REST_S_MIN, REST * (time.monotonic() - began)))


def _missed(why: Why, timeout_s: float) -> str:
    return f"not within {timeout_s:g} s: {why if isinstance(why, str) else why()}"
