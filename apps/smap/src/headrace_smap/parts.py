"""The parts of a service: bus, ledger, blobs and database, each real or embedded as the settings say."""

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
from headrace_smap.database import DATABASE_FILE, TABLES, Database
from headrace_smap.envelope import EXCHANGE
from headrace_smap.ledger.project_ledger import ProjectLedger
from headrace_smap.settings import SmapSettings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True)
class SmapParts:
    """What a service works with. It owns none of it."""

    settings: SmapSettings
    engine: headrace.Engine
    bus: Bus
    ledger: ProjectLedger
    blobs: Blobs
    database: Database
    registry: CollectorRegistry

    @property
    def by_name(self) -> dict[str, Part]:
        """What `/readyz` and `doctor` ask."""
        return {
            "database": Asked(lambda: self.database.rows("answers")),
            "ledger": Asked(lambda: self.ledger.tally("readyz")),
            "blobs": self.blobs,
            # A bus in the store has no answer of its own.
            "bus": Asked(getattr(self.bus, "answers", self.engine.answers)),
        }


@asynccontextmanager
async def open_parts(settings: SmapSettings, new: bool = True, checked: bool = True) -> AsyncIterator[SmapParts]:
    """Open every part, make what is missing, and give everything back at the end. Only with `new` may this begin an
    embedded database: to whoever only looks, an empty one would hide that SMAP_HOME is mistyped. Whether Redis is fit
    for its part is `checked` by services, and not by a command, which may not even need it."""
    from prometheus_client import CollectorRegistry

    if not new and not settings.pg_dsn and not (settings.home / DATABASE_FILE).exists():
        hint = "name the directory by SMAP_HOME, or a server by SMAP_PG_DSN; headrace smap create begins a new one"
        raise NotFound(f"there is no smap in {settings.home.absolute()}", hint)
    async with AsyncExitStack() as stack:
        if not (settings.pg_dsn and settings.s3_url):
            await make_directory(settings.home, "SMAP_HOME")
        engine = await stack.enter_async_context(headrace.connect(settings.engine_url, tables=TABLES))
        bus = await _bus(settings, engine, stack)
        ledger = await _ledger(settings, engine, stack, checked)
        place = settings.s3_url or (settings.home.absolute() / "blobs").as_uri()
        blobs = Blobs(place, settings.environment, "SMAP_S3_URL")
        await blobs.prepare()
        yield SmapParts(settings, engine, bus, ledger, blobs, Database(engine), CollectorRegistry())


async def _bus(settings: SmapSettings, engine: headrace.Engine, stack: AsyncExitStack) -> Bus:
    if not settings.amqp_url:
        return engine.bus
    return await stack.enter_async_context(
        headrace.bus(settings.amqp_url, exchange=EXCHANGE, prefetch=settings.prefetch)
    )


async def _ledger(
    settings: SmapSettings, engine: headrace.Engine, stack: AsyncExitStack, checked: bool
) -> ProjectLedger:
    if not settings.redis_url:
        from headrace_smap.ledger.store_ledger import StoreLedger

        return StoreLedger(engine)
    from headrace_smap.ledger.redis_ledger import open_redis_ledger

    return await stack.enter_async_context(open_redis_ledger(settings.redis_url, checked))
