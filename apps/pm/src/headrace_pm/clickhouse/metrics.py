"""What the way from Kafka into ClickHouse counts; every series is there from the start, at 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_ROW_BUCKETS = (100, 1_000, 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


class ClickHouseMetrics:
    """The series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self.registry = registry
        self.rows = Counter("pm_clickhouse_rows", "Rows that ClickHouse has taken.", registry=registry)
        self.block_rows = Histogram(
            "pm_clickhouse_block_rows", "Rows of the blocks that were written.", registry=registry, buckets=_ROW_BUCKETS
        )
        self.insert_s = Histogram("pm_clickhouse_insert_seconds", "From a block to its answer.", registry=registry)
        self.refused = Counter("pm_clickhouse_refused_blocks", "Blocks that were halved.", registry=registry)
        self.failed = Counter("pm_clickhouse_failed_inserts", "Inserts that are made again.", registry=registry)
        self.dead = Counter("pm_clickhouse_dead_messages", "Records that were set aside.", registry=registry)
        self.lag = Gauge(
            "pm_clickhouse_lag_messages",
            "Records of a partition that are not in ClickHouse.",
            ("topic", "partition"),
            registry=registry,
        )
        self.waiting = Gauge(
            "pm_clickhouse_waiting", "1 while ClickHouse does not take the block in hand.", registry=registry
        )
