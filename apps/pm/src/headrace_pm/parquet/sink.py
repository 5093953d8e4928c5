"""Parquet as a sink of files: a file is there whole or not at all, so its checkpoint is at the beginning or the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.errors import OperatorError, StoreFull
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.checkpoints import Checkpoint, CheckpointStore
from headrace_pm.kafka.records import FileRevision
from headrace_pm.parquet.revision_file import RevisionFile, published, revision_path

# It has Kafka's place, and so its checkpoint and its flag.
SINK = "kafka"
Batches = Callable[[int], Iterator[CounterBatch]]


class ParquetSink:
    """Writes files below a folder; any number at once, from any number of processes."""

    name = SINK
    sets_flag = False

    def __init__(self, folder: Path, checkpoints: CheckpointStore) -> None:
        self._folder, self._checkpoints = folder, checkpoints
        self.moved_at, self.rows = 0.0, 0

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        """The whole file, unless it is there already; then its checkpoint. `ClaimLost` if another claim has taken the
        file over. A cancelled one leaves nothing behind."""
        start = await self._checkpoints.load(file.file_id, SINK)
        work = _Writing(self._folder, file, self._noted(batches), start)
        running = asyncio.ensure_future(asyncio.to_thread(work.run))
        try:
            checkpoint = await asyncio.shield(running)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, but it looks after each batch. It is awaited, because it has a file open.
            work.stopped.set()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()
            raise
        if checkpoint is None:
            raise asyncio.CancelledError
        if checkpoint != start:
            # All of it: a file that is not published is written from its beginning.
            self.rows += checkpoint.rows
            await self._checkpoints.save(file.file_id, SINK, file.epoch, checkpoint)
        return checkpoint

    async def answers(self) -> object:
        """Whether the folder can be written to."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> None:
        place = next(each for each in (self._folder, *self._folder.absolute().parents) if each.exists())
        if not place.is_dir() or not os.access(place, os.W_OK):
            raise OperatorError(f"{place} cannot be written", "look at PM_HOME")
        if shutil.disk_usage(place).free == 0:
            raise StoreFull(f"the disk of {place} is full", "free some room; work goes on by itself")

    def _noted(self, batches: Batches) -> Batches:
        """The same batches; whenever one is asked for, the one before is written."""
        clock = asyncio.get_running_loop().time

        def noted(since: int) -> Iterator[CounterBatch]:
            for batch in batches(since):
                yield batch
                self.moved_at = clock()

        return noted


class _Writing:
    """One file on its way, in a thread of its own. Reading, encoding and syncing take milliseconds and more."""

    def __init__(self, folder: Path, file: FileRevision, batches: Batches, start: Checkpoint) -> None:
        self._folder, self._file, self._batches, self._start = folder, file, batches, start
        self.stopped = threading.Event()

    def run(self) -> Checkpoint | None:
        """None if it was stopped."""
        if self._is_there():
            return self._start
        with RevisionFile(self._folder, self._file) as written:
            for batch in self._batches(0):
                if self.stopped.is_set():
                    return None
                written.write(batch)
            return written.publish()

    def _is_there(self) -> bool:
        """Whether the file in its place is the one of the checkpoint, and no batch is missing."""
        if self._start.next_batch == 0:
            return False
        there = published(revision_path(self._folder, self._file.version))
        is_same = there is not None and there.checkpoint == self._start
        return is_same and next(self._batches(self._start.next_batch), None) is None
