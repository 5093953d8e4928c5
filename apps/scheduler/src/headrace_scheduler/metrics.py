"""What is counted, by the names of the specification (§6.1); every series is there from the start, at 0."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from headrace.ports import LeaseOperation, LeaseOutcome, LeaseVerb
from headrace.sources import HeldItem, ItemSettlement, ItemState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

COMPLETED, FAILED = "completed", "failed"
# Whether an operation on a lock is counted is known where it is asked for, and an adapter counts where it is done.
_COUNTED: ContextVar[bool] = ContextVar("counted", default=True)
# Whether the run is about to end for which a lock is renewed.
_ENDING: ContextVar[Callable[[], bool]] = ContextVar("ending", default=lambda: False)
_LWT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_JOB_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0)


class SchedulerMetrics:
    """The series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self.registry = registry
        self._processed = Counter("jobs_processed", "Runs that ended, by how.", ("status",), registry=registry)
        for status in (COMPLETED, FAILED):
            self._processed.labels(status)
        self._in_progress = Gauge("jobs_in_progress", "Jobs that are held now.", registry=registry)
        self._in_progress_max = Gauge("jobs_in_progress_max", "Most jobs that may be held.", registry=registry)
        self._duration = Histogram(
            "job_duration_seconds", "From the beginning of a run to its end.", registry=registry, buckets=_JOB_BUCKETS
        )
        self._dead = Counter("jobs_dlq", "Jobs that went to the dead-letter table.", registry=registry)
        self._dead_now = Gauge(
            "jobs_dead",
            "Jobs in the dead-letter table, as the leading reconciler counted them last.",
            registry=registry,
        )
        self._unread = Counter(
            "rows_unread", "Rows of a newer version that were left out.", ("table",), registry=registry
        )
        for table in ("cron_schedules", "named_calendars", "tenant_queues", "jobs_by_id"):
            self._unread.labels(table)
        self._locks = {
            name: Counter(f"lock_{name}", text, registry=registry)
            for name, text in {
                "acquire_attempt": "Attempts to take a lock.",
                "acquire_success": "Locks taken.",
                "takeover_success": "Expired locks taken over.",
                "renew_success": "Renewals.",
                "renew_failure": "Renewals that were refused or not answered, while the run went on.",
                "release_success": "Releases.",
                "release_failure": "Releases that were refused or not answered.",
            }.items()
        }
        self._clock_skew = Gauge(
            "lock_clock_skew_seconds",
            "How far this clock is ahead of the server's, as measured last.",
            registry=registry,
        )
        self._latency = Histogram(
            "lwt_latency_seconds",
            "Operations on locks, each with its lightweight transactions.",
            ("op",),
            registry=registry,
            buckets=_LWT_BUCKETS,
        )
        for verb in LeaseVerb:
            self._latency.labels(str(verb))

    def watch(self, in_progress: Callable[[], float], most: int) -> None:
        """Whoever holds jobs says how many, when somebody asks, and how many there may be."""
        self._in_progress.set_function(in_progress)
        self._in_progress_max.set(most)

    def watch_clock(self, ahead_s: Callable[[], float]) -> None:
        """How far this machine's clock is ahead of the server's."""
        self._clock_skew.set_function(ahead_s)

    def settled(self, held: HeldItem, settlement: ItemSettlement) -> None:
        """A settlement was accepted: one run ended. What was only put off is none."""
        if settlement.state is ItemState.DONE:
            self._processed.labels(COMPLETED).inc()
        elif settlement.failure is not None:
            self._processed.labels(FAILED).inc()
        if settlement.state is ItemState.DEAD:
            self._dead.inc()
        self._duration.observe(settlement.took_s)

    def dead_now(self, count: int) -> None:
        """How many jobs are dead and wait for somebody; 0 where nobody counts them."""
        self._dead_now.set(count)

    def unread(self, table: str) -> None:
        """A row was left out that a newer version wrote."""
        self._unread.labels(table).inc()

    def repaired(self, status: str, is_dead: bool = False) -> None:
        """The reconciler found how a run had ended whose worker was lost before it was counted."""
        self._processed.labels(status).inc()
        if is_dead:
            self._dead.inc()

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Operations on locks in this block are the scheduler's own."""
        token = _COUNTED.set(False)
        try:
            yield
        finally:
            _COUNTED.reset(token)

    def lease_used(self, operation: LeaseOperation) -> None:
        """One operation on a lock."""
        if not _COUNTED.get():
            return
        granted = operation.outcome is LeaseOutcome.GRANTED
        self._latency.labels(str(operation.op)).observe(operation.seconds)
        match operation.op:
            case LeaseVerb.ACQUIRE:
                self._locks["acquire_attempt"].inc()
                if granted:
                    self._locks["acquire_success"].inc()
            case LeaseVerb.TAKEOVER if granted:
                self._locks["takeover_success"].inc()
            case LeaseVerb.RENEW if _overtaken(operation.outcome):
                pass
            case LeaseVerb.RENEW | LeaseVerb.RELEASE:
                self._locks[f"{operation.op}_{'success' if granted else 'failure'}"].inc()


@contextmanager
def renewal_of(ending: Callable[[], bool]) -> Iterator[None]:
    """A lock is renewed in this block for a run that may end meanwhile."""
    token = _ENDING.set(ending)
    try:
        yield
    finally:
        _ENDING.reset(token)


def _overtaken(outcome: LeaseOutcome) -> bool:
    """Whether the end of the run came first: the renewal was cut off, or met the lock released. That is no failure; an
    error while the end is written is one."""
    if outcome is LeaseOutcome.GRANTED or not _ENDING.get()():
        return False
    task = asyncio.current_task()
    return outcome is LeaseOutcome.REFUSED or (task is not None and task.cancelling() > 0)
