"""What happens in the demo: orders and sales come in, a worker is killed, another is frozen and wakes too late.

Orders are placed with the service of orders, for more than there is; its payment and its shipment are jobs. Sales are
jobs of a till, because what a till does in the middle of a payment can be seen from outside.

Two sales take longer than the others. Whoever pays the first is killed with -9; whoever pays the second is frozen with
its till until another worker has paid, and then woken: the till pays with the token it has, and is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import OperatorError
from headrace.testing import ServiceProcess
from headrace_scheduler.demo.ledger import FencedRun, PaymentAnswer, PaymentLedger
from headrace_scheduler.demo.receipt import SalesReceipt
from headrace_scheduler.demo.shop import DemoShop
from headrace_scheduler.frame import service_program
from headrace_scheduler.orders.settings import DATABASE_FILE as ORDERS_FILE
from headrace_scheduler.settings import DATABASE_FILE

TILL = "headrace_scheduler.demo.till"
LEDGER_FILE = "ledger.db"
LOCK_TTL_MS = 2_000
QUICK_S, SLOW_S = 0.1, 1.0
LOOK_S = 0.05
WAIT_S_MAX = 60.0
SETTINGS = {
    "LOCK_TTL_MS": str(LOCK_TTL_MS),
    "WORKER_POLL_INTERVAL_MS": "100",
    "WORKER_MAX_IN_PROGRESS": "4",
}
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Sale:
    """A job of the demo."""

    name: str
    amount: int
    job_id: str

    @property
    def resource(self) -> str:
        return f"job:{self.job_id}"


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """What happened so many seconds after the beginning."""

    at_s: float
    text: str


@dataclass
class Story:
    """One run of the demo in a folder of its own. `events` and `runs` are for the page."""

    folder: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
    sales: list[Sale] = field(default_factory=list)
    events: list[StoryEvent] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    killed: int = 0
    frozen: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def tell(self, count: int) -> SalesReceipt:
        """All of it; the receipt has no page yet."""
        import httpx

        self._begun = time.monotonic()
        self._ledger = PaymentLedger(self.folder / LEDGER_FILE)
        variables = {**self.environment, **SETTINGS, "SCHEDULER_HOME": str(self.folder)}
        self._variables = {**variables, "WORKER_COMMAND_ALLOW": " ".join(self._argv()[:4])}
        try:
            async with AsyncExitStack() as stack:
                self._stack = stack
                names = ("api", "worker", "worker", "reconciler")
                self._api, *workers, _ = await asyncio.gather(*map(self._start, names))
                self._client = await stack.enter_async_context(
                    httpx.AsyncClient(base_url=self._api.url, timeout=30, trust_env=False)
                )
                shop = await self._shop()
                await self._sell(count)
                await self._kill_one(workers)
                await self._freeze_one(workers)
                for sale in self.sales:
                    await self._completed(sale)
                await self._until(shop.all_shipped, "every order is shipped")
                return await self._receipt(shop)
        finally:
            self._ledger.close()

    async def _shop(self) -> DemoShop:
        import httpx

        service = await self._start("orders", ORDERS_WORKER_URL=self._api.url)
        client = httpx.AsyncClient(base_url=service.url, timeout=30, trust_env=False)
        shop = DemoShop(await self._stack.enter_async_context(client), self.folder / ORDERS_FILE)
        await shop.open()
        self._note(f"{len(shop.orders)} orders are placed at {service.url}/orders, {shop.turned_away} find no stock")
        return shop

    async def _sell(self, count: int) -> None:
        for _ in range(count):
            await self._sale(QUICK_S)
        self._note(f"{count} sales come in over {self._api.url}/jobs")

    async def _kill_one(self, workers: list[ServiceProcess]) -> None:
        sale = await self._sale(SLOW_S)
        run = await self._begun_run(sale)
        # The till stands still until its worker is dead: on a busy machine it might have paid by then.
        _signal(run.pid, signal.SIGSTOP)
        worker = await self._holder(sale, workers)
        worker.kill()
        workers.remove(worker)
        _signal(run.pid, signal.SIGCONT)
        self.killed += 1
        self._note(f"worker {worker.pid} is killed with -9 while it pays {sale.name}")

    async def _freeze_one(self, workers: list[ServiceProcess]) -> None:
        sale = await self._sale(SLOW_S)
        first = await self._begun_run(sale)
        _signal(first.pid, signal.SIGSTOP)
        worker = await self._holder(sale, workers)
        await self._freeze(worker)
        self.frozen += 1
        self._note(f"worker {worker.pid} is frozen while it pays {sale.name} with token {first.token}")
        another = await self._start("worker")
        self._note(f"worker {another.pid} takes the place of the dead one")
        document = await self._completed(sale)
        token = document["last_run"]["fencing_token"]
        self._note(f"worker {another.pid} has paid {sale.name} with token {token}")
        # The till first: its worker would end it at once, and it shall try.
        _signal(first.pid, signal.SIGCONT)
        await self._until(self._refused, "the late payment is refused")
        worker.wake()
        self._note(f"worker {worker.pid} wakes: its payment with token {first.token} is refused")

    async def _freeze(self, worker: ServiceProcess) -> None:
        """Between two of its writes: with SQLite, one that stops in the middle of one stops everybody."""
        while True:
            worker.freeze()
            try:
                with closing(
                    sqlite3.connect(self.folder / DATABASE_FILE, timeout=LOOK_S, isolation_level=None)
                ) as file:
                    file.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                worker.wake()
                await asyncio.sleep(LOOK_S)

    async def _refused(self) -> int | None:
        return self._ledger.count(PaymentAnswer.REFUSED) or None

    async def _sale(self, seconds: float) -> Sale:
        number = len(self.sales) + 1
        name, amount = f"sale-{number:03}", 10_000 + number * 500
        payload = {"type": "command", "argv": [*self._argv(), name, str(amount), str(seconds)]}
        answer = await self._client.post("/jobs", json={"schedule": "now", "payload": payload})
        sale = Sale(name, amount, answer.raise_for_status().json()["job_id"])
        self.sales.append(sale)
        return sale

    async def _begun_run(self, sale: Sale) -> FencedRun:
        async def look() -> FencedRun | None:
            return self._ledger.run_of(sale.resource)

        return await self._until(look, f"{sale.name} is being paid")

    async def _holder(self, sale: Sale, workers: list[ServiceProcess]) -> ServiceProcess:
        async def look() -> ServiceProcess | None:
            run = (await self._job(sale))["last_run"]
            # A worker's id names its machine, its process and its life.
            return next((each for each in workers if run and f":{each.pid}:" in run["worker_id"]), None)

        return await self._until(look, f"{sale.name} has a worker")

    async def _completed(self, sale: Sale) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            document = await self._job(sale)
            return document if document["status"] == "completed" else None

        return await self._until(look, f"{sale.name} is completed")

    async def _job(self, sale: Sale) -> dict[str, Any]:
        found: dict[str, Any] = (await self._client.get(f"/jobs/{sale.job_id}")).raise_for_status().json()
        return found

    async def _receipt(self, shop: DemoShop) -> SalesReceipt:
        completed = 0
        for sale in self.sales:
            completed += (await self._job(sale))["status"] == "completed"
            runs = (await self._client.get(f"/jobs/{sale.job_id}/runs")).raise_for_status().json()["runs"]
            self.runs += [{"sale": sale.name, **run} for run in runs]
        paid, counts = self._ledger.payments(), shop.counts()
        return SalesReceipt(
            orders_sold=len(shop.orders),
            orders_paid=counts.paid,
            orders_shipped=counts.shipped,
            stock_left=counts.stock_left,
            sold=len(self.sales),
            completed=completed,
            paid=len(paid),
            amount_sold=sum(sale.amount for sale in self.sales),
            amount_paid=sum(paid.values()),
            killed=self.killed,
            frozen=self.frozen,
            takeovers=sum(run["status"] == "lost" for run in self.runs),
            repeats_left_alone=self._ledger.count(PaymentAnswer.PAID_BEFORE),
            late_payments_refused=self._ledger.count(PaymentAnswer.REFUSED),
            seconds=round(time.monotonic() - self._begun, 2),
            page="",
        )

    def _argv(self) -> list[str]:
        return [sys.executable, "-m", TILL, str(self.folder / LEDGER_FILE)]

    async def _start(self, name: str, **more: str) -> ServiceProcess:
        log = self.folder / f"{name}-{next(self._numbers)}.log"
        program = service_program(name, {**self._variables, **more})
        started = await self._stack.enter_async_context(ServiceProcess(program, log))
        self._note(f"{name} {started.pid} is ready at {started.url}")
        return started

    async def _until(self, look: Callable[[], Awaitable[Found | None]], what: str) -> Found:
        deadline = time.monotonic() + WAIT_S_MAX
        while (found := await look()) is None:
            if time.monotonic() > deadline:
                raise OperatorError(f"not within {WAIT_S_MAX:g} s: {what}", f"see the logs in {self.folder}")
            await asyncio.sleep(LOOK_S)
        return found

    def _note(self, text: str) -> None:
        self.events.append(StoryEvent(time.monotonic() - self._begun, text))
        self.say(text)


def _signal(pid: int, number: signal.Signals) -> None:
    """A program that has ended meanwhile needs none."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
