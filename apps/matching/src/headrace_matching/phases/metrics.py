"""What is counted of events."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from headrace_matching.events.names import NAMES
from headrace_matching.legacy.names import REPLACED

OTHER, LEGACY = "other", "legacy"


class EventMetrics:
    """Counters by the name of the event; names that are not ours are one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._received = Counter(
            "headrace_matching_events", "Messages that were dealt with", ["name"], registry=registry
        )
        self._refused = Counter("headrace_matching_events_refused", "Events refused", ["name"], registry=registry)
        self._foreign = Counter(
            "headrace_matching_foreign_ids", "Events whose id is no UUIDv7", ["name"], registry=registry
        )

    def handled(self, names: Sequence[str]) -> None:
        """Messages that were dealt with, those among them that were refused or wait."""
        for name, count in Counted(names).items():
            self._received.labels(label_of(name)).inc(count)

    def refused(self, name: str) -> None:
        self._refused.labels(label_of(name)).inc()

    def foreign_id(self, name: str) -> None:
        self._foreign.labels(name).inc()


def label_of(name: str) -> str:
    """Names of others are one: anybody may publish any."""
    return name if name in NAMES else LEGACY if name in REPLACED else OTHER
