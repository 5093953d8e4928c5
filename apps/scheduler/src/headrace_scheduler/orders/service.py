"""The service `orders`: its REST interface, and the relay that hands jobs to the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import headrace
from headrace.services import Asked, Service
from headrace.tables import RequestKeys
from headrace_scheduler.orders.frame import NAME
from headrace_scheduler.orders.order_book import OrderBook
from headrace_scheduler.orders.scheduler_client import SchedulerClient
from headrace_scheduler.orders.values import TOPIC

if TYPE_CHECKING:
    from fastapi import APIRouter

RELAY_POLL_S = 0.1


class OrdersService(Service):
    """Any number may run on one database."""

    name = NAME

    def __init__(self, engine: headrace.Engine, book: OrderBook, scheduler: SchedulerClient) -> None:
        self._engine, self._book, self._scheduler = engine, book, scheduler
        self.idempotency = RequestKeys(engine)
        self.parts = {"database": Asked(engine.answers)}
        self.health = self.parts

    async def run(self, stop: asyncio.Event) -> None:
        async with self._engine.relay(self._scheduler, topics=(TOPIC,), poll_s=RELAY_POLL_S):
            await stop.wait()

    def routes(self) -> Sequence[APIRouter]:
        from headrace_scheduler.orders.routes import order_routes

        return [order_routes(self._book)]
