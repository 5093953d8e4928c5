"""`headrace pm shadow`: the whole way of a file beside the old system, on tables and a topic of its own. Nothing on any
server is renamed or deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from headrace.errors import CallerError
from headrace.tables import OpenTables, open_tables
from headrace_pm.cutover.mode import open_record
from headrace_pm.operators import OPERATOR_TABLES
from headrace_pm.service import SHADOW, PmService, open_service
from headrace_pm.settings import PmSettings
from headrace_pm.shadow.old_folders import OldSystemFolders
from headrace_pm.shadow.shadow_tables import DIALECT, shadow_of
from headrace_pm.tables import PM_TABLES
from headrace_pm.work.loops import KeptLoop


def shadow_settings(settings: PmSettings) -> PmSettings:
    """Its own topic and spool. Which names are known, its own table says: the sets in Redis stay production's."""
    if settings.is_embedded:
        raise CallerError("PM_MYSQL_DSN is not set", "a shadow and its production are in one MySQL or MariaDB database")
    if settings.shadow_topic == settings.kafka_topic:
        raise CallerError("PM_SHADOW_TOPIC is the topic of production", "name another one")
    spool = settings.spool_dir.with_name(f"{settings.spool_dir.name}-{SHADOW}")
    return replace(settings, kafka_topic=settings.shadow_topic, spool_dir=spool, redis_url="", keep_days=0)


def shadow_tables_of(settings: PmSettings, make: bool = True) -> AbstractAsyncContextManager[OpenTables]:
    """The tables of the shadow; what is missing of them is made, if so wanted."""
    made = (PM_TABLES.created(DIALECT), OPERATOR_TABLES.created(DIALECT))
    both = [shadow_of(PM_TABLES, *made[1]), shadow_of(OPERATOR_TABLES, *made[0])]
    return open_tables(settings.tables_url, both, make)


@asynccontextmanager
async def open_shadow(settings: PmSettings) -> AsyncIterator[PmService]:
    """The service, for as long as the block runs."""
    own = shadow_settings(settings)
    async with open_record(own) as record, open_service(SHADOW, own, shadow_tables_of) as service:
        pipeline = service.pipeline
        began = await record.begin_shadow()
        folders = OldSystemFolders(pipeline, record.tables, began)
        service.add_loop(KeptLoop("old_folders", own.scan_interval_s, folders.round, pipeline.events.loop_failed))
        yield service
