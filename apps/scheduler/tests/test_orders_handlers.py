"""Payment, fulfilment, refund and restock: each effect once, in the status that allows it, and never by a late run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from orders_shop import PAYMENTS, PRICE, SHIPMENTS, Gate, Shop, UnfencedSink, job_of

from headrace import Dead
from headrace.adapters.postgres.tables import ANSWER_S_MAX
from headrace.errors import ClaimLost, Conflict, InvalidPayload
from headrace_scheduler.handlers.registry import HandlerRegistry
from headrace_scheduler.orders.order_handlers import PaymentLimit
from headrace_scheduler.orders.values import JOB_SECONDS_MAX, OrderJob

REFUNDS = "SELECT order_id, idempotency_key, amount, fence FROM refunds"


async def test_an_order_is_paid_and_shipped(shop: Shop) -> None:
    order = await shop.place(2)
    assert await shop.run(OrderJob.PAYMENT, order.order_id, 7) == {"status": "paid"}
    assert shop.rows(PAYMENTS) == [(order.order_id, f"payment:{order.order_id}", 2 * PRICE, 7)]
    assert await shop.status(order.order_id) == "paid"
    assert await shop.run(OrderJob.FULFILMENT, order.order_id, 9) == {"status": "shipped"}
    assert shop.rows(SHIPMENTS) == [(order.order_id, 9)]
    assert await shop.status(order.order_id) == "shipped"


async def test_a_repeat_of_any_job_changes_nothing(shop: Shop) -> None:
    order = await shop.place(2)
    for fence in (1, 2):
        await shop.run(OrderJob.PAYMENT, order.order_id, fence)
    for fence in (1, 2):
        await shop.run(OrderJob.FULFILMENT, order.order_id, fence)
    assert [row[3] for row in shop.rows(PAYMENTS)] == [1]
    assert shop.rows(SHIPMENTS) == [(order.order_id, 1)]
    assert await shop.run(OrderJob.REFUND, order.order_id) == {"status": "shipped"}
    assert await shop.run(OrderJob.RESTOCK, order.order_id) == {"status": "shipped"}
    assert shop.rows(REFUNDS) == []
    assert (await shop.book.article("tea")).stock == 8


async def test_two_jobs_for_one_payment_pay_once(shop: Shop) -> None:
    """Another job has tokens of its own: there the key and the order's status decide."""
    order, gate = await shop.place(), Gate()
    handler = shop.handlers(gate)[OrderJob.PAYMENT]
    runs = [handler.run(job_of(OrderJob.PAYMENT, order.order_id, 1, job_id)) for job_id in ("one", "two")]
    both = asyncio.gather(*runs, return_exceptions=True)
    await gate.asked.wait()
    gate.opened.set()
    ended = await both
    assert {"status": "paid"} in ended
    assert [type(each) for each in ended if isinstance(each, Exception)] in ([], [Conflict])
    assert len(shop.rows(PAYMENTS)) == 1


async def test_an_order_that_was_rejected_meanwhile_is_not_paid(shop: Shop) -> None:
    order, gate = await shop.place(), Gate()
    other = shop.handlers(gate)[OrderJob.PAYMENT].run(job_of(OrderJob.PAYMENT, order.order_id, 1, "other"))
    paying = asyncio.ensure_future(other)
    await gate.asked.wait()
    await shop.run(OrderJob.PAYMENT, order.order_id, provider=PaymentLimit(0))
    gate.opened.set()
    with pytest.raises(Conflict):
        await paying
    assert (shop.rows(PAYMENTS), await shop.status(order.order_id)) == ([], "rejected")


async def test_a_refused_payment_rejects_the_order_and_gives_the_stock_back(shop: Shop) -> None:
    order = await shop.place(3)
    limit = PaymentLimit(3 * PRICE - 1)
    for fence in (1, 2):
        assert await shop.run(OrderJob.PAYMENT, order.order_id, fence, provider=limit) == {"status": "rejected"}
    assert await shop.status(order.order_id) == "rejected"
    assert (await shop.book.article("tea")).stock == 10
    assert shop.rows(PAYMENTS) == []
    assert await shop.run(OrderJob.FULFILMENT, order.order_id) == {"status": "rejected"}
    assert await shop.run(OrderJob.PAYMENT, (await shop.place(2)).order_id, provider=limit) == {"status": "paid"}


async def test_what_cannot_be_shipped_is_refunded_and_given_back(shop: Shop) -> None:
    order = await shop.place(3)
    await shop.run(OrderJob.PAYMENT, order.order_id)
    await shop.book.withdraw_article("tea")
    for fence in (1, 2):
        assert await shop.run(OrderJob.FULFILMENT, order.order_id, fence) == {"status": "withdrawn: tea"}
    await shop.book.put_article("tea", 7, PRICE)
    # It is being refunded: that it could be shipped now changes nothing.
    await shop.run(OrderJob.FULFILMENT, order.order_id, 3)
    with pytest.raises(Dead, match="no refund"):
        await shop.run(OrderJob.RESTOCK, order.order_id)
    for fence in (1, 2):
        assert await shop.run(OrderJob.REFUND, order.order_id, fence) == {"status": "paid"}
    for fence in (2, 3):
        assert await shop.run(OrderJob.RESTOCK, order.order_id, fence) == {"status": "refunded"}
    assert shop.rows(REFUNDS) == [(order.order_id, f"refund:{order.order_id}", 3 * PRICE, 1)]
    assert (shop.rows(SHIPMENTS), len(shop.rows(PAYMENTS))) == ([], 1)
    assert (await shop.book.article("tea")).stock == 10
    assert await shop.status(order.order_id) == "refunded"


async def test_of_two_fulfilments_one_ships_or_one_fails(shop: Shop) -> None:
    """Jobs with tokens of their own: what the other has decided since the order was read stands."""
    order = await shop.place()
    await shop.run(OrderJob.PAYMENT, order.order_id)
    one, two = (job_of(OrderJob.FULFILMENT, order.order_id, 1, job_id) for job_id in ("one", "two"))
    async with shop.sink.unit(one) as tx:
        tx.run("order_fail", order_id=order.order_id, failure="withdrawn: tea", expect=1)
    for late in ("order_ship", "order_fail"):
        more = {} if late == "order_ship" else {"failure": "again"}
        with pytest.raises(Conflict):
            async with shop.sink.unit(two) as tx:
                tx.run(late, order_id=order.order_id, expect=1, **more)
    assert shop.rows("SELECT status, failure FROM orders") == [("paid", "withdrawn: tea")]


async def test_what_can_be_shipped_is_not_refunded(sqlite_shop: Shop) -> None:
    order = await sqlite_shop.place()
    await sqlite_shop.run(OrderJob.PAYMENT, order.order_id)
    with pytest.raises(Dead, match="not refunded"):
        await sqlite_shop.run(OrderJob.REFUND, order.order_id)
    with pytest.raises(Dead, match="no order"):
        await sqlite_shop.run(OrderJob.PAYMENT, "0190a5e0-0000-7000-8000-000000000000")


@pytest.mark.parametrize(
    "payload",
    [{}, {"order_id": "1"}, {"order_id": 1, "idempotency_key": "k"}, {"order_id": "1", "idempotency_key": "k"}],
)
def test_a_payload_that_breaks_the_contract_is_refused(payload: dict[str, Any], sqlite_shop: Shop) -> None:
    with pytest.raises(InvalidPayload):
        HandlerRegistry(sqlite_shop.handlers()).check({"type": "payment", **payload})


async def check_that_a_late_run_is_refused(shop: Shop) -> None:
    """The first run sleeps in the middle of a payment; the second has begun, and has not paid either when it wakes."""
    order, first, second = await shop.place(), Gate(), Gate()
    late = asyncio.ensure_future(shop.run(OrderJob.PAYMENT, order.order_id, 1, provider=first))
    await first.asked.wait()
    running = asyncio.ensure_future(shop.run(OrderJob.PAYMENT, order.order_id, 2, provider=second))
    await second.asked.wait()
    first.opened.set()
    (ended,) = await asyncio.gather(late, return_exceptions=True)
    paid_late = shop.rows(PAYMENTS)
    second.opened.set()
    await asyncio.gather(running, return_exceptions=True)
    assert paid_late == []
    assert isinstance(ended, ClaimLost)
    # By its fence the worker knows that this is its own lock that was lost.
    assert ended.fence == 1
    assert [row[3] for row in shop.rows(PAYMENTS)] == [2]


async def check_that_nothing_begins_late(shop: Shop) -> None:
    """A worker that froze before it had begun finds out at once."""
    order = await shop.place()
    await shop.sink.begin(job_of(OrderJob.PAYMENT, order.order_id, 2))
    late: Any = None
    try:
        await shop.run(OrderJob.PAYMENT, order.order_id, 1)
    except ClaimLost as error:
        late = error
    assert late is not None
    assert shop.rows(PAYMENTS) == []


CHECKS = [check_that_a_late_run_is_refused, check_that_nothing_begins_late]


@pytest.mark.parametrize("check", CHECKS)
async def test_a_late_run_changes_nothing(shop: Shop, check: Callable[[Shop], Awaitable[None]]) -> None:
    await check(shop)


@pytest.mark.parametrize("check", CHECKS)
async def test_without_the_fence_a_late_run_pays(sqlite_shop: Shop, check: Callable[[Shop], Awaitable[None]]) -> None:
    sqlite_shop.sink = UnfencedSink(sqlite_shop.database)
    with pytest.raises(AssertionError):
        await check(sqlite_shop)


async def test_every_effect_is_fenced(sqlite_shop: Shop) -> None:
    """Fulfilment, refund, restock and rejection write under the same guard."""
    order = await sqlite_shop.place()
    await sqlite_shop.run(OrderJob.PAYMENT, order.order_id)
    await sqlite_shop.book.withdraw_article("tea")
    before = sqlite_shop.rows("SELECT * FROM orders")
    for kind in OrderJob:
        await sqlite_shop.sink.begin(job_of(kind, order.order_id, 5))
        with pytest.raises(ClaimLost):
            async with sqlite_shop.sink.unit(job_of(kind, order.order_id, 4)) as tx:
                tx.run("order_fail", order_id=order.order_id, failure="late", expect=1)
    assert sqlite_shop.rows("SELECT * FROM orders") == before


def test_a_database_that_does_not_answer_is_an_outage_before_it_is_a_failed_payment() -> None:
    """A run that took too long spends an attempt; five of them would leave an order unpaid for good."""
    assert JOB_SECONDS_MAX >= 2 * ANSWER_S_MAX
