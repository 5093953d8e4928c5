"""Stopping politely: a signal asks, what is in hand is finished, and a second signal is not asked."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import structlog

from headrace.core.errors import HeadraceError

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN_S = 0.5
# One that stays away is logged now and then.
LOG_AGAIN_S = 10.0
log = structlog.get_logger("headrace.services")


class Stopped(Exception):
    """The end was asked for before there was a beginning."""


@contextlib.contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop`; the same signal again ends the process at once."""
    loop = asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, ask, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def rest(stop: asyncio.Event, seconds: float, bell: asyncio.Event | None = None) -> None:
    """For so long, or until the stop or the bell."""
    waits = [asyncio.ensure_future(event.wait()) for event in (stop, bell) if event is not None]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def patiently(work: Callable[[], Awaitable[T]], wait_s: float, stop: asyncio.Event) -> T:
    """Servers come up in any order and may break off: what heals is tried again for `wait_s`. Raises `Stopped` if the
    stop comes first."""
    now = asyncio.get_running_loop().time
    deadline = now() + wait_s
    logged, log_again_at = "", 0.0
    while not stop.is_set():
        try:
            return await work()
        except HeadraceError as error:
            if not error.heals or now() >= deadline:
                raise
            if str(error) != logged or now() >= log_again_at:
                logged, log_again_at = str(error), now() + LOG_AGAIN_S
                log.warning("server.awaited", error=logged)
            await rest(stop, AGAIN_S)
    raise Stopped
