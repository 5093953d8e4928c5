"""The jobs of an order: payment, fulfilment, and what takes both back.

Each takes `{"type": …, "order_id": …, "idempotency_key": …}`. It begins by fencing off earlier runs, reads the order,
and makes one commit: the effect, the order's next status, and the event that asks for the next job. A repeat finds the
status that it would set, and changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Protocol
from uuid import UUID

from headrace import Dead
from headrace.errors import InvalidPayload
from headrace.tables import UnitOfWork
from headrace_scheduler.handlers.payload_fields import refuse_others, text_of
from headrace_scheduler.handlers.running_job import JobHandler, RunningJob
from headrace_scheduler.orders.database import OrdersDatabase
from headrace_scheduler.orders.fenced_sink import FencedSink
from headrace_scheduler.orders.order_book import OrderBook
from headrace_scheduler.orders.settings import load_orders
from headrace_scheduler.orders.values import OrderJob, OrderStatus, PlacedOrder, job_event

_FIELDS = ("order_id", "idempotency_key")


class PaymentProvider(Protocol):
    """Who decides about a payment. It may be asked again for the same order."""

    async def refusal(self, order: PlacedOrder) -> str:
        """Why it is refused; empty if it is not."""


class PaymentLimit:
    """Refuses what is too much."""

    def __init__(self, amount_max: int | None) -> None:
        self._amount_max = amount_max

    async def refusal(self, order: PlacedOrder) -> str:
        if self._amount_max is None or order.total <= self._amount_max:
            return ""
        return f"{order.total} VND are over ORDERS_PAYMENT_MAX = {self._amount_max}"


class OrderHandler(ABC):
    """One type of job: it goes on with an order whose status is `awaits`, and leaves every other alone."""

    awaits: ClassVar[OrderStatus] = OrderStatus.PAID

    def __init__(self, sink: FencedSink, book: OrderBook) -> None:
        self.sink, self.book = sink, book

    def check(self, payload: Mapping[str, Any]) -> None:
        refuse_others(payload, _FIELDS)
        text_of(payload, "idempotency_key")
        try:
            UUID(text_of(payload, "order_id"))
        except ValueError:
            raise InvalidPayload("payload.order_id must be a UUID") from None

    async def run(self, job: RunningJob) -> object:
        await self.sink.begin(job)
        order = await self.book.find(text_of(job.payload, "order_id"))
        if order is None:
            raise Dead(f"there is no order {job.payload['order_id']}", "unknown_order")
        if order.status is not self.awaits:
            return {"status": order.status}
        return {"status": await self.carry_on(job, order)}

    @abstractmethod
    async def carry_on(self, job: RunningJob, order: PlacedOrder) -> str:
        """Do it, in one unit of the sink; what became of the order."""


class PaymentHandler(OrderHandler):
    """Pays a pending order, and asks for its fulfilment; or rejects it, and gives its stock back."""

    awaits = OrderStatus.PENDING

    def __init__(self, sink: FencedSink, book: OrderBook, provider: PaymentProvider) -> None:
        super().__init__(sink, book)
        self._provider = provider

    async def carry_on(self, job: RunningJob, order: PlacedOrder) -> str:
        refusal = await self._provider.refusal(order)
        if refusal:
            async with self.sink.unit(job) as tx:
                tx.run("order_reject", order_id=order.order_id, failure=refusal, expect=1)
                _give_back(tx, order)
            return OrderStatus.REJECTED
        async with self.sink.unit(job) as tx:
            tx.run("payment_add", **_effect(job, order), amount=order.total, expect=1)
            tx.run("order_pay", order_id=order.order_id, expect=1)
            tx.publish(job_event(OrderJob.FULFILMENT, order.order_id))
        return OrderStatus.PAID


class FulfilmentHandler(OrderHandler):
    """Ships a paid order. If an article has been withdrawn that is impossible, and a refund is asked for."""

    async def carry_on(self, job: RunningJob, order: PlacedOrder) -> str:
        if order.failure:
            return order.failure
        missing = [item.sku for item in order.items if await self.book.is_withdrawn(item.sku)]
        if missing:
            failure = f"withdrawn: {', '.join(missing)}"
            async with self.sink.unit(job) as tx:
                tx.run("order_fail", order_id=order.order_id, failure=failure, expect=1)
                tx.publish(job_event(OrderJob.REFUND, order.order_id))
            return failure
        async with self.sink.unit(job) as tx:
            tx.run("shipment_add", order_id=order.order_id, fence=job.fencing_token, expect=1)
            tx.run("order_ship", order_id=order.order_id, expect=1)
        return OrderStatus.SHIPPED


class RefundHandler(OrderHandler):
    """Gives back the money of a paid order that cannot be shipped, and asks for its stock to be given back."""

    async def carry_on(self, job: RunningJob, order: PlacedOrder) -> str:
        if not order.failure:
            raise Dead(f"order {order.order_id} is paid and can be shipped: it is not refunded", "not_refundable")
        if await self.book.is_refunded(order.order_id):
            return order.status
        async with self.sink.unit(job) as tx:
            tx.run("refund_add", **_effect(job, order), amount=order.total, expect=1)
            tx.publish(job_event(OrderJob.RESTOCK, order.order_id))
        return order.status


class RestockHandler(OrderHandler):
    """Gives back the stock of an order whose money was given back: then it is refunded."""

    async def carry_on(self, job: RunningJob, order: PlacedOrder) -> str:
        if not await self.book.is_refunded(order.order_id):
            raise Dead(f"order {order.order_id} has no refund: its stock is not given back", "not_refunded")
        async with self.sink.unit(job) as tx:
            tx.run("order_refund", order_id=order.order_id, expect=1)
            _give_back(tx, order)
        return OrderStatus.REFUNDED


def order_handlers(sink: FencedSink, book: OrderBook, provider: PaymentProvider) -> dict[str, JobHandler]:
    return {
        OrderJob.PAYMENT: PaymentHandler(sink, book, provider),
        OrderJob.FULFILMENT: FulfilmentHandler(sink, book),
        OrderJob.REFUND: RefundHandler(sink, book),
        OrderJob.RESTOCK: RestockHandler(sink, book),
    }


@asynccontextmanager
async def open_order_handlers(environment: Mapping[str, str]) -> AsyncIterator[dict[str, JobHandler]]:
    """For the scheduler's services: those of orders if they have a database, else none."""
    settings = load_orders(environment)
    if not settings.configured:
        yield {}
        return
    async with OrdersDatabase(settings) as database:
        yield order_handlers(FencedSink(database), OrderBook(database), PaymentLimit(settings.payment_max))


def _effect(job: RunningJob, order: PlacedOrder) -> dict[str, object]:
    key = text_of(job.payload, "idempotency_key")
    return {"order_id": order.order_id, "idempotency_key": key, "fence": job.fencing_token}


def _give_back(tx: UnitOfWork, order: PlacedOrder) -> None:
    for item in sorted(order.items, key=lambda item: item.sku):
        tx.run("stock_give_back", sku=item.sku, quantity=item.quantity)
