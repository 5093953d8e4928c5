"""Orders and the scheduler together: what is sold is paid and shipped once, whoever dies, freezes or is away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from orders_child import DIES_IN_PAYMENT
from orders_shop import PAYMENTS, PRICE, SHIPMENTS, Gate, Market, no_report
from scheduler_losses import run_all_out, run_out
from waiting import eventually

from headrace.errors import HeadraceError
from headrace.testing.rig.children import FROZEN, state_of
from headrace_scheduler.handlers.registry import payload_of
from headrace_scheduler.handlers.running_job import RunningJob
from headrace_scheduler.orders.scheduler_client import SchedulerClient
from headrace_scheduler.orders.values import OrderJob, job_event
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler

STOCK, CUSTOMERS = 10, 50
SETTLED_S_MAX = 120.0


@contextmanager
def child(*words: str) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, str(Path(__file__).with_name("orders_child.py")), *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def frozen(process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, "the child has ended"
    return state_of(process.pid) == FROZEN


class Away(httpx.AsyncBaseTransport):
    """A scheduler that always gives one answer, and at first none at all."""

    def __init__(self, status: int, broken: int = 0) -> None:
        self.asked, self._status, self._broken = 0, status, broken

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.asked <= self._broken:
            raise httpx.ConnectError("refused")
        return httpx.Response(self._status)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[SchedulerClient]:
        async with httpx.AsyncClient(transport=self, base_url="http://127.0.0.1") as client:
            yield SchedulerClient(client)


@pytest.mark.parametrize(
    ("status", "broken", "heals"), [(201, 1, True), (503, 0, True), (409, 0, True), (422, 0, False), (401, 0, False)]
)
async def test_what_the_scheduler_refuses_for_good_is_told_from_an_outage(
    status: int, broken: int, heals: bool
) -> None:
    async with Away(status, broken).client() as scheduler:
        with pytest.raises(HeadraceError) as refused:
            await scheduler.publish([job_event(OrderJob.PAYMENT, "1")])
    assert refused.value.heals is heals


@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_an_event_that_is_sent_again_is_the_same_job(market: Market) -> None:
    event = job_event(OrderJob.PAYMENT, (await market.shop.place()).order_id)
    for _ in range(2):
        assert await market.scheduler.publish([event]) == [True]
    assert len(await market.world.candidates()) == 1


async def buy(market: Market, customer: int) -> int:
    body = {"customer_id": f"customer-{customer}", "items": [{"sku": "tea", "quantity": 1}]}
    answer = await market.shop.client.post("/orders", json=body, headers={"Idempotency-Key": f"buy-{customer}"})
    return answer.status_code


async def test_fifty_orders_on_a_stock_of_ten_though_a_worker_is_killed(
    market: Market, orders_environment: dict[str, str]
) -> None:
    shop = market.shop
    with child("dies", json.dumps(orders_environment)) as process:
        async with market.relaying():
            answers = await asyncio.gather(*(buy(market, customer) for customer in range(CUSTOMERS)))
            assert Counter(answers) == {201: STOCK, 409: CUSTOMERS - STOCK}
            code = await asyncio.to_thread(process.wait, SETTLED_S_MAX)
    assert code == -signal.SIGKILL
    assert len(shop.rows(SHIPMENTS)) < STOCK - DIES_IN_PAYMENT
    await run_all_out(market.world)
    market.world.clock.move(seconds=YOUNG.total_seconds() + 2)
    async with market.working() as reconciler:

        async def all_shipped() -> bool:
            await reconciler.look()
            return len(shop.rows(SHIPMENTS)) >= STOCK

        await eventually(all_shipped, "every order is shipped", SETTLED_S_MAX)
    sold = {order_id for (order_id,) in shop.rows("SELECT order_id FROM orders WHERE status = 'shipped'")}
    assert len(sold) == len(shop.rows("SELECT order_id FROM orders")) == STOCK
    assert Counter(row[0] for row in shop.rows(PAYMENTS)) == dict.fromkeys(sold, 1)
    assert Counter(row[0] for row in shop.rows(SHIPMENTS)) == dict.fromkeys(sold, 1)
    assert sum(row[2] for row in shop.rows(PAYMENTS)) == STOCK * PRICE
    assert shop.rows("SELECT stock FROM inventory") == [(0,)]


async def check_that_a_frozen_worker_changes_nothing(
    market: Market, orders_environment: dict[str, str], deed: str = "freezes"
) -> None:
    """It wakes when the next run has begun and has not paid: whatever it paid now would stand."""
    shop, gate = market.shop, Gate()
    order = await shop.place()
    job_id = await market.payment_job(order.order_id)
    with child(deed, json.dumps(orders_environment), str(job_id)) as process:
        await eventually(lambda: frozen(process), "the worker has frozen", SETTLED_S_MAX)
        await run_out(market.world, job_id)
        market.world.clock.move(seconds=YOUNG.total_seconds() + 2)
        reconciler = JobReconciler(market.world.parts)

        async def put_back() -> bool:
            await reconciler.look()
            return await market.world.status(job_id) == "pending"

        await eventually(put_back, "the job was put back", SETTLED_S_MAX)
        market.world.clock.move(seconds=1)
        item = await market.world.hold(job_id, "second")
        assert item is not None
        job = RunningJob(item.key, payload_of(str(item.payload)), f"job:{item.key}", item.fence, 1, no_report)
        running = asyncio.ensure_future(shop.handlers(gate)[OrderJob.PAYMENT].run(job))
        await gate.asked.wait()
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout is not None
        ended = json.loads(await asyncio.to_thread(process.stdout.readline))
    paid_late = shop.rows(PAYMENTS)
    gate.opened.set()
    await asyncio.gather(running, return_exceptions=True)
    assert (paid_late, ended) == ([], "ClaimLost")
    assert [(row[0], row[3]) for row in shop.rows(PAYMENTS)] == [(order.order_id, item.fence)]


async def test_a_worker_frozen_in_a_payment_changes_nothing(market: Market, orders_environment: dict[str, str]) -> None:
    await check_that_a_frozen_worker_changes_nothing(market, orders_environment)


@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_without_its_fence_it_would_have_paid(market: Market, orders_environment: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="ClaimLost"):
        await check_that_a_frozen_worker_changes_nothing(market, orders_environment, "freezes_unfenced")


@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_an_order_waits_while_the_scheduler_is_away(market: Market) -> None:
    shop, away = market.shop, Away(503, broken=1)
    order = await shop.place()
    async with away.client() as scheduler, replace(market, scheduler=scheduler).relaying():
        await eventually(lambda: away.asked >= 2, "it was tried twice")
    assert await shop.status(order.order_id) == "pending"

    async def shipped() -> bool:
        return await shop.status(order.order_id) == "shipped"

    async with market.working():
        await eventually(shipped, "the order is shipped", SETTLED_S_MAX)
    assert (await shop.engine.outbox.lag()).unpublished == 0


@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_a_withdrawn_article_is_refunded_by_jobs(market: Market) -> None:
    shop = market.shop
    order = await shop.place(4)
    await shop.book.withdraw_article("tea")

    async def refunded() -> bool:
        return await shop.status(order.order_id) == "refunded"

    async with market.working():
        await eventually(refunded, "the order is refunded", SETTLED_S_MAX)
    assert shop.rows("SELECT stock FROM inventory") == [(10,)]
    assert len(shop.rows("SELECT order_id FROM refunds")) == 1
    assert shop.rows(SHIPMENTS) == []
