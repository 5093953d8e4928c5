"""A process that dies at a statement of its choice: kill -9, from inside, before the statement is sent.

It runs a job once by hand, so that the statements come in one order. The effect of the job is a line in a file. It is
started by `multiprocessing`, whose server has everything imported: a life takes no longer than what it does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from scheduler_world import open_world

from headrace.core.claims import Loss
from headrace.services import rest
from headrace.sources import ItemSettlement, ItemState
from headrace.tables import Row
from headrace_scheduler.api.job_requests import JobWish
from headrace_scheduler.cron.cron_firer import CronFirer
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.frame import FRAME
from headrace_scheduler.handlers.registry import HandlerRegistry, builtin_handlers
from headrace_scheduler.jobs.values import ENDED
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.reconciler.retention import Retention
from headrace_scheduler.service import job_worker
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.tables.job_tables import JobTables, Write
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import JobSource

FAILURE = Loss(0, "RunFailed", error="RunFailed: no luck")
# Longer than any child takes; the test lets the locks of the dead run out.
LOCK_S = 120.0


@dataclass
class Countdown:
    """Dies when it has counted down."""

    left: int

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class MortalTables:
    inner: JobTables
    countdown: Countdown
    backwards: bool = False

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        self.countdown.step()
        return await self.inner.rows(name, **values)

    async def together(self, *writes: Write) -> None:
        """One after another: whoever dies may have written a part, and nobody says which."""
        for name, values in writes[::-1] if self.backwards else writes:
            await self.rows(name, **values)


class MortalLeases:
    def __init__(self, inner: Any, countdown: Countdown) -> None:
        self._inner, self._countdown = inner, countdown

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        async def counted(*values: Any) -> Any:
            self._countdown.step()
            return await call(*values)

        return counted


def log_beside_answers() -> None:
    """On stdout the nursery answers."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


def run(environment: dict[str, str], job_id: str, die_before: int, end: str, effects: str) -> None:
    """The whole life of the process; it ends with 0 if it did not come to its statement. `end` is the state that the
    run comes to, and may say `backwards`."""
    log_beside_answers()
    asyncio.run(_run(environment, UUID(job_id), Countdown(die_before), end, Path(effects)))


def work(environment: dict[str, str]) -> None:
    """A worker and a reconciler, until every job has ended or one of them has killed the process."""
    log_beside_answers()
    asyncio.run(_work(environment))


def purge(environment: dict[str, str], die_before: int) -> None:
    """Delete what ended a month ago, and die on the way."""
    log_beside_answers()
    asyncio.run(_purge(environment, Countdown(die_before)))


def create(environment: dict[str, str], seed: str, die_before: int) -> None:
    """Create a job, and die on the way."""
    log_beside_answers()
    asyncio.run(_create(environment, seed, Countdown(die_before)))


def fire(environment: dict[str, str], schedule_id: str, ahead_s: float, die_before: int) -> None:
    """Fire the moment of a schedule that is due by a clock so far ahead, and die on the way."""
    log_beside_answers()
    asyncio.run(_fire(environment, UUID(schedule_id), ahead_s, Countdown(die_before)))


async def _run(environment: dict[str, str], job_id: UUID, countdown: Countdown, end: str, effects: Path) -> None:
    state, backwards = ItemState(end.split()[0]), end.endswith(" backwards")
    async with open_world(FRAME.load(environment)) as world:
        candidate = next(each for each in await world.candidates() if each.key == str(job_id))
        tables = AllTables.on(MortalTables(world.recorded, countdown, backwards), world.clock)
        locks: Any = MortalLeases(world.parts.leases, countdown)
        source = JobSource(tables, JobLocks(locks), world.parts.installation.polled)
        item = await source.hold(candidate, f"mortal-{os.getpid()}", LOCK_S)
        assert item is not None
        with effects.open("a") as file:
            file.write(f"{item.key}\n")
        settlement = world.settlement(state)
        if state is not ItemState.DONE:
            settlement = ItemSettlement(state, 1, settlement.decided_at, failure=FAILURE)
        assert await source.settle(item, settlement)


async def _work(environment: dict[str, str]) -> None:
    async with open_world(FRAME.load(environment)) as world:
        worker = job_worker(world.parts, HandlerRegistry(builtin_handlers(world.parts.settings)))
        running, reconciler = asyncio.ensure_future(worker.run()), JobReconciler(world.parts)

        while not all(row.status in ENDED for row in await world.rows()):
            await reconciler.look()
            await rest(asyncio.Event(), 0.05)
        worker.drain()
        await running


async def _purge(environment: dict[str, str], countdown: Countdown) -> None:
    async with open_world(FRAME.load(environment)) as world:
        tables = AllTables.on(MortalTables(world.recorded, countdown), world.clock)
        locks: Any = MortalLeases(world.parts.leases, countdown)
        retention = Retention(replace(world.parts, tables=tables, leases=locks))
        for _ in range(world.parts.installation.polled):
            await retention.step()


async def _create(environment: dict[str, str], seed: str, countdown: Countdown) -> None:
    async with open_world(FRAME.load(environment)) as world:
        requests = world.requests
        requests.tables = AllTables.on(MortalTables(world.recorded, countdown), world.clock)
        await requests.create(JobWish("now", {}), seed)


async def _fire(environment: dict[str, str], schedule_id: UUID, ahead_s: float, countdown: Countdown) -> None:
    async with open_world(FRAME.load(environment)) as world:
        world.clock.move(seconds=ahead_s)
        schedule = await CronRows(world.recorded).find(schedule_id)
        assert schedule is not None
        tables = AllTables.on(MortalTables(world.recorded, countdown), world.clock)
        locks: Any = MortalLeases(world.parts.leases, countdown)
        # By its own clock no time passes: it dies where it shall, and not of being slow.
        creator = FireCreator(tables, JobLocks(locks), world.parts.installation.buckets, monotonic=lambda: 0.0)
        await CronFirer(CronRows(tables.tables), creator, world.clock).attend(schedule)
