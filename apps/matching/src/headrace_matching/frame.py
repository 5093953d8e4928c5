"""The frame of matching: its services by name, what opens them, and what runs all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from headrace.services import Frame, Part, Service
from headrace_matching.settings import HTTP_PORTS, PREFIX, MatchingSettings

NAME = "matching"


@asynccontextmanager
async def _api(settings: MatchingSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
    """Run the Main API: it takes jobs, keeps what workers bring, and moves each job through its phases. Any number may
    run.

    The servers are named by MATCHING_AMQP_URL, MATCHING_PG_DSN and MATCHING_S3_URL; each that is missing has its
    embedded form in MATCHING_HOME."""
    from headrace_matching.api.service import ApiService
    from headrace_matching.parts import open_parts

    async with open_parts(settings) as parts:
        yield ApiService(parts)


@asynccontextmanager
async def _asked(settings: MatchingSettings) -> AsyncIterator[Mapping[str, Part]]:
    from headrace_matching.parts import open_parts

    async with open_parts(settings, new=False) as parts:
        yield parts.by_name


SERVICES = {"api": _api}
FRAME = Frame(
    NAME,
    MatchingSettings,
    PREFIX,
    ("-m", "headrace", NAME),
    SERVICES,
    _asked,
    {name: HTTP_PORTS[name] for name in SERVICES},
)
