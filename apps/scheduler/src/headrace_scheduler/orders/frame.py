"""The frame of orders: apart from the scheduler's, because its settings have a prefix of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from headrace.services import Asked, Frame, Part, Service
from headrace_scheduler.orders.settings import HTTP_PORT, PREFIX, OrdersSettings

NAME = "orders"


@asynccontextmanager
async def open_orders(settings: OrdersSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
    """Run the service of orders. Any number may run.

    It hands jobs to the scheduler at ORDERS_WORKER_URL.
    The tables are in the PostgreSQL of ORDERS_PG_DSN, or in a SQLite file in SCHEDULER_HOME, and made at the start.
    """
    from headrace_scheduler.orders.database import OrdersDatabase
    from headrace_scheduler.orders.order_book import OrderBook
    from headrace_scheduler.orders.scheduler_client import open_scheduler_client
    from headrace_scheduler.orders.service import OrdersService

    async with OrdersDatabase(settings) as database, open_scheduler_client(settings) as scheduler:
        yield OrdersService(await database.engine(), OrderBook(database), scheduler)


@asynccontextmanager
async def _asked(settings: OrdersSettings) -> AsyncIterator[Mapping[str, Part]]:
    if not settings.configured:
        yield {}
        return
    from headrace_scheduler.orders.database import OrdersDatabase

    async with OrdersDatabase(settings) as database:
        yield {"database of orders": Asked((await database.engine()).answers)}


ORDERS = Frame(
    "scheduler",
    OrdersSettings,
    PREFIX,
    ("-m", "headrace", "scheduler"),
    {NAME: open_orders},
    _asked,
    {NAME: HTTP_PORT},
)
