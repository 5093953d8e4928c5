"""Orders and the jobs that carry them on. Amounts are whole VND."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.errors import CallerError
from headrace.ports import Event

TOPIC = "orders.jobs"
"""Events in the outbox that ask for a job."""
JOB_SECONDS_MAX = 180
"""Longer than a connection to a database waits that does not answer: then that is an outage, which is waited out, and
not a run that took too long, which spends an attempt."""


class OrderStatus(StrEnum):
    PENDING = "pending"
    PAID = "paid"
    SHIPPED = "shipped"
    REFUNDED = "refunded"
    REJECTED = "rejected"


class OrderJob(StrEnum):
    """The types of the jobs of an order."""

    PAYMENT = "payment"
    FULFILMENT = "fulfilment"
    REFUND = "refund"
    RESTOCK = "restock"


class OutOfStock(CallerError):
    """There is less of an article than was ordered; nothing was changed."""


@dataclass(frozen=True, slots=True)
class OrderItem:
    sku: str
    quantity: int


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """`failure` says why it was rejected, or why it cannot be shipped and is being refunded."""

    order_id: str
    customer_id: str
    status: OrderStatus
    total: int
    failure: str
    items: tuple[OrderItem, ...]


@dataclass(frozen=True, slots=True)
class StockArticle:
    """`version` is one higher with every change."""

    sku: str
    stock: int
    price: int
    version: int


def idempotency_key(job: OrderJob, order_id: str) -> str:
    """An order has one job of each type, whoever asks for it and however often."""
    return f"{job}:{order_id}"


def job_event(job: OrderJob, order_id: str) -> Event:
    """Asks for a job. Its body is the request to the scheduler, so that every repeat sends the same bytes."""
    key = idempotency_key(job, order_id)
    request: Mapping[str, object] = {
        "schedule": "now",
        "payload": {"type": job, "order_id": order_id, "idempotency_key": key},
        "max_duration_seconds": JOB_SECONDS_MAX,
    }
    return Event(key, TOPIC, json.dumps(request).encode())
