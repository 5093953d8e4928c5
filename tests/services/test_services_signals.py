"""A signal asks, and the same one again is not asked; with an event loop and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.services import Stop

DEAF = """
import asyncio
from headrace.services import stopping

async def main():
    stop = asyncio.Event()
    with stopping(stop):
        print("listens", flush=True)
        await stop.wait()
        print("asked", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
PLAIN = """
import threading
from headrace.services import Stop

stop = Stop()
with stop.listening():
    print("listens", flush=True)
    stop.unless_asked(threading.Event().wait)
    print("asked" if stop.asked else "slept", flush=True)
"""


@contextmanager
def started(program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listens\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_not_asked(number: signal.Signals) -> None:
    with started(DEAF) as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(number)
        # SIGINT becomes a KeyboardInterrupt, which Python ends with the signal as well.
        assert process.wait(60) == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_pause_without_a_loop(number: signal.Signals) -> None:
    with started(PLAIN) as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        assert process.wait(60) == 0


def test_what_is_asked_for_between_two_pauses_is_kept() -> None:
    stop, paused = Stop(), []
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        stop.unless_asked(lambda: paused.append(1))
    assert (stop.asked, paused) == (True, [])
