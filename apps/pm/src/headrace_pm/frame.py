"""The frame of pm: its services by name, and what opens them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import NotFound, SchemaMismatch
from headrace.services import Check, Frame, Part, Service, Talk, export_lines
from headrace_pm.clickhouse.frame import open_clickhouse
from headrace_pm.kafka.settings import PREFIX
from headrace_pm.settings import HTTP_PORTS, PmSettings

if TYPE_CHECKING:
    from headrace_pm.rig_servers import PmServers

NAME = "pm"
_SENTENCES = {
    "all": "Take files from their servers into both sinks, and into the archive. Any number may run.",
    "scan": "Look at the folders of all servers, and register what is new. Any number may run.",
    "worker": "Fetch, read and write registered files, and bring back those that are stuck. Any number may run.",
    "mover": "Move files that both sinks have into ClickHouse/Done/. Any number may run.",
}
_WHERE = """

Servers, folders and dictionaries are rows in the database of PM_MYSQL_DSN, whose tables `headrace pm init` makes;
without it everything is in PM_HOME. Each process that fetches files has a PM_SPOOL_DIR of its own."""


def _opening(name: str) -> Callable[[PmSettings, asyncio.Event], AbstractAsyncContextManager[Service]]:
    @asynccontextmanager
    async def opened(settings: PmSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
        from headrace_pm.service import open_service

        async with open_service(name, settings) as service:
            yield service

    opened.__doc__ = _SENTENCES[name] + _WHERE
    return opened


@asynccontextmanager
async def _shadow(settings: PmSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
    """Work beside the old system: read its files, and write to tables and a topic that are the shadow's own.

    Nothing is renamed or deleted on any server; files that the old system has moved are read where they are now. The
    tables are called pm_shadow_… in the database of PM_MYSQL_DSN, the topic is PM_SHADOW_TOPIC. While there is one,
    `all`, `scan`, `worker` and `mover` refuse to run on that database, until `headrace pm cutover`."""
    from headrace_pm.shadow.service import open_shadow

    async with open_shadow(settings) as service:
        yield service


@asynccontextmanager
async def _asked(settings: PmSettings) -> AsyncIterator[Mapping[str, Part]]:
    """What `doctor` asks: the tables, Redis, Kafka, ClickHouse, as far as they are set."""
    from headrace_pm.work.servers_asked import open_parts

    async with AsyncExitStack() as stack:
        yield await open_parts(settings, stack)


async def _checks(settings: PmSettings) -> Sequence[Check]:
    from headrace_pm.ftp.connections import ServerPools
    from headrace_pm.operators.checks import examined_tables
    from headrace_pm.operators.folder_checks import examined_folders
    from headrace_pm.work.network_tables import ServerDirectory
    from headrace_pm.work.pipeline import made_tables_of

    pools = ServerPools(settings)
    try:
        async with made_tables_of(settings) as tables:
            found = await examined_tables(tables, settings.environment)
            return [*found, *await examined_folders(pools, await ServerDirectory(tables).read())]
    except (NotFound, SchemaMismatch):
        # The part `tables` has said it.
        return ()
    finally:
        await pools.close()


FRAME = Frame(
    NAME,
    PmSettings,
    PREFIX,
    ("-m", "headrace", NAME),
    {**{name: _opening(name) for name in _SENTENCES}, "clickhouse": open_clickhouse, "shadow": _shadow},
    _asked,
    HTTP_PORTS,
    whole="all",
    checks=_checks,
)


async def up(environment: Mapping[str, str], servers: PmServers | None, talk: Talk) -> int:
    """`all`, and `clickhouse` where its address is set, in processes of their own."""
    shared: Mapping[str, str] = servers.variables if servers is not None else {}
    taken = [f"files are taken from {servers.folder}, which is {servers.folder_url}"] if servers is not None else []
    environment = {**environment, **shared}
    settings = FRAME.load(environment)
    names = ("all", "clickhouse") if settings.clickhouse_url else ("all",)
    services = {name: FRAME.services[name] for name in names}
    told = partial(_told, shared, taken)
    async with servers.deaths_told(talk.say) if servers is not None else nullcontext():
        return await replace(FRAME, services=services, told=told).up(environment, talk)


def _told(shared: Mapping[str, str], taken: Sequence[str], said: Mapping[str, str]) -> list[str]:
    return [f"health and metrics are at {said[f'{NAME} all']}", *taken, *export_lines(shared)]
