"""What the service counts of its work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace_smap.analytics.posts import HandledPost

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Measures:
    """Metrics of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self._posts = Counter("headrace_smap_posts", "Posts by how they ended.", ["outcome"], registry=registry)
        self._errors = Counter("headrace_smap_post_errors", "Failed posts by rule.", ["rule"], registry=registry)
        self._seconds = Histogram(
            "headrace_smap_batch_seconds", "From delivery to acknowledgement.", registry=registry, buckets=BUCKETS
        )
        self._lag = Gauge("headrace_smap_lag_seconds", "Age of the last message when it was begun.", registry=registry)

    def ended(self, posts: Sequence[HandledPost]) -> None:
        failed = [post.fault for post in posts if post.fault]
        spared = sum(post.spared for post in posts)
        for outcome, count in (
            ("failed", len(failed)),
            ("cancelled", spared),
            ("done", len(posts) - len(failed) - spared),
        ):
            if count:
                self._posts.labels(outcome).inc(count)
        for fault in failed:
            self._errors.labels(fault.rule).inc()

    def aside(self, outcome: str, count: int) -> None:
        """Messages that are no posts of their own: repeats and strays."""
        if count:
            self._posts.labels(outcome).inc(count)

    def took(self, seconds: float) -> None:
        self._seconds.observe(seconds)

    def told(self, moment: str) -> None:
        """A message's own time; if it has none that can be read, nothing is known of its age."""
        try:
            at = datetime.fromisoformat(moment)
        except ValueError:
            return
        if at.tzinfo is not None:
            self._lag.set(max(0.0, (datetime.now(UTC) - at).total_seconds()))
