"""What is measured, and at which sizes."""

from __future__ import annotations

from dataclasses import dataclass

Finding = dict[str, object]
"""One line of results: flat, so that it is a line of JSON and of CSV alike. `part` says what it belongs to."""

LOCKS, JOBS, WORKERS, IDLE, FINISHED, LOCKED = "locks", "jobs", "workers", "idle", "finished", "locked"
GOALS = "goals"
PARTS = (LOCKS, JOBS, WORKERS, IDLE, FINISHED, LOCKED)
IN_PROGRESS = 16
"""The default of WORKER_MAX_IN_PROGRESS."""
IN_PROGRESS_SMALL = 4
"""What NFR-3 is measured with."""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """`threads` are lock clients at a time, `lock_s` how long each mix of contention, threads and TTL is measured.
    `jobs` are run by ours and by the raw limit, a part of it by the specification's algorithm. `finished` jobs have
    left their tombstones before the poll is measured again; `locked` are before one that is not. `rounds`: of each
    comparison, in turns; the best counts."""

    parts: tuple[str, ...] = PARTS
    threads: tuple[int, ...] = (4, 16)
    ttls_ms: tuple[int, ...] = (1_000, 30_000)
    lock_s: float = 5.0
    jobs: int = 3_000
    delayed_jobs: int = 800
    rounds: int = 2
    buckets: int = 16
    workers: int = 4
    idle_s: float = 20.0
    finished: int = 100_000
    locked: int = 5_000
    delay_s: float = 0.005

    def share(self, jobs: int) -> int:
        """The specification's algorithm is as fast with few as with many."""
        return max(5, jobs // 10)
