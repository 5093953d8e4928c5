"""Everything that one process does with files, put together: its parts, its loops, its worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace import RetryPolicy
from headrace.errors import HeadraceError, MissingExtra, NotFound, SchemaMismatch
from headrace.services import Asked, Part
from headrace.sources import SourceOptions, SourceWorker
from headrace.tables import OpenTables, open_tables
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.seen import SeenNames, open_redis
from headrace_pm.kafka.checkpoints import CheckpointStore
from headrace_pm.operators import OPERATOR_TABLES
from headrace_pm.operators.folder_looks import FolderLooks
from headrace_pm.operators.unknown_counters import FLUSH_S, UnknownCounters
from headrace_pm.settings import PmSettings
from headrace_pm.sinks.counter_sink import CounterSink
from headrace_pm.sinks.followed_sink import FollowedSink, NoCheckpoints
from headrace_pm.sinks.table_sink import TableSink
from headrace_pm.spool.spool import Spool
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.progress import FileProgress
from headrace_pm.tables.recovery import FileRecovery
from headrace_pm.tables.register import FileTable
from headrace_pm.tables.retention import DAY_S, FileRetention
from headrace_pm.work.archive_moves import ArchiveMoves
from headrace_pm.work.cautious_claims import CautiousClaims
from headrace_pm.work.disappearances import Disappearances
from headrace_pm.work.events import PipelineEvents
from headrace_pm.work.file_fetcher import FileFetcher
from headrace_pm.work.file_sweep import FileSweep
from headrace_pm.work.handler import FileHandler
from headrace_pm.work.loops import END_S, KeptLoop, LoopState, ended
from headrace_pm.work.memory import MemoryBreaker
from headrace_pm.work.network_scan import NetworkScan
from headrace_pm.work.network_tables import Dictionaries, ServerDirectory
from headrace_pm.work.outages import OutageClock
from headrace_pm.work.retention_sweep import EVERY_S as RETENTION_S
from headrace_pm.work.retention_sweep import RetentionSweep
from headrace_pm.work.sink_lane import SinkLane

if TYPE_CHECKING:
    from headrace_pm.kafka.sink import SaveCheckpoint

# A failed attempt is mostly a server in trouble, which needs seconds; sweeps bring back what failed for longer.
RETRIES = RetryPolicy(first_s=5.0, cap_s=300.0)
# Every step has a limit of its own; this one is for what nobody has thought of. A file of 1 GB takes minutes.
FILE_S_MAX = 3_600.0
DRAIN_S = 10.0
TablesOpener = Callable[[PmSettings], AbstractAsyncContextManager[OpenTables]]


@dataclass(frozen=True, slots=True)
class PipelineRoles:
    """What a process does with files."""

    scan: bool = False
    worker: bool = False
    mover: bool = False


def tables_of(settings: PmSettings) -> AbstractAsyncContextManager[OpenTables]:
    """The tables of the settings; what is missing of them is made."""
    if settings.is_embedded:
        settings.home.mkdir(parents=True, exist_ok=True)
    return open_tables(settings.tables_url, (PM_TABLES, OPERATOR_TABLES))


@asynccontextmanager
async def made_tables_of(settings: PmSettings) -> AsyncIterator[OpenTables]:
    """The tables as they are, for those who only read: nothing is made, neither a file nor a folder for it."""
    where = str(settings.home) if settings.is_embedded else "the database of PM_MYSQL_DSN"
    hint = "PM_MYSQL_DSN or PM_HOME says where they are; headrace pm init makes them"
    async with AsyncExitStack() as stack:
        try:
            opening = open_tables(settings.tables_url, (PM_TABLES, OPERATOR_TABLES), make=False)
            tables = await stack.enter_async_context(opening)
        except NotFound:
            raise NotFound(f"there are no tables in {where}", hint) from None
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{where}: {error}", error.hint or hint) from None
        yield tables


def spool_name(settings: PmSettings) -> str:
    """How others name the spool of this process."""
    return f"{socket.gethostname()}:{settings.spool_dir.absolute()}"


class FilePipeline:
    """The parts of one process and what runs on them."""

    def __init__(  # noqa: PLR0913
        self,
        settings: PmSettings,
        roles: PipelineRoles,
        tables: OpenTables,
        seen: SeenNames,
        pools: ServerPools,
        events: PipelineEvents,
    ) -> None:
        self.settings, self.roles, self.tables, self.pools, self.events = settings, roles, tables, pools, events
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self.servers, self.dictionaries = ServerDirectory(tables), Dictionaries(tables)
        self.outages, self.disappearances = OutageClock(), Disappearances(FileTable(tables), events)
        self.worker: SourceWorker | None = None
        self.lanes: Sequence[SinkLane] = ()
        self.spool: Spool | None = None
        self.memory: MemoryBreaker | None = None
        self.unknown: UnknownCounters | None = None
        self._loops: list[KeptLoop] = []
        self.scan = NetworkScan(settings, self.servers, pools, FileTable(tables), seen, events, FolderLooks(tables))
        if roles.scan:
            self._add("scan", settings.scan_interval_s, self.scan.round)
        if roles.mover:
            moves = ArchiveMoves(
                FileMoves(tables),
                self.servers,
                pools,
                seen,
                events,
                f"{self.holder}:mover",
                settings.lease_s,
                settings.move_two_steps,
                self.outages,
                self.disappearances,
            )
            self._add("mover", settings.move_interval_s, moves.round)

    def work_on(self, spool: Spool, progress: FileProgress, sinks: Sequence[CounterSink]) -> SourceWorker:
        """Files are worked on from here on: fetched into this spool, written to these sinks."""
        settings, name = self.settings, spool_name(self.settings)
        self.lanes = [SinkLane(sink, settings.sink_wait_s) for sink in sinks]
        fetcher = FileFetcher(self.servers, self.pools, spool, self.outages, self.disappearances)
        self.unknown = UnknownCounters(self.tables)
        handler = FileHandler(
            fetcher,
            progress,
            self.dictionaries,
            self.lanes,
            self.outages,
            self.events,
            settings.batch,
            self.unknown,
        )
        memory = MemoryBreaker(settings.memory_max_bytes, lambda: len(handler.in_hand))
        claims = CautiousClaims(self.tables, name, spool, memory)
        options = SourceOptions(
            name="files",
            in_progress_max=settings.files_parallel,
            hold_s=settings.lease_s,
            timeout_s=FILE_S_MAX,
            retry=RETRIES,
            drain_s=DRAIN_S,
            id=self.holder,
            on_settled=self.events.settled,
        )
        self.worker, self.spool, self.memory = SourceWorker(claims, handler, options), spool, memory
        sweep = FileSweep(FileRecovery(self.tables), claims, spool, handler.in_hand, self.events)
        self._add("sweeper", settings.recover_interval_s, sweep.round)
        keeps_all, age_s = not settings.keep_days, max(1, settings.keep_days) * DAY_S
        retention = RetentionSweep(FileRetention(self.tables, age_s), keeps_all, self.events)
        self._add("retention", RETENTION_S, retention.round)
        self._add("dictionaries", settings.dictionary_interval_s, self._read_network)
        self._add("unknown_counters", FLUSH_S, self.unknown.flush)
        return self.worker

    @property
    def loops(self) -> Mapping[str, LoopState]:
        return {loop.state.name: loop.state for loop in self._loops}

    @property
    def parts(self) -> Mapping[str, Part]:
        """What `/readyz` asks: the tables, the loops, the sinks."""
        found: dict[str, Part] = {"tables": Asked(self._answers)}
        found.update((f"loop_{name}", state) for name, state in self.loops.items())
        found.update((f"sink_{lane.name}", lane) for lane in self.lanes)
        return found

    @property
    def beside(self) -> Mapping[str, Part]:
        """What `/readyz` names besides: folders, of which one that cannot be listed keeps no other file waiting."""
        looks = self.scan.folders.now.items()
        return {f"folder {folder.system_type} {folder.server_key} {folder.path}": look for folder, look in looks}

    async def run(self, stop: asyncio.Event) -> None:
        """Until the stop; what is in hand is finished, or given back."""
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(loop.run(stop)) for loop in self._loops]
            if self.worker is not None:
                group.create_task(_work(self.worker, stop))
            await stop.wait()
            await ended(beside)
        await self.scan.close()
        if self.unknown is not None:
            with contextlib.suppress(HeadraceError, TimeoutError):
                async with asyncio.timeout(END_S):
                    await self.unknown.flush()

    async def _answers(self) -> object:
        return await self.tables.rows("servers_read")

    async def _read_network(self) -> None:
        await self.dictionaries.read()
        served = await self.servers.read()
        await self.pools.keep_only([each.server for each in served])

    def _add(self, name: str, every_s: float, one_round: Callable[[], Awaitable[object]]) -> None:
        self._loops.append(KeptLoop(name, every_s, one_round, self.events.loop_failed))


class WorkerEnded(Exception):
    """Looks, moves and metrics would go on, and no file would be taken: the process ends instead."""


async def _work(worker: SourceWorker, stop: asyncio.Event) -> None:
    running, stopped = asyncio.ensure_future(worker.run()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        worker.drain()
        await running
        if not stop.is_set():
            raise WorkerEnded("the worker of files has ended, and nobody asked it to")
    finally:
        stopped.cancel()
        running.cancel()


@asynccontextmanager
async def open_pipeline(
    settings: PmSettings, roles: PipelineRoles, events: PipelineEvents, opener: TablesOpener = tables_of
) -> AsyncIterator[FilePipeline]:
    """A pipeline for as long as the block runs; it works while `run` does."""
    async with AsyncExitStack() as stack:
        tables = await stack.enter_async_context(opener(settings))
        redis = None
        if settings.redis_url and (roles.scan or roles.mover):
            limits = settings.redis_connections, settings.redis_timeout_s
            redis = open_redis(settings.redis_url, settings.redis_password, *limits)
            stack.push_async_callback(redis.aclose)
        pools = ServerPools(settings)
        stack.push_async_callback(pools.close)
        pipeline = FilePipeline(settings, roles, tables, SeenNames(redis, FileTable(tables)), pools, events)
        if roles.worker:
            spool = stack.enter_context(Spool(settings.spool_dir, settings.spool_max_bytes))
            progress = FileProgress(tables, spool_name(settings))
            table = await stack.enter_async_context(_table_sink(settings, tables, progress))
            stream = await stack.enter_async_context(_stream_sink(settings, SinkCheckpoints(tables), progress))
            pipeline.work_on(spool, progress, (table, stream))
        yield pipeline


@asynccontextmanager
async def _table_sink(settings: PmSettings, tables: OpenTables, progress: FileProgress) -> AsyncIterator[CounterSink]:
    """The table; and behind it the second topic, if there is one."""
    topic = settings.kafka_topic_after_mysql
    table = TableSink(tables, progress, settings.mysql_parallel, sets_flag=not topic)
    if not topic:
        yield table
        return
    async with _kafka_sink(replace(settings, kafka_topic=topic), NoCheckpoints()) as after:
        yield FollowedSink(table, after)


@asynccontextmanager
async def _stream_sink(
    settings: PmSettings, checkpoints: SinkCheckpoints, progress: FileProgress
) -> AsyncIterator[CounterSink]:
    """Kafka; or Parquet files where there is no server at all."""
    if not settings.is_embedded:
        async with _kafka_sink(settings, checkpoints, progress.sink_finished) as sink:
            yield sink
        return
    try:
        from headrace_pm.parquet.sink import ParquetSink
    except ModuleNotFoundError as error:
        raise MissingExtra(f"pm needs {error.name}", "pip install 'headrace-pm[parquet]'") from None
    yield ParquetSink(settings.home / "parquet", checkpoints)


@asynccontextmanager
async def _kafka_sink(
    settings: PmSettings, checkpoints: CheckpointStore, finish: SaveCheckpoint | None = None
) -> AsyncIterator[CounterSink]:
    try:
        from headrace_pm.kafka.producer import open_producer
        from headrace_pm.kafka.sink import KafkaSink
    except ModuleNotFoundError as error:
        raise MissingExtra(f"pm needs {error.name}", "pip install 'headrace-pm[kafka]'") from None
    async with open_producer(settings) as producer:
        yield KafkaSink(producer, checkpoints, settings.kafka_form, settings.kafka_parallel, finish)
