"""The servers that the settings name, as parts that `doctor` asks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from redis.exceptions import RedisError

from headrace.errors import Unreachable
from headrace.services import Asked, Part
from headrace_pm.ftp.seen import open_redis
from headrace_pm.settings import PmSettings
from headrace_pm.work.pipeline import made_tables_of


async def open_parts(settings: PmSettings, stack: AsyncExitStack) -> Mapping[str, Part]:
    """Open them for as long as the stack is."""
    parts: dict[str, Part] = {}

    async def tables() -> object:
        async with made_tables_of(settings) as opened:
            return await opened.rows("servers_read")

    parts["tables"] = Asked(tables)
    if settings.redis_url:
        redis = open_redis(settings.redis_url, settings.redis_password)
        stack.push_async_callback(redis.aclose)

        async def pinged() -> object:
            try:
                return await redis.dbsize()
            except (RedisError, OSError) as error:
                raise Unreachable(f"Redis does not answer: {error}", "is PM_REDIS_URL right?") from None

        parts["redis"] = Asked(pinged)
    if not settings.is_embedded:
        from headrace_pm.kafka.producer import open_producer

        producer = await stack.enter_async_context(open_producer(settings))
        parts["kafka"] = Asked(producer.answers)
    if settings.clickhouse_url:
        from headrace_pm.clickhouse.client import ClickHouse

        clickhouse = ClickHouse(settings)
        stack.push_async_callback(clickhouse.close)
        parts["clickhouse"] = Asked(clickhouse.answers)
    return parts
