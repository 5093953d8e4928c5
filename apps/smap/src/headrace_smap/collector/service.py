"""The collector service: orders in, raw posts and `data.collected` out. Any number of instances share the work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

import headrace
from headrace.consuming import Consumer, ConsumerOptions, Delivery, Subscription
from headrace.services import Service
from headrace_smap.collector.crawl import Crawl
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.flow import collect_flow
from headrace_smap.collector.halts import Halts
from headrace_smap.collector.harvester import Harvester
from headrace_smap.collector.metrics import show
from headrace_smap.collector.orders import Orders
from headrace_smap.collector.wishes import read_wishes
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import COLLECTOR_QUEUE, PROJECT_CREATED
from headrace_smap.parts import SmapParts

if TYPE_CHECKING:
    from fastapi import APIRouter


ORDERS_AT_ONCE = 20
log = structlog.get_logger("smap")


class CollectorService(Service):
    """See the package; `run` is for one use."""

    name = "collector"

    def __init__(self, parts: SmapParts) -> None:
        self._parts, wishes = parts, read_wishes(parts.settings.environment)
        self._wishes = wishes
        accountant = Accountant(parts)
        self._crawlers = Crawlers(wishes)
        self._halts = Halts(parts.database)
        harvester = Harvester(parts, accountant, _now)
        crawl = Crawl(harvester, self._crawlers, self._halts, wishes)
        self.flow = collect_flow(crawl, parts.engine, wishes.lanes)
        self._orders = Orders(parts, accountant, wishes)
        subscription = Subscription(COLLECTOR_QUEUE, (PROJECT_CREATED,))
        self._consumer = Consumer(parts.bus, subscription, self._handle, ConsumerOptions(ORDERS_AT_ONCE))
        show(harvester.counts, parts.registry)

    async def prepare(self) -> None:
        self._crawlers.check()
        if self._wishes.simulates:
            log.warning("collector.simulates", hint="posts are made up: SMAP_SIMULATED or SMAP_CRAWLERS asks for it")
        await self._consumer.prepare()

    async def run(self, stop: asyncio.Event) -> None:
        """Take orders and crawl until `stop`; what is in hand then is let go, for others to go on with."""
        options = headrace.WorkerOptions(hold_s=self._wishes.hold_s)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._halts.run(stop))
                group.create_task(self._consumer.run(stop))
                async with self._parts.engine.worker(self.flow, options=options):
                    await stop.wait()
        finally:
            await self._crawlers.close()

    def routes(self) -> Sequence[APIRouter]:
        from headrace_smap.collector.routes import crawl_routes

        return [crawl_routes(self._parts)]

    async def _handle(self, deliveries: Sequence[Delivery]) -> None:
        await self._orders.handle(deliveries, self.flow, _now)


def _now() -> datetime:
    return datetime.now(UTC)
