"""Where the jobs' effects are: a service of somebody else on PostgreSQL, that knows of a run only its token.

A job of the type `http` calls it. A run's first act raises the fence of its job; then the bank takes its time; then the
effect and the check of the token are one transaction. The effect of a run whose worker is gone comes all the same. Half
of these wait until the next run has begun, because that is when they do harm: they must be refused.

Every act is noted in a journal, in the transaction that decides about it.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headrace.errors import ClaimLost
from headrace.tables import REQUEST_KEYS, Statements
from headrace_scheduler.handlers.running_job import RunningJob
from headrace_scheduler.orders.database import STATEMENTS as ORDERS
from headrace_scheduler.orders.database import OrdersDatabase
from headrace_scheduler.orders.fenced_sink import FencedSink
from headrace_scheduler.orders.settings import load_orders

STATEMENTS = Statements("headrace_scheduler.chaos")
TABLES = (ORDERS, REQUEST_KEYS, STATEMENTS)
BEGIN, EFFECT = "begin", "effect"
Gone = Callable[[], Awaitable[bool]]
LATE_S_MAX = 60.0
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One act of a run, as it was decided."""

    resource: str
    token: int
    act: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class ShopAccount:
    """What became of the orders, as PostgreSQL has it."""

    orders: int
    paid: int
    shipments: int
    shipped: int
    stock: int


class Bank:
    """`sink` is where it writes: fenced, as that of orders."""

    def __init__(self, database: OrdersDatabase, sink: FencedSink) -> None:
        self._database, self._sink = database, sink
        self._begun: dict[str, list[int]] = defaultdict(list)
        self._running: set[asyncio.Task[bool]] = set()
        self._gone_count = 0

    def start(self, job: RunningJob, seconds: float, fails: int, gone: Gone) -> asyncio.Task[bool]:
        """`pay` in a task that outlives its caller."""
        task = asyncio.create_task(self.pay(job, seconds, fails, gone))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[bool]) -> None:
        """Of a caller that is gone nobody else asks how it ended; the journal has it."""
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    async def settled(self) -> None:
        """Until the effects of all callers that are gone have been decided."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def pay(self, job: RunningJob, seconds: float, fails: int, gone: Gone | None = None) -> bool:
        """One run of a job; False if this run is one of the first `fails`. `ClaimLost`: a later run has begun. `gone`
        says whether its caller is."""
        await self._act(job, BEGIN)
        begun = self._begun[job.job_id]
        begun.append(job.fencing_token)
        number = len(begun)
        await asyncio.sleep(seconds)
        if number <= fails:
            return False
        if gone is not None and await gone():
            await self._wait_for_the_next_run(job)
        await self._act(job, EFFECT)
        return True

    async def _wait_for_the_next_run(self, job: RunningJob) -> None:
        self._gone_count += 1
        if self._gone_count % 2:
            deadline = time.monotonic() + LATE_S_MAX
            while self._begun[job.job_id][-1] == job.fencing_token and time.monotonic() < deadline:
                await asyncio.sleep(LOOK_S)

    async def _act(self, job: RunningJob, act: str) -> None:
        note: dict[str, Any] = {"resource": job.resource, "token": job.fencing_token, "act": act}
        try:
            async with self._sink.unit(job) as tx:
                if act == EFFECT:
                    tx.run("chaos_effect_add", job_id=job.job_id, token=job.fencing_token)
                tx.run("chaos_note", **note, accepted=True)
        except ClaimLost:
            engine = await self._database.engine()
            await engine.run("chaos_note", **note, accepted=False)
            raise

    async def effects(self) -> list[tuple[str, int]]:
        """Every effect: its job and the token of the run that made it."""
        return [(job_id, token) for job_id, token in await self._rows("chaos_effects")]

    async def journal(self) -> list[JournalEntry]:
        return [JournalEntry(*row) for row in await self._rows("chaos_journal")]

    async def effect_count(self) -> int:
        ((count,),) = await self._rows("chaos_effect_count")
        return int(count)

    async def longest_pause_s(self) -> float:
        """The longest time in which nothing was done."""
        ((seconds,),) = await self._rows("chaos_longest_pause")
        return float(seconds)

    async def shop(self) -> ShopAccount:
        ((orders, paid, shipments, shipped, stock),) = await self._rows("chaos_shop")
        return ShopAccount(orders, paid, shipments, shipped, stock)

    async def _rows(self, name: str) -> list[Any]:
        return list(await (await self._database.engine()).rows(name))


@asynccontextmanager
async def open_bank(environment: Mapping[str, str]) -> AsyncIterator[Bank]:
    """On the database of orders."""
    async with OrdersDatabase(load_orders(environment), TABLES) as database:
        await database.engine()
        bank = Bank(database, FencedSink(database))
        yield bank
        await bank.settled()
