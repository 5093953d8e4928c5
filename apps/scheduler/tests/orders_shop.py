"""A shop for tests: orders on a database of their own, beside a scheduler whose worker runs their jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import apsw
import httpx
import psycopg
import uuid_utils
from scheduler_cron import cron_of
from scheduler_world import HOLD_S, World

import headrace
from headrace.http import Options, application
from headrace.sources import SourceOptions, SourceWorker
from headrace.tables import RequestKeys, UnitOfWork
from headrace_scheduler.api.job_requests import JobRequests, JobWish
from headrace_scheduler.api.routes import JobSurface, job_routes
from headrace_scheduler.handlers.registry import HandlerRegistry, builtin_handlers
from headrace_scheduler.handlers.running_job import RunningJob
from headrace_scheduler.orders.database import OrdersDatabase
from headrace_scheduler.orders.fenced_sink import FencedSink
from headrace_scheduler.orders.order_book import OrderBook
from headrace_scheduler.orders.order_handlers import PaymentLimit, PaymentProvider, order_handlers
from headrace_scheduler.orders.routes import order_routes
from headrace_scheduler.orders.scheduler_client import SchedulerClient
from headrace_scheduler.orders.settings import OrdersSettings, load_orders
from headrace_scheduler.orders.values import TOPIC, OrderJob, PlacedOrder, idempotency_key
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.tables.job_list import JobList
from headrace_scheduler.tenants.open_jobs import OpenJobs
from headrace_scheduler.tenants.tenant_limits import TenantRules

PRICE = 25_000
PAYMENTS = "SELECT order_id, idempotency_key, amount, fence FROM payments"
SHIPMENTS = "SELECT order_id, fence FROM shipments"
TABLES = (
    "orders",
    "order_items",
    "inventory",
    "payments",
    "shipments",
    "refunds",
    "sink_fences",
    "request_key",
)


class UnfencedSink(FencedSink):
    """The broken twin: nothing tells it that a run is late."""

    def guard(self, tx: UnitOfWork, job: RunningJob) -> None:
        pass


class Gate:
    """A provider that decides when it is told to."""

    def __init__(self) -> None:
        self.asked, self.opened = asyncio.Event(), asyncio.Event()

    async def refusal(self, order: PlacedOrder) -> str:
        self.asked.set()
        await self.opened.wait()
        return ""


async def no_report(progress: Mapping[str, object]) -> None:
    """Nobody looks."""


def job_of(kind: OrderJob, order_id: str, fence: int = 1, job_id: str = "") -> RunningJob:
    """A run of an order's job; another fence is another run of the same job."""
    payload = {"type": kind, "order_id": order_id, "idempotency_key": idempotency_key(kind, order_id)}
    return RunningJob(job_id or f"{kind}-1", payload, f"job:{job_id or f'{kind}-{order_id}'}", fence, 1, no_report)


@dataclass
class Shop:
    """`book` is the shop without its front door, `client` comes through it."""

    settings: OrdersSettings
    database: OrdersDatabase
    engine: headrace.Engine
    book: OrderBook
    sink: FencedSink
    client: httpx.AsyncClient

    async def place(self, quantity: int = 1, sku: str = "tea", order_id: str = "") -> PlacedOrder:
        return await self.book.place(order_id or str(uuid_utils.uuid7()), "an", {sku: quantity})

    def handlers(self, provider: PaymentProvider | None = None) -> dict[str, Any]:
        return dict(order_handlers(self.sink, self.book, provider or PaymentLimit(None)))

    async def run(self, kind: OrderJob, order_id: str, fence: int = 1, **more: Any) -> Any:
        return await self.handlers(**more)[kind].run(job_of(kind, order_id, fence))

    async def status(self, order_id: str) -> str:
        order = await self.book.find(order_id)
        return order.status if order is not None else "unknown"

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows as they are in the database, read past the product."""
        url = self.settings.engine_url
        if url.startswith("sqlite"):
            file = apsw.Connection(url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
            with closing(file):
                return list(file.execute(statement))
        with psycopg.connect(url) as connection:
            return connection.execute(statement.encode()).fetchall()

    def empty(self) -> None:
        """Leave nothing in the tables of a PostgreSQL."""
        with psycopg.connect(self.settings.engine_url) as connection:
            connection.execute(f"TRUNCATE {', '.join(TABLES)}".encode())


@asynccontextmanager
async def open_shop(environment: Mapping[str, str]) -> AsyncIterator[Shop]:
    settings = load_orders(environment)
    async with OrdersDatabase(settings) as database:
        engine, book = await database.engine(), OrderBook(database)
        app = application(Options("orders", idempotency=RequestKeys(engine)), [order_routes(book)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            yield Shop(settings, database, engine, book, FencedSink(database), client)


@dataclass
class Market:
    """A shop whose jobs are run: its outbox is relayed to the scheduler of a world."""

    world: World
    shop: Shop
    registry: HandlerRegistry
    requests: JobRequests
    scheduler: SchedulerClient

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[None]:
        async with self.shop.engine.relay(self.scheduler, topics=(TOPIC,), poll_s=0.05):
            yield

    @asynccontextmanager
    async def working(self) -> AsyncIterator[JobReconciler]:
        """A worker and a relay beside the block, and a reconciler to look with."""
        worker = SourceWorker(self.world.source, self.registry, SourceOptions(poll_s=0.05, hold_s=HOLD_S))
        running = asyncio.ensure_future(worker.run())
        try:
            async with self.relaying():
                yield JobReconciler(self.world.parts)
        finally:
            worker.drain()
            await running

    async def payment_job(self, order_id: str) -> UUID:
        """The job that pays an order, as the relay creates it."""
        payload = dict(job_of(OrderJob.PAYMENT, order_id).payload)
        return (await self.requests.create(JobWish("now", payload), str(uuid_utils.uuid7()))).job_id


@asynccontextmanager
async def open_market(world: World, shop: Shop) -> AsyncIterator[Market]:
    registry = HandlerRegistry({**builtin_handlers(world.parts.settings), **shop.handlers()})
    buckets = world.parts.installation
    requests = JobRequests(world.tables, world.parts.locks, registry, buckets.buckets, HOLD_S)
    options = Options("scheduler", idempotency=world.parts.request_keys)
    open_jobs = OpenJobs(world.tables, buckets.polled, TenantRules())
    surface = JobSurface(requests, JobList(world.tables, buckets.polled), cron_of(world).operations, open_jobs)
    app = application(options, [job_routes(surface)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield Market(world, shop, registry, requests, SchedulerClient(client))
