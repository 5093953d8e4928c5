"""The flows that the benches run, imported by their worker processes."""

from __future__ import annotations

import asyncio
import os
import struct
import time

import msgspec

from headrace import Flow

TIMES_VARIABLE = "HEADRACE_BENCH_TIMES"
TIME = struct.Struct("<qd")


class Reading(msgspec.Struct, frozen=True):
    """A typed payload of about 130 bytes."""

    number: int
    device: str
    place: str
    celsius: float
    humidity: float
    note: str


def reading(number: int) -> Reading:
    note = f"routine reading of sensor {number % 1000:03d}, nothing to report"
    return Reading(number, f"device-{number % 997:04d}", "hall-7/row-3", 20.0 + number % 10, 0.5, note)


class Tick(msgspec.Struct, frozen=True):
    number: int


fanout = Flow("fanout")
latency = Flow("latency")
tail = Flow("tail")


@fanout.stage(concurrency=32)
async def take(_reading: Reading) -> None:
    """Nothing: the bench measures what happens around a handler."""


@latency.stage
async def note(tick: Tick) -> None:
    """Write down when the handler started, on the clock that all processes share."""
    at = time.monotonic()
    descriptor = os.open(os.environ[TIMES_VARIABLE], os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, TIME.pack(tick.number, at))
    os.close(descriptor)


@tail.stage(concurrency=1)
async def rest(_tick: Tick) -> None:
    await asyncio.sleep(0.02)
