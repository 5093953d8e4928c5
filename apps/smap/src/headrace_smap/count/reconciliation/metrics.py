"""What the reconciler counts, for those who watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from headrace_smap.count.reconciliation.rules import (
    NOT_SEALED,
    View,
    beyond_total,
    is_complete_but_open,
    is_stuck,
    still_for,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Metrics:
    """Over all projects: a project is never a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.restored = Counter("headrace_smap_restored", "Projects added to the ledger again", registry=registry)
        self.repaired = Counter(
            "headrace_smap_repaired", "Finished projects that a foreign service had changed", registry=registry
        )
        self.orphans = Gauge(
            "headrace_smap_never_opened", "Projects with posts that nobody opened, for ten minutes", registry=registry
        )
        self._unfinished = Gauge("headrace_smap_unfinished", "Projects that are not finished", registry=registry)
        self._cancelled = Gauge(
            "headrace_smap_cancelled", "Projects that were cancelled, for as long as they are shown", registry=registry
        )
        self._foreign = Gauge("headrace_smap_foreign_done", "Posts that foreign workers counted", registry=registry)
        self._beyond = Gauge("headrace_smap_beyond_total", "Posts that ended beyond a sealed total", registry=registry)
        self._not_sealed = Gauge(
            "headrace_smap_complete_but_not_sealed", "Projects that nobody seals, for ten minutes", registry=registry
        )
        self._stuck = Gauge(
            "headrace_smap_sealed_but_unfinished",
            "Sealed projects where nothing moves, for ten minutes",
            registry=registry,
        )

    def show(self, views: Sequence[View]) -> None:
        seen = [view.seen for view in views if view.seen is not None]
        truths = [view.truth for view in views if view.truth.known]
        self._unfinished.set(sum(truth.finished_at is None and truth.cancelled_at is None for truth in truths))
        self._cancelled.set(sum(truth.cancelled_at is not None for truth in truths))
        self._foreign.set(sum(max(0, each.done - each.counted) for each in seen))
        self._beyond.set(sum(beyond_total(view, view.truth.settled) for view in views))
        self._not_sealed.set(sum(is_complete_but_open(view) and still_for(view) >= NOT_SEALED for view in views))
        self._stuck.set(sum(is_stuck(view) for view in views))
