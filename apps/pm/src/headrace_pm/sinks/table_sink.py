"""The table of counters as a sink: rows and checkpoint in one transaction, so that every row is there exactly once.

A unit of work has up to ten batches, `sink_advance` under the epoch of the claim, and with the last batch the file's
flag. If another claim has the file by then no row is found, and nothing of the unit remains. If the answer to the
COMMIT is lost, the same unit is sent again: it meets its own mark, or is applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import ClaimLost, Conflict
from headrace.tables import Columns, OpenTables
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.counters.row_digest import batch_digest
from headrace_pm.kafka.checkpoints import BatchShare, Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.sinks.counter_columns import counter_columns
from headrace_pm.sinks.counter_sink import TABLE_SINK, Batches
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.progress import FileProgress

BATCHES_MAX = 10
# A unit may have 10,000 runs of statements; the checkpoint and the flag are among them.
ROWS_MAX = 9_990


@dataclass(frozen=True, slots=True)
class _Piece:
    """What goes into one transaction: rows, where the checkpoint is after them, and whether they are the last."""

    rows: Columns
    checkpoint: Checkpoint
    is_last: bool


class TableSink:
    """Writes files to `pm_counter_data`. `parallel` transactions of rows run at a time, of all files together."""

    name = TABLE_SINK

    def __init__(self, tables: OpenTables, progress: FileProgress, parallel: int, sets_flag: bool = True) -> None:
        self.sets_flag = sets_flag
        self._tables, self._checkpoints, self._progress = tables, SinkCheckpoints(tables), progress
        self._room = asyncio.Semaphore(parallel)
        self._signed = tables.tables.dialect == "sqlite"
        self.moved_at, self.rows = 0.0, 0

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        checkpoint = await self._checkpoints.load(file.file_id, self.name)
        pieces = self._pieces(file, batches(checkpoint.next_batch), checkpoint)
        is_last = False
        while not is_last:
            # Rows are put together when it is their turn, so that those of a few files are in memory and not of all.
            async with self._room:
                piece = await asyncio.to_thread(next, pieces)
                await self._apply(file, piece)
            checkpoint, is_last = piece.checkpoint, piece.is_last
            self.moved_at, self.rows = asyncio.get_running_loop().time(), self.rows + len(piece.rows)
        return checkpoint

    async def answers(self) -> object:
        return await self._checkpoints.load(0, self.name)

    def _pieces(self, file: FileRevision, batches: Iterator[CounterBatch], checkpoint: Checkpoint) -> Iterator[_Piece]:
        """At least one, so that the flag of a file without rows is set, too."""
        taken: list[CounterBatch] = []
        rows = 0
        for batch in batches:
            if taken and (len(taken) == BATCHES_MAX or rows + len(batch) > ROWS_MAX):
                yield self._piece(file, taken, checkpoint, is_last=False)
                taken, rows = [], 0
            taken.append(batch)
            rows += len(batch)
            checkpoint = checkpoint.after(BatchShare(batch.number, len(batch), batch_digest(batch)))
        yield self._piece(file, taken, checkpoint, is_last=True)

    def _piece(self, file: FileRevision, taken: list[CounterBatch], checkpoint: Checkpoint, *, is_last: bool) -> _Piece:
        rows = counter_columns(taken, file.version, self._signed) if any(map(len, taken)) else Columns({})
        return _Piece(rows, checkpoint, is_last)

    async def _apply(self, file: FileRevision, piece: _Piece) -> None:
        try:
            async with self._tables.transaction() as tx:
                # First, so that whoever lost the file writes no rows that are rolled back again.
                self._checkpoints.record(tx, file.file_id, self.name, file.epoch, piece.checkpoint)
                if piece.is_last and self.sets_flag:
                    self._progress.record_sink_done(tx, file, self.name)
                if len(piece.rows):
                    tx.run_many("counters_upsert", piece.rows)
        except Conflict:
            raise ClaimLost(f"another claim has file {file.file_id}", file.epoch) from None
