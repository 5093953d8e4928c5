"""What the collector counts for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

WORDS = {
    "found": "Posts that this process found and stored.",
    "published": "Posts that this process told of.",
    "unheard": "Times that nobody listened for posts, so that they had to wait.",
    "crawl_failures": "Attempts of crawl tasks that failed in this process.",
    "crawls_given_up": "Crawl tasks that failed for good in this process.",
}


@dataclass(slots=True)
class Counts:
    """What this process has done so far."""

    found: int = 0
    published: int = 0
    unheard: int = 0
    crawl_failures: int = 0
    crawls_given_up: int = 0

    def collect(self) -> Iterator[Metric]:
        """As Prometheus asks for it."""
        from prometheus_client.core import CounterMetricFamily

        for name, words in WORDS.items():
            yield CounterMetricFamily(f"headrace_smap_collector_{name}", words, value=getattr(self, name))


def show(counts: Counts, registry: CollectorRegistry) -> None:
    """Let a registry show these counts."""
    from prometheus_client.registry import Collector

    class Shown(Collector):
        def collect(self) -> Iterator[Metric]:
            return counts.collect()

    registry.register(Shown())
