"""`headrace pm clickhouse`: the consumer as a service, with health and metrics. Any number may run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.services import Asked, Service
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.consumer import TopicConsumer
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.clickhouse.tables import check_tables, make_tables


class ClickHouseService(Service):
    """Makes the tables, and writes what the topic holds into them."""

    name = "clickhouse"

    def __init__(self, settings: ClickHouseSettings, clickhouse: ClickHouse) -> None:
        from prometheus_client import CollectorRegistry

        self.registry = CollectorRegistry()
        self._clickhouse = clickhouse
        self.consumer = TopicConsumer(settings, clickhouse, ClickHouseMetrics(self.registry))
        self.parts = {"clickhouse": Asked(clickhouse.answers), "kafka": Asked(self.consumer.answers)}

    async def prepare(self) -> None:
        await make_tables(self._clickhouse)
        await check_tables(self._clickhouse)

    async def run(self, stop: asyncio.Event) -> None:
        await self.consumer.run(stop)


@asynccontextmanager
async def open_service(settings: ClickHouseSettings) -> AsyncIterator[ClickHouseService]:
    clickhouse = ClickHouse(settings)
    try:
        yield ClickHouseService(settings, clickhouse)
    finally:
        await clickhouse.close()
