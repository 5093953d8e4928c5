"""A sink of counters: what a file's batches are written to, each file from its own checkpoint on.

There are two in every installation, and each has a flag in the row of a file: `mysql` is a table with the rows
(MySQL, MariaDB, SQLite), `kafka` is what sets `clickhouse_processed` (a topic, or Parquet files).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision

TABLE_SINK, STREAM_SINK = "mysql", "kafka"
Batches = Callable[[int], Iterator[CounterBatch]]
"""The batches of a file from this number on; may be called in any thread, any number of times."""


class CounterSink(Protocol):
    """Any number of files may be written at once."""

    name: str
    """`mysql` or `kafka`: which checkpoint is its own, and which flag says that it has all."""
    sets_flag: bool
    """Whether `write` sets the flag of the file, too; else whoever calls it does, when it has ended."""

    @property
    def moved_at(self) -> float:
        """When it last acknowledged something, of whichever file, by the clock of the event loop."""

    @property
    def rows(self) -> int:
        """How many rows it has acknowledged in this process so far, of all files: those of a try that did not come to
        its end too, and none that an earlier try had written."""

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        """Every batch after the file's checkpoint, until all are in and the checkpoint says so. Again after that it
        changes nothing. `ClaimLost`, with the epoch as its fence, if another claim has the file by now; an error that
        heals, or no end at all, while the sink is away: then it may be cancelled, and nothing is lost."""

    async def answers(self) -> object:
        """Return if it can be written to now; raise if it cannot."""
