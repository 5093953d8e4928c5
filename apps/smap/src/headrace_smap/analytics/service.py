"""The analytics service: a consumer of posts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import uuid_utils

from headrace.consuming import Consumer, ConsumerOptions, Subscription
from headrace.services import Service
from headrace_smap.analytics.analysts import Analysts, ChildAnalysts, ThreadAnalyst
from headrace_smap.analytics.blob_fetcher import BlobFetcher
from headrace_smap.analytics.dead_letters import Letters
from headrace_smap.analytics.handler import Handler, HandlerParts
from headrace_smap.analytics.limits import AnalyticsLimits
from headrace_smap.analytics.metrics import Measures
from headrace_smap.analytics.modules import Pipeline, pipeline_of
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.projects import Projects
from headrace_smap.analytics.reruns import Rerun, Rerunner
from headrace_smap.analytics.suspects import Suspects
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import DATA_COLLECTED
from headrace_smap.parts import SmapParts

if TYPE_CHECKING:
    from fastapi import APIRouter


DELIVERIES_MAX = 100
"""The bus gives a message up only long after we have: we count what we give up."""


class AnalyticsService(Service):
    """Consumes `data.collected` in `SMAP_WORKERS` lanes, each with up to `SMAP_PREFETCH` messages at a time."""

    name = "analytics"

    def __init__(self, parts: SmapParts) -> None:
        settings, self._parts = parts.settings, parts
        limits = AnalyticsLimits.read(settings.environment)
        # Also with children of our own: a name that nobody knows is told at the start, not by every post.
        self._analysts = analysts_of(parts, limits, modules_of(parts))
        handler = handler_of(parts, Accountant(parts), Analysis(self._analysts, limits.post_s_max))
        subscription = Subscription(settings.queue, (DATA_COLLECTED,), DELIVERIES_MAX)
        options = ConsumerOptions(settings.batch_max, settings.workers)
        self._consumer = Consumer(parts.bus, subscription, handler.handle, options)

    async def prepare(self) -> None:
        """What is published from now on waits for us, and a failed post has a place to go."""
        await self._consumer.prepare()
        await Letters(self._parts.bus).prepare()

    async def warm(self) -> None:
        """Have the analysts ready before the first post."""
        await self._analysts.warm()

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await self._consumer.run(stop)
        finally:
            await self._analysts.close()

    def routes(self) -> Sequence[APIRouter]:
        return ()


def handler_of(parts: SmapParts, accountant: Accountant, analysis: Analysis) -> Handler:
    """What deals with the messages, in this life of this process."""
    limits = AnalyticsLimits.read(parts.settings.environment)
    means = HandlerParts(
        parts.bus,
        accountant,
        Projects(parts.database, parts.settings.timezone),
        BlobFetcher(parts.blobs, limits.fetches, limits.post_bytes_max, parts.settings.workers),
        analysis,
        Letters(parts.bus),
        Suspects(parts.database, str(uuid_utils.uuid7())),
        Measures(parts.registry),
    )
    return Handler(means)


def modules_of(parts: SmapParts) -> Pipeline:
    """The modules that the settings name."""
    return pipeline_of(parts.settings.environment)


def analysts_of(parts: SmapParts, limits: AnalyticsLimits, modules: Pipeline) -> Analysts:
    if limits.analysts:
        return ChildAnalysts(parts.settings.environment, limits.analysts)
    return ThreadAnalyst(modules)


async def rerun(parts: SmapParts, project: str, stop: asyncio.Event | None = None) -> Rerun:
    """Analyse the stored blobs of a project again with the modules of today; see `rerunning`."""
    limits, modules = AnalyticsLimits.read(parts.settings.environment), modules_of(parts)
    analysts = analysts_of(parts, limits, modules)
    fetcher = BlobFetcher(parts.blobs, limits.fetches, limits.post_bytes_max)
    try:
        rerunner = Rerunner(parts.database, fetcher, Analysis(analysts, limits.post_s_max))
        return await rerunner.rerun(project, modules.model_version, parts.settings.timezone, stop)
    finally:
        await analysts.close()
