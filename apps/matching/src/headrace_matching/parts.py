"""The parts of the Main API: store, bus and blobs, each real or embedded as the settings say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import headrace
from headrace.blobs import Blobs, make_directory
from headrace.errors import NotFound
from headrace.ports import Bus
from headrace.services import Asked, Part
from headrace.tables import REQUEST_KEYS
from headrace_matching import assets, phases
from headrace_matching.events.names import DEAD_QUEUE
from headrace_matching.settings import DATABASE_FILE, MatchingSettings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

TABLES = (phases.STATEMENTS, assets.STATEMENTS, REQUEST_KEYS)
PREFETCH = 2_000


@dataclass(frozen=True, slots=True)
class MatchingParts:
    """What the Main API works with. It owns none of it."""

    settings: MatchingSettings
    engine: headrace.Engine
    bus: Bus
    blobs: Blobs
    registry: CollectorRegistry

    @property
    def by_name(self) -> dict[str, Part]:
        """What `/readyz` and `doctor` ask."""
        return {
            "store": self.engine,
            "blobs": self.blobs,
            # A bus in the store has no answer of its own.
            "bus": Asked(getattr(self.bus, "answers", self.engine.answers)),
        }


@asynccontextmanager
async def open_parts(settings: MatchingSettings, new: bool = True) -> AsyncIterator[MatchingParts]:
    """Open every part, make what is missing, and give everything back at the end. Only with `new` may this begin an
    embedded store: to whoever only looks, an empty one would hide that MATCHING_HOME is mistyped."""
    from prometheus_client import CollectorRegistry

    if not new and not settings.pg_dsn and not (settings.home / DATABASE_FILE).exists():
        hint = "name the directory by MATCHING_HOME, or a server by MATCHING_PG_DSN"
        raise NotFound(f"there is no matching in {settings.home.absolute()}", hint)
    async with AsyncExitStack() as stack:
        if not (settings.pg_dsn and settings.s3_url):
            await make_directory(settings.home, "MATCHING_HOME")
        engine = await stack.enter_async_context(headrace.connect(settings.engine_url, tables=TABLES))
        bus = await stack.enter_async_context(open_bus(settings)) if settings.amqp_url else engine.bus
        url = settings.s3_url or (settings.home.absolute() / "blobs").as_uri()
        blobs = Blobs(url, settings.environment, setting="MATCHING_S3_URL")
        await blobs.prepare()
        yield MatchingParts(settings, engine, bus, blobs, CollectorRegistry())


@asynccontextmanager
async def open_bus(settings: MatchingSettings) -> AsyncIterator[Bus]:
    """The bus on RabbitMQ that the settings name."""
    async with headrace.bus(
        settings.amqp_url, exchange=settings.exchange, dead_letters=DEAD_QUEUE, prefetch=PREFETCH
    ) as bus:
        yield bus
