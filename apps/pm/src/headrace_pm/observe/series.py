"""The series of one process, by name; every one is there from the start, at 0.

Those read from the table are of the whole pipeline and the same in each process: add up over processes what they count
themselves, and take the maximum of what the table says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from headrace_pm.ftp.mover import MoveOutcome
from headrace_pm.ftp.names import NameFault
from headrace_pm.tables.counts import FILE_STATES
from headrace_pm.tables.recovery import RecoveredFiles

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SINKS = ("mysql", "kafka")
OUTCOMES = ("completed", "waiting", "retried", "failed")
FAILED_MOVE = "failed"
# From a file that is fetched at once to one that waits for a sink for an hour; the goal is 30 s.
LATENCY_BUCKETS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600, 1_800, 3_600, 7_200)
SECOND_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class PipelineSeries:
    """What `PipelineMetrics` writes to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._whole_pipeline()
        self._of_this_process()
        self._surroundings()

    def _whole_pipeline(self) -> None:
        self.files = self._gauge("files_by_state", "Files in a state, by the table.", "state")
        self.oldest = self._gauge("oldest_seconds", "For how long the oldest file in a state is known.", "state")
        for state in FILE_STATES:
            self.files.labels(state)
            self.oldest.labels(state)
        self.stuck = self._gauge("stuck_files", "Files that have not ended for more than two hours.")
        self.sink_files = self._gauge("sink_lag_files", "Files that a sink does not have yet.", "sink")
        self.sink_age = self._gauge("sink_lag_seconds", "For how long the oldest of them is known.", "sink")
        for sink in SINKS:
            self.sink_files.labels(sink)
            self.sink_age.labels(sink)
        self.seen_files = self._gauge("seen_lag_files", "Files in Kafka of which ClickHouse does not show all rows.")
        self.seen_rows = self._gauge("seen_lag_rows", "Their rows that are missing in ClickHouse.")
        self.seen_age = self._gauge("seen_lag_seconds", "For how long the oldest of them is in Kafka.")
        self.seen_wrong = self._gauge(
            "seen_different_files", "Files of which ClickHouse shows other rows than were sent."
        )
        self.read_at = self._gauge("read_timestamp_seconds", "When the table was last read for all this; 0: never.")

    def _of_this_process(self) -> None:
        self.ended = self._counter("files", "Files that were let go, by how.", "outcome")
        for outcome in OUTCOMES:
            self.ended.labels(outcome)
        self.bytes = self._counter("downloaded_bytes", "Bytes fetched from file servers.")
        self.download_s = self._histogram("download_seconds", "From the first command to a whole file in the spool.")
        self.counters = self._counter("counters", "Counters in files that were read.")
        self.parse_s = self._histogram("parse_seconds", "Checking a whole file.")
        self.rows = self._counter("rows", "Rows that a sink has acknowledged.", "sink")
        self.write_s = self._histogram("write_seconds", "A file on its way into a sink.", "sink")
        for sink in SINKS:
            self.rows.labels(sink)
            self.write_s.labels(sink)
        self.latency = self._histogram(
            "latency_seconds", "From first listed to in both sinks.", buckets=LATENCY_BUCKETS
        )
        self.moves = self._counter("moves", "Files that were to be moved, by what became of it.", "outcome")
        for move in (*MoveOutcome, FAILED_MOVE):
            self.moves.labels(str(move))
        self.recovered = self._counter(
            "recovered_files", "Files that the sweep has changed, by what they were.", "kind"
        )
        self.purged = self._counter("purged_files", "Files whose rows were deleted after PM_KEEP_DAYS.")
        for each in fields(RecoveredFiles):
            self.recovered.labels(each.name)

    def _surroundings(self) -> None:
        self.scan_s = self._histogram("scan_seconds", "A look at a folder.")
        self.scan_failures = self._counter("scan_failures", "Looks at a folder that failed.", "server", "path")
        self.emptied = self._gauge("emptied_folders", "Folders most files of which have disappeared.")
        self.folder_failing = self._gauge(
            "folder_failing", "1 while a folder cannot be listed by this process.", "server", "path"
        )
        self.folder_listed = self._gauge(
            "folder_listed_timestamp_seconds", "When this process last listed a folder.", "server", "path"
        )
        self.listed = self._gauge("listed_files", "Files that the last look at each folder found, added up.")
        self.waiting = self._gauge("unready_files", "Of these: not finished, empty, or still changing.")
        self.refused = self._gauge("refused_names", "Of these: names that are refused, by why.", "fault")
        for fault in NameFault:
            self.refused.labels(str(fault))
        self.spool_bytes = self._gauge("spool_bytes", "Bytes in the spool, and promised.")
        self.spool_files = self._gauge("spool_files", "Files in the spool.")
        self.spool_accepting = self._gauge("spool_accepting", "1 while the spool takes new files.")
        self.memory_bytes = self._gauge("memory_bytes", "Memory of the process that is in no file (RssAnon).")
        self.memory_full = self._gauge("memory_full", "1 while more than PM_MEMORY_MAX_BYTES is in use.")
        self.unknown = self._counter("kafka_unknown_deliveries", "Batches without a report, sent again.")
        self.loop_failures = self._counter("loop_failures", "Rounds of a loop that failed and are tried again.", "loop")
        self.loop_age = self._gauge("loop_age_seconds", "How long ago a loop's last good round ended.", "loop")

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        from prometheus_client import Gauge

        return Gauge(f"pm_pipeline_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        from prometheus_client import Counter

        return Counter(f"pm_pipeline_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: Sequence[float] = SECOND_BUCKETS) -> Histogram:
        from prometheus_client import Histogram

        return Histogram(f"pm_pipeline_{name}", text, labels, registry=self.registry, buckets=buckets)
