"""The flows that the kill tests run in worker processes: real effects in a file of their own, and items that kill."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache

import apsw

from headrace import Context, Flow, Out, RetryPolicy, Tally, sink
from headrace.ports import Change
from headrace.testing.rig.workers import WorkerProcesses

Crew = Callable[[str, str, int], WorkerProcesses]
"""Starts so many worker processes of a flow on a store."""

HOLD_S = 1.0
BUSY_MS = 20_000
FAN = 40

FAN_OUT = Flow("fan_out")
POISON = Flow("poison")
SLOW = Flow("slow")
GREEDY = Flow("greedy")
LONG = Flow("long")
TICKING = Flow("ticking")


def open_effects(file: str) -> apsw.Connection:
    connection = apsw.Connection(file)
    connection.set_busy_timeout(BUSY_MS)
    connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = off")
    connection.execute("CREATE TABLE IF NOT EXISTS attempt (key TEXT, fence INTEGER, pid INTEGER)")
    return connection


@cache
def effects() -> apsw.Connection:
    """Opened once per process, in the file the test names."""
    return open_effects(os.environ["KILLS_EFFECTS"])


def note_attempt(context: Context) -> None:
    """Every attempt is written down, whatever becomes of it."""
    effects().execute("INSERT INTO attempt VALUES (?, ?, ?)", (context.effect_key, context.fence, os.getpid()))


# The table has no key: nothing but the sink keeps a second row away.
LEDGER = sink(
    f"sqlite:///{os.environ.get('KILLS_EFFECTS', 'effects.db')}-sink", "CREATE TABLE IF NOT EXISTS applied (key TEXT)"
)


async def append(context: Context) -> None:
    note_attempt(context)
    await LEDGER.once(context.effect(), Change("INSERT INTO applied VALUES (?)", (context.effect_key,)))


@FAN_OUT.stage(feeds="read", sink=LEDGER, concurrency=2, tolerate="100%", retry=RetryPolicy(first_s=0.1, cap_s=0.5))
async def find(number: int, out: Out, context: Context) -> None:
    await asyncio.sleep(0.002)
    for index in range(FAN):
        out.send("read", number * FAN + index, key=f"{number}.{index}")
    await append(context)


@FAN_OUT.stage(sink=LEDGER, concurrency=4, tolerate="100%", retry=RetryPolicy(first_s=0.1, cap_s=0.5))
async def read(number: int, context: Context) -> None:
    await asyncio.sleep(0.004)
    await append(context)
    if number % 97 == 5 and context.attempt == 1:
        raise ValueError("fails the first time")


@FAN_OUT.stage(after="read", name="report", sink=LEDGER)
async def report(tally: Tally, context: Context) -> None:
    assert tally.ended == tally.total
    await append(context)


@TICKING.every(timedelta(seconds=1), misfire="all")
@TICKING.stage
async def tick(moment: str) -> None: ...


@POISON.stage(concurrency=8, tolerate=3)
async def swallow(number: int) -> None:
    if number in (17, 4_000, 9_999):
        os.kill(os.getpid(), signal.SIGKILL)


@SLOW.stage(concurrency=10)
async def nap(number: int) -> None:
    await asyncio.sleep(0.02)


@GREEDY.stage(concurrency=1)
async def grab(number: int, context: Context) -> None:
    """The first attempt of item 0 keeps the interpreter to itself until its hold has passed: the heart cannot beat."""
    first = not effects().execute("SELECT 1 FROM attempt WHERE key = ?", (context.effect_key,)).fetchall()
    note_attempt(context)
    if number == 0 and first:
        ctypes.PyDLL(None).usleep(int(2.5 * HOLD_S * 1_000_000))


@LONG.stage(concurrency=20)
async def last(number: int) -> None:
    """Longer than a worker waits until it settles a part of what it holds, on a loop that is late at its end: then the
    end of the handler and the look of the worker fall into one turn."""
    asyncio.get_running_loop().call_later(1.095, time.sleep, 0.05)
    await asyncio.sleep(1.1)
