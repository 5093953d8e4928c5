"""How long after a file appears in its folder are its rows in both sinks, while files arrive evenly?

By default a look is made every 10 s, and a file is ready when two looks saw it alike. The table has whole seconds, so a
latency may be a second more than it is said to be; a second is added to each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC

from pm_flow_site import FlowSite
from pm_service import DONE, RunningService, running
from rig import percentile

ENDED = "SELECT file_name, GREATEST(mysql_insert_time, clickhouse_insert_time) FROM file_processing_state"
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class ArrivalSizes:
    """So many files of so many counters, evenly over so many seconds; and how often is looked for them."""

    files: int
    counters: int
    over_s: float
    look_s: float


class ArrivalBench:
    """Files that arrive, and when they are done."""

    def __init__(self, site: FlowSite, sizes: ArrivalSizes) -> None:
        self._site, self._sizes = site, sizes
        self._files, self._over_s = sizes.files, sizes.over_s
        self._appeared: dict[str, float] = {}
        self._backlog: list[int] = []

    def results(self) -> Iterator[dict[str, object]]:
        site = self._site
        site.make(self._files, self._sizes.counters)
        with site.place() as place:
            staged = sorted(site.stage(self._files).iterdir())
            with running(site, place, PM_SCAN_INTERVAL_S=str(self._sizes.look_s)) as service:
                watched = threading.Thread(target=self._watch, args=(service,))
                watched.start()
                began = time.monotonic()
                for number, path in enumerate(staged):
                    threading.Event().wait(max(0.0, began + self._over_s * number / self._files - time.monotonic()))
                    path.rename(site.folder / path.name)
                    self._appeared[path.name] = time.time()
                service.until(DONE, self._files)
                watched.join()
                memory = service.memory
            found = site.maria.query(ENDED, place.mysql.rpartition("/")[2])
        taken = [ended.replace(tzinfo=UTC).timestamp() + 1 - self._appeared[name] for name, ended in found]
        assert len(taken) == self._files
        yield {
            "files": self._files,
            "over_s": self._over_s,
            "p50_s": round(percentile(taken, 0.5), 1),
            "p95_s": round(percentile(taken, 0.95), 1),
            "max_s": round(max(taken), 1),
            "backlog_max": max(self._backlog),
            "backlog_in_last_half": max(self._backlog[len(self._backlog) // 2 :]),
            "peak_mb": memory.peak_mb,
        }

    def _watch(self, service: RunningService) -> None:
        """How many files have appeared and are not in both sinks."""
        paused = threading.Event()
        while (done := service.count(DONE)) < self._files:
            self._backlog.append(len(self._appeared) - done)
            paused.wait(LOOK_S)
