"""The frame of smap: its four services by name, what opens them, and what runs all of them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services import Frame, Part, Service, Talk, export_lines
from headrace_smap.settings import HTTP_PORTS, PREFIX, SmapSettings, leads_to_project

if TYPE_CHECKING:
    from headrace_smap.parts import SmapParts

NAME = "smap"
REPORT_URL = "SMAP_REPORT_URL"
EVERYWHERE = ("0.0.0.0", "::")
"""Hosts to listen on that are no address to go to."""
_HOMES = {
    "project": ("headrace_smap.project.service", "ProjectService"),
    "collector": ("headrace_smap.collector.service", "CollectorService"),
    "analytics": ("headrace_smap.analytics.service", "AnalyticsService"),
    "insight": ("headrace_smap.insight.service", "InsightService"),
}
_SENTENCES = {
    "project": "Run the project service: people create projects and watch them.",
    "collector": "Run the collector service: projects become raw posts. Any number may run.",
    "analytics": "Run the analytics service: raw posts become results. Any number may run.",
    "insight": "Run the insight service: results become aggregates, a report and a notification.",
}
_SERVERS = """

The servers are named by SMAP_AMQP_URL, SMAP_REDIS_URL, SMAP_S3_URL and SMAP_PG_DSN; each that is missing has its
embedded form in SMAP_HOME."""
NAMES = tuple(_HOMES)


def service_of(name: str, parts: SmapParts) -> Service:
    module, kind = _HOMES[name]
    service: Service = getattr(importlib.import_module(module), kind)(parts)
    service.parts, service.registry = parts.by_name, parts.registry
    return service


def _opening(name: str) -> Callable[[SmapSettings, asyncio.Event], AbstractAsyncContextManager[Service]]:
    @asynccontextmanager
    async def opened(settings: SmapSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
        from headrace_smap.count.keeper import keeping
        from headrace_smap.parts import open_parts

        async with open_parts(settings) as parts, keeping(parts, stop):
            yield service_of(name, parts)

    opened.__doc__ = _SENTENCES[name] + _SERVERS
    return opened


@asynccontextmanager
async def _asked(settings: SmapSettings) -> AsyncIterator[Mapping[str, Part]]:
    from headrace_smap.parts import open_parts

    async with open_parts(settings, new=False) as parts:
        yield parts.by_name


FRAME = Frame(
    NAME,
    SmapSettings,
    PREFIX,
    ("-m", "headrace", NAME),
    {name: _opening(name) for name in NAMES},
    _asked,
    HTTP_PORTS,
)


async def up(environment: Mapping[str, str], shared: Mapping[str, str], talk: Talk) -> int:
    """All four services in processes of their own; `shared` are the variables by which others find the same data."""
    port = FRAME.ports_of(FRAME.load({**environment, **shared}))["insight"]
    variables = {**environment, **shared, **report_url(environment, port)}
    return await replace(FRAME, told=partial(_told, shared)).up(variables, talk)


def report_url(environment: Mapping[str, str], port: int) -> dict[str, str]:
    """Services know nothing of each other; whoever starts them all can say where the reports are. An address that the
    environment names goes first, also an empty one."""
    from headrace_smap.insight.channels import NotificationSettings

    public = NotificationSettings.read(environment).public_url.rstrip("/")
    host = FRAME.load(environment).http_host
    if not public and (port == 0 or host in EVERYWHERE):
        return {}
    base = public or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    address = f"{base}/projects/{{project}}/report"
    return {REPORT_URL: address} if REPORT_URL not in environment and leads_to_project(address) else {}


def _told(shared: Mapping[str, str], said: Mapping[str, str]) -> Iterator[str]:
    """What was named by the environment is known to whoever reads this; a directory depends on where one stands."""
    reports = said[f"{NAME} insight"]
    yield f"projects are ordered at {said[f'{NAME} project']}/"
    yield f"reports are served at {reports}/ and {reports}/projects/PROJECT/report"
    yield from export_lines({**shared, "SMAP_HOME": str(Path(shared["SMAP_HOME"]).absolute())})
