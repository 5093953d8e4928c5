"""A service says for how long its workers have not got on, so that a supervisor can end its process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace.runtime.programs import READY_VARIABLE
from headrace.services import HttpSettings, Service, Sources, SupervisedWorker, read
from headrace.services.service import serve


@dataclass(frozen=True, slots=True)
class StuckWorker:
    """One that has been still for so long."""

    seconds: float
    handling_s_max: float = 30.0

    def still_s(self) -> float:
        return self.seconds


class Stuck(Service):
    name = "stuck"

    def workers(self) -> Sequence[SupervisedWorker]:
        return [StuckWorker(0.0), StuckWorker(12.5, 60.0)]


async def said_by(service: Service, lines: int) -> list[str]:
    """What a parent hears of a service by its pipe."""
    reading, writing = os.pipe()
    # Taken out of the environment by whoever says that it is ready.
    os.environ[READY_VARIABLE] = str(writing)
    stops: list[asyncio.Event] = []

    @asynccontextmanager
    async def opening(stop: asyncio.Event) -> AsyncIterator[Service]:
        stops.append(stop)
        yield service

    settings = read(HttpSettings, Sources("REPORTS_", {}, {"http_port": 0}))
    serving = asyncio.ensure_future(serve(opening, settings, "shop", lambda _line: None))
    with os.fdopen(reading) as pipe:
        heard = [(await asyncio.to_thread(pipe.readline)).strip() for _ in range(lines)]
        stops[0].set()
        await serving
    os.close(writing)
    return heard


async def test_the_worst_of_its_workers_is_reported() -> None:
    ready, report = await said_by(Stuck(), 2)
    assert ready.startswith("http://")
    assert report == "12.5 60.0"


async def test_a_service_without_workers_says_nothing_more() -> None:
    (ready,) = await said_by(Service(), 1)
    assert ready.startswith("http://")
