"""The table, and behind it a second topic: records come when their rows are in the table, as the old flow sent them.

The file's flag is set when both have all of it. The topic keeps no checkpoint: it is written at least once. After a
crash the file is sent again from its beginning, cut into the same batches, and each record names its batch by (file,
revision, batch) for those who must not count it twice.
"""

from __future__ import annotations

from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.sinks.counter_sink import TABLE_SINK, Batches, CounterSink


class NoCheckpoints:
    """`CheckpointStore` that remembers nothing."""

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        return Checkpoint()

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None: ...


class FollowedSink:
    """A table that sets no flag, and what follows it."""

    name = TABLE_SINK
    sets_flag = False

    def __init__(self, table: CounterSink, after: CounterSink) -> None:
        self._table, self._after = table, after

    @property
    def moved_at(self) -> float:
        return max(self._table.moved_at, self._after.moved_at)

    @property
    def unknown(self) -> int:
        """As the topic has it."""
        return int(getattr(self._after, "unknown", 0))

    @property
    def rows(self) -> int:
        return self._table.rows

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        checkpoint = await self._table.write(file, batches)
        await self._after.write(file, batches)
        return checkpoint

    async def answers(self) -> object:
        await self._after.answers()
        return await self._table.answers()
