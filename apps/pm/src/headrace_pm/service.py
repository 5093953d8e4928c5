"""The services: `all` does everything with files, and its parts can be run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.services import Service
from headrace.sources import SourceWorker
from headrace_pm.settings import PmSettings
from headrace_pm.work.pipeline import FilePipeline, PipelineRoles, TablesOpener, open_pipeline, tables_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

ROLES: Mapping[str, PipelineRoles] = {
    "all": PipelineRoles(scan=True, worker=True, mover=True),
    "scan": PipelineRoles(scan=True),
    "worker": PipelineRoles(worker=True),
    "mover": PipelineRoles(mover=True),
}


class PmService(Service):
    """One process of an installation."""

    def __init__(self, name: str, pipeline: FilePipeline, registry: CollectorRegistry) -> None:
        self.name, self._pipeline, self.registry = name, pipeline, registry
        self.parts = pipeline.parts

    async def run(self, stop: asyncio.Event) -> None:
        await self._pipeline.run(stop)

    def workers(self) -> Sequence[SourceWorker]:
        worker = self._pipeline.worker
        return () if worker is None else (worker,)


@asynccontextmanager
async def open_service(name: str, settings: PmSettings, opener: TablesOpener = tables_of) -> AsyncIterator[PmService]:
    """A service of these settings; `opener` opens its tables."""
    from prometheus_client import CollectorRegistry

    from headrace_pm.work.silent_events import SilentEvents

    registry = CollectorRegistry()
    async with open_pipeline(settings, ROLES[name], SilentEvents(), opener) as pipeline:
        yield PmService(name, pipeline, registry)
