"""What writes to ClickHouse as a service of the frame, beside those that read files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.errors import MissingExtra
from headrace.services import Service
from headrace_pm.clickhouse.settings import ClickHouseSettings


@asynccontextmanager
async def open_clickhouse(settings: ClickHouseSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
    """Write the topic of counters to ClickHouse, in large blocks. Any number may run; they share the partitions.

    For places where ClickHouse's own Kafka engine does not run. Makes `pm_counter_data` and `pm_dead_message` in the
    database of PM_CLICKHOUSE_URL; reads PM_KAFKA_TOPIC in both forms."""
    try:
        from headrace_pm.clickhouse.service import open_service
    except ModuleNotFoundError as error:
        raise MissingExtra(f"pm clickhouse needs {error.name}", "pip install 'headrace-pm[clickhouse]'") from None
    async with open_service(settings) as service:
        yield service
