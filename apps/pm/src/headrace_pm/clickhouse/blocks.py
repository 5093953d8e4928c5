"""Blocks: runs of records of one partition, and where such a run ends.

What a repeated block is recognised by is its token, so the same records must make the same block after a restart or a
rebalance. Two tokens were possible. `file:revision:batch` is exact whatever is repeated, also by producers, but a token
is for a whole insert: every batch would be an insert and a part of its own, 26 times as slow. A range of offsets is as
large as a block wants to be, but is only exact if the next consumer cuts at the same place, and blocks are cut by time
too. So the end of a block is **committed before the block is written**, in the metadata of the offset at which it
begins: whoever continues there repeats exactly that block, with its token, and ClickHouse takes it once. Batches that
producers have sent twice are left to ReplacingMergeTree: same key, same version, one row under FINAL.

The token also has a digest of the content: a topic that was deleted and made again has the same offsets once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from headrace_pm.clickhouse.messages import RowsRecord

_PLAN = "block-end="


@dataclass(frozen=True, slots=True)
class Block:
    """Records of one partition from `begin` up to `end`. Offsets in between may be missing, as after a compaction."""

    topic: str
    partition: int
    begin: int
    end: int
    records: tuple[RowsRecord, ...]

    @property
    def good(self) -> list[RowsRecord]:
        return [record for record in self.records if not record.is_poison]

    @property
    def poison(self) -> list[RowsRecord]:
        return [record for record in self.records if record.is_poison]

    @property
    def rows(self) -> int:
        return sum(record.rows for record in self.records)

    def content(self) -> bytes:
        return b"".join(record.block for record in self.records)

    def token(self, content: bytes) -> str:
        digest = blake2b(content, digest_size=8).hexdigest()
        return f"{self.topic}:{self.partition}:{self.begin}-{self.end}:{digest}"

    def halves(self) -> tuple[Block, Block]:
        """The same records in two blocks; where they are cut follows from the records alone."""
        middle = len(self.records) // 2
        cut = self.records[middle].offset
        return (
            Block(self.topic, self.partition, self.begin, cut, self.records[:middle]),
            Block(self.topic, self.partition, cut, self.end, self.records[middle:]),
        )


@dataclass(slots=True)
class PartitionBacklog:
    """Records of one partition that were read and are not in ClickHouse. `begin` is where the group continues if this
    process is lost, `planned_end` where the block from there ends if somebody has planned it."""

    topic: str
    partition: int
    begin: int
    planned_end: int | None = None
    records: list[RowsRecord] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    since: float = 0.0
    is_lost: bool = False

    def add(self, record: RowsRecord, now: float) -> None:
        if record.offset < self.begin:
            return
        if not self.records:
            self.since = now
        self.records.append(record)
        self.rows, self.size = self.rows + record.rows, self.size + record.size

    def is_due(self, now: float, rows_max: int, wait_s: float) -> bool:
        if not self.records:
            return False
        if self.planned_end is not None:
            return self.records[-1].offset + 1 >= self.planned_end
        return self.rows >= rows_max or now - self.since >= wait_s

    def block(self) -> Block | None:
        """The next block: all records, or those up to the end that was planned."""
        end = self.planned_end or self.records[-1].offset + 1
        if self.records[-1].offset + 1 < end:
            return None
        return Block(
            self.topic, self.partition, self.begin, end, tuple(each for each in self.records if each.offset < end)
        )

    def written_until(self, end: int, now: float) -> None:
        """Records before `end` are in ClickHouse."""
        self.begin = end
        if self.planned_end is not None and self.planned_end <= end:
            self.planned_end = None
        self.records = [record for record in self.records if record.offset >= end]
        self.rows, self.size = sum(each.rows for each in self.records), sum(each.size for each in self.records)
        self.since = now


def plan_text(end: int) -> str:
    """The metadata of an offset at which a block begins that ends there."""
    return f"{_PLAN}{end}"


def planned_end(metadata: str | None, begin: int) -> int | None:
    """The end that was planned for the block at this offset, if any was."""
    text = (metadata or "").removeprefix(_PLAN)
    end = int(text) if text.isdigit() and text != metadata else 0
    return end if end > begin else None


def largest(backlogs: Sequence[PartitionBacklog]) -> PartitionBacklog:
    return max(backlogs, key=lambda each: each.size)
