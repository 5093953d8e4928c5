"""The frame of what writes to ClickHouse: a service of its own, beside those that read files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from headrace.errors import MissingExtra
from headrace.services import Asked, Frame, Part, Service
from headrace_pm.clickhouse.settings import HTTP_PORT, ClickHouseSettings
from headrace_pm.kafka.settings import PREFIX

NAME = "pm"


@asynccontextmanager
async def _clickhouse(settings: ClickHouseSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
    """Write the topic of counters to ClickHouse, in large blocks. Any number may run; they share the partitions.

    For places where ClickHouse's own Kafka engine does not run. Makes `pm_counter_data` and `pm_dead_message` in the
    database of PM_CLICKHOUSE_URL; reads PM_KAFKA_TOPIC in both forms."""
    try:
        from headrace_pm.clickhouse.service import open_service
    except ModuleNotFoundError as error:
        raise MissingExtra(f"pm clickhouse needs {error.name}", "pip install 'headrace-pm[clickhouse]'") from None
    async with open_service(settings) as service:
        yield service


@asynccontextmanager
async def _asked(settings: ClickHouseSettings) -> AsyncIterator[Mapping[str, Part]]:
    from headrace_pm.clickhouse.client import ClickHouse

    clickhouse = ClickHouse(settings)
    try:
        yield {"clickhouse": Asked(clickhouse.answers)}
    finally:
        await clickhouse.close()


CLICKHOUSE = Frame(
    NAME,
    ClickHouseSettings,
    PREFIX,
    ("-m", "headrace", NAME),
    {"clickhouse": _clickhouse},
    _asked,
    {"clickhouse": HTTP_PORT},
)
