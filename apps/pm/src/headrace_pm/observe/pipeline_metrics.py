"""The metrics of a process of the pipeline: what it counts itself, and what the table says, read again and again.

    metrics = PipelineMetrics(registry, tables)
    await metrics.read()          # every EVERY_S

Nothing here may stop the work: events are plain calls. While the database is away a reading fails, and the next one is
made all the same; `pm_pipeline_read_timestamp_seconds` says how old the answers are.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

import structlog

from headrace.errors import HeadraceError
from headrace.sources import HeldItem, ItemSettlement, ItemState
from headrace.tables import OpenTables
from headrace_pm.ftp.names import NameFault
from headrace_pm.ftp.scanner import Scanned
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.observe.alerts import FileFigures, PipelineAlerts
from headrace_pm.observe.observed_files import ObservedFiles
from headrace_pm.observe.series import PipelineSeries
from headrace_pm.spool.spool import Spool
from headrace_pm.tables.counts import FileCounts
from headrace_pm.work.memory import MemoryBreaker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from headrace_pm.observe.seen_in_clickhouse import SeenInClickHouse

EVERY_S = 15.0
# What ended between two readings of the table; more than this is not looked up for the latency.
ENDED_MAX = 10_000
log = structlog.get_logger("headrace_pm.observe")


class ObservedLoop(Protocol):
    """A loop of this process: when its last good round ended, by the wall clock."""

    @property
    def last_ok_at(self) -> float: ...


class PipelineMetrics:
    """One for each process."""

    def __init__(
        self,
        registry: CollectorRegistry,
        tables: OpenTables,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.series = PipelineSeries(registry)
        self._counts, self._files = FileCounts(tables), ObservedFiles(tables)
        self._now = now
        self._alerts = PipelineAlerts()
        self._ended: deque[int] = deque(maxlen=ENDED_MAX)
        self._scans: dict[ServerFolder, Scanned] = {}
        self._failed: set[ServerFolder] = set()
        self._unknown: tuple[Callable[[], int], int] = (lambda: 0, 0)
        self._rows: Mapping[str, Callable[[], int]] = {}
        self._rows_before: Counter[str] = Counter()
        self._seen: SeenInClickHouse | None = None
        self._loops: Mapping[str, ObservedLoop] = {}

    async def read(self) -> None:
        """Read everything once."""
        self._read_process()
        figures = await self._read_table()
        for line in self._alerts.due(figures, self._now()):
            log.error(line)
        await self._read_latencies()
        self.series.read_at.set(time.time())
        await self._read_clickhouse()

    def watch_spool(self, spool: Spool) -> None:
        self.series.spool_bytes.set_function(lambda: spool.used_bytes)
        self.series.spool_files.set_function(lambda: spool.file_count)
        self.series.spool_accepting.set_function(lambda: spool.accepting)

    def without_spool(self) -> None:
        """A process that only looks or moves keeps nobody waiting for room."""
        self.series.spool_accepting.set(1)

    def watch_memory(self, memory: MemoryBreaker) -> None:
        self.series.memory_bytes.set_function(memory.used_bytes)
        self.series.memory_full.set_function(lambda: memory.is_open)

    def watch_rows(self, rows: Mapping[str, Callable[[], int]]) -> None:
        """How many rows each sink has acknowledged so far."""
        self._rows = rows

    def watch_kafka(self, unknown: Callable[[], int]) -> None:
        """How many batches had no report so far."""
        self._unknown = unknown, 0

    def watch_clickhouse(self, seen: SeenInClickHouse) -> None:
        self._seen = seen

    def watch_loops(self, loops: Mapping[str, ObservedLoop]) -> None:
        """The loops of this process by name; more may be added to the mapping later."""
        self._loops = loops

    def scanned(self, folder: ServerFolder, scanned: Scanned) -> None:
        """A look at a folder ended."""
        self.series.scan_s.observe(scanned.seconds)
        self._scans[folder] = scanned
        self.series.folder_failing.labels(folder.server_key, folder.path).set(0)
        self.series.folder_listed.labels(folder.server_key, folder.path).set(time.time())
        self._show_scans()

    def scan_failed(self, folder: ServerFolder) -> None:
        self.series.scan_failures.labels(folder.server_key, folder.path).inc()
        self.series.folder_failing.labels(folder.server_key, folder.path).set(1)
        self._failed.add(folder)

    def looked_after(self, folders: Collection[ServerFolder]) -> None:
        """These are the folders now: what others showed goes."""
        gone = (self._scans.keys() | self._failed) - set(folders)
        for folder in gone:
            self._scans.pop(folder, None)
            self._failed.discard(folder)
            for series in (self.series.folder_failing, self.series.folder_listed):
                with contextlib.suppress(KeyError):
                    series.remove(folder.server_key, folder.path)
        if gone:
            self._show_scans()

    def _show_scans(self) -> None:
        found = self._scans.values()
        self.series.listed.set(sum(each.listed_count for each in found))
        unready = sum(each.waiting_count + each.empty_count + each.unfinished_count for each in found)
        self.series.waiting.set(unready)
        refused: Counter[NameFault] = sum((each.refused for each in found), Counter())
        for fault in NameFault:
            self.series.refused.labels(str(fault)).set(refused[fault])

    def downloaded(self, byte_count: int, seconds: float) -> None:
        self.series.bytes.inc(byte_count)
        self.series.download_s.observe(seconds)

    def parsed(self, counter_count: int, seconds: float) -> None:
        self.series.counters.inc(counter_count)
        self.series.parse_s.observe(seconds)

    def written(self, sink: str, seconds: float) -> None:
        """A sink has all of a file, after a last try of so many seconds."""
        self._read_rows()
        self.series.write_s.labels(sink).observe(seconds)

    def settled(self, held: HeldItem, settlement: ItemSettlement) -> None:
        """`on_settled` of the worker of files."""
        self.series.ended.labels(_outcome(settlement)).inc()
        if settlement.state is ItemState.DONE:
            self._ended.append(int(held.key))

    def emptied(self, folders: int) -> None:
        """So many folders have lost most of their files, as far as is known."""
        self.series.emptied.set(folders)

    def moved(self, outcome: str) -> None:
        """A `MoveOutcome`, or `failed` if nobody knows yet."""
        self.series.moves.labels(str(outcome)).inc()

    def recovered(self, kind: str, count: int) -> None:
        self.series.recovered.labels(kind).inc(count)

    def purged(self, count: int) -> None:
        self.series.purged.inc(count)

    def loop_failed(self, name: str) -> None:
        self.series.loop_failures.labels(name).inc()

    async def _read_table(self) -> FileFigures:
        files, stuck = await self._counts.by_state(), await self._counts.stuck()
        for state, count in files.items():
            self.series.files.labels(state).set(count)
        for state, seconds in (await self._counts.oldest_s()).items():
            self.series.oldest.labels(state).set(seconds)
        for sink, lag in (await self._counts.lags()).items():
            self.series.sink_files.labels(sink).set(lag.files)
            self.series.sink_age.labels(sink).set(lag.oldest_s)
        self.series.stuck.set(stuck)
        return FileFigures(files["PENDING"], files["ERROR"], stuck)

    def _read_process(self) -> None:
        unknown, before = self._unknown
        after = unknown()
        self.series.unknown.inc(max(0, after - before))
        self._unknown = unknown, after
        self._read_rows()
        for name, loop in self._loops.items():
            self.series.loop_failures.labels(name)
            self.series.loop_age.labels(name).set(max(0.0, time.time() - loop.last_ok_at) if loop.last_ok_at else 0.0)

    def _read_rows(self) -> None:
        for sink, rows in self._rows.items():
            now = rows()
            self.series.rows.labels(sink).inc(max(0, now - self._rows_before[sink]))
            self._rows_before[sink] = now

    async def _read_latencies(self) -> None:
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        try:
            found = await self._files.latencies(ended)
        except HeadraceError:
            self._ended.extendleft(reversed(ended))
            raise
        for seconds in found:
            self.series.latency.observe(seconds)

    async def _read_clickhouse(self) -> None:
        if self._seen is None:
            return
        lag = await self._seen.look(self._now())
        self.series.seen_files.set(lag.files)
        self.series.seen_rows.set(lag.rows)
        self.series.seen_age.set(lag.oldest_s)
        self.series.seen_wrong.set(lag.different)


def _outcome(settlement: ItemSettlement) -> str:
    if settlement.state is ItemState.DONE:
        return "completed"
    if settlement.state is ItemState.DEAD:
        return "failed"
    return "waiting" if settlement.failure is None else "retried"
