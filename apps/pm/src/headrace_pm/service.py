"""The services: `all` does everything with files, and its parts can be run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from headrace.errors import MissingExtra
from headrace.services import Part, Service
from headrace.sources import SourceWorker
from headrace_pm.cutover.mode import CutoverRecord, open_record
from headrace_pm.observe.observed_files import ObservedFiles
from headrace_pm.observe.pipeline_metrics import EVERY_S, PipelineMetrics
from headrace_pm.settings import PmSettings
from headrace_pm.work.loops import KeptLoop, ended
from headrace_pm.work.pipeline import FilePipeline, PipelineRoles, TablesOpener, open_pipeline, tables_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

SHADOW = "shadow"
ROLES: Mapping[str, PipelineRoles] = {
    "all": PipelineRoles(scan=True, worker=True, mover=True),
    "scan": PipelineRoles(scan=True),
    "worker": PipelineRoles(worker=True),
    "mover": PipelineRoles(mover=True),
    SHADOW: PipelineRoles(scan=True, worker=True),
}


class PmService(Service):
    """One process of an installation. `record` says who is production; without one it is this."""

    def __init__(
        self,
        name: str,
        pipeline: FilePipeline,
        registry: CollectorRegistry,
        metrics: PipelineMetrics,
        record: CutoverRecord | None = None,
    ) -> None:
        self.name, self.pipeline, self.registry = name, pipeline, registry
        self._metrics, self._record = metrics, record
        self._loops: list[KeptLoop] = []
        self.parts = pipeline.parts
        self.add_loop(KeptLoop("metrics", EVERY_S, metrics.read, metrics.loop_failed))

    def add_loop(self, loop: KeptLoop) -> None:
        """One more beside those of the pipeline."""
        self._loops.append(loop)
        self.parts = {**self.parts, f"loop_{loop.state.name}": loop.state}

    async def prepare(self) -> None:
        if self._record is not None:
            await self._record.require_production()

    async def run(self, stop: asyncio.Event) -> None:
        own = {loop.state.name: loop.state for loop in self._loops}
        self._metrics.watch_loops({**self.pipeline.loops, **own})
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pipeline.run(stop))
            beside = [group.create_task(loop.run(stop)) for loop in self._loops]
            if self._record is not None:
                beside.append(group.create_task(self._record.watch(stop)))
            await stop.wait()
            await ended(beside)

    def beside(self) -> Mapping[str, Part]:
        return self.pipeline.beside

    def workers(self) -> Sequence[SourceWorker]:
        worker = self.pipeline.worker
        return () if worker is None else (worker,)


@asynccontextmanager
async def open_service(name: str, settings: PmSettings, opener: TablesOpener = tables_of) -> AsyncIterator[PmService]:
    """A service of these settings; `opener` opens its tables."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    async with AsyncExitStack() as stack:
        tables = await stack.enter_async_context(opener(settings))
        metrics = PipelineMetrics(registry, tables)
        opening = open_pipeline(settings, ROLES[name], metrics, lambda _settings: nullcontext(tables))
        pipeline = await stack.enter_async_context(opening)
        record = None
        if not settings.is_embedded and name != SHADOW:
            record = await stack.enter_async_context(open_record(settings))
        await _watch(metrics, pipeline, stack, sees_clickhouse=name != SHADOW)
        yield PmService(name, pipeline, registry, metrics, record)


async def _watch(
    metrics: PipelineMetrics, pipeline: FilePipeline, stack: AsyncExitStack, sees_clickhouse: bool
) -> None:
    """What the metrics read beside the table."""
    if pipeline.spool is not None:
        metrics.watch_spool(pipeline.spool)
    else:
        metrics.without_spool()
    if pipeline.memory is not None:
        metrics.watch_memory(pipeline.memory)
    metrics.watch_rows({lane.name: lane.rows for lane in pipeline.lanes})
    metrics.watch_kafka(lambda: sum(getattr(lane.sink, "unknown", 0) for lane in pipeline.lanes))
    if not sees_clickhouse or not pipeline.lanes or not pipeline.settings.clickhouse_url:
        return
    try:
        from headrace_pm.clickhouse.client import ClickHouse
        from headrace_pm.observe.seen_in_clickhouse import SeenInClickHouse
    except ModuleNotFoundError as error:
        raise MissingExtra(f"pm needs {error.name}", "pip install 'headrace-pm[clickhouse]'") from None
    clickhouse = ClickHouse(pipeline.settings)
    stack.push_async_callback(clickhouse.close)
    metrics.watch_clickhouse(SeenInClickHouse(clickhouse, ObservedFiles(pipeline.tables), pipeline.tables))
