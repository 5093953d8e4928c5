"""Kafka as a sink of files: batches go out side by side, and the checkpoint follows over the acknowledged prefix.

A worker that is killed has a checkpoint behind what it sent: its successor repeats at most the batches that were on
their way, cut exactly as before. A worker that lost its claim learns it from its next checkpoint, and stops sending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import structlog

from headrace.errors import HeadraceError
from headrace.services import Pauses, bare_errors
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.counters.row_digest import batch_digest
from headrace_pm.kafka.checkpoints import AcknowledgedPrefix, BatchShare, Checkpoint, CheckpointStore
from headrace_pm.kafka.delivery import BatchDelivery
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import CounterProducer
from headrace_pm.kafka.records import FORMS, BatchRecords, FileRevision
from headrace_pm.sinks.counter_sink import STREAM_SINK, Batches

SaveCheckpoint = Callable[[int, str, int, Checkpoint], Awaitable[None]]
"""As `CheckpointStore.save`."""
log = structlog.get_logger("headrace_pm.kafka")


class KafkaSink:
    """Writes files to the topic of a producer; any number at once. The checkpoint of a file is saved when it is
    `behind_max` batches behind what was acknowledged, and at its end: by `finish`, if there is one, with the flag."""

    name = STREAM_SINK

    def __init__(
        self,
        producer: CounterProducer,
        checkpoints: CheckpointStore,
        form: RecordForm,
        behind_max: int = 1,
        finish: SaveCheckpoint | None = None,
    ) -> None:
        self._producer, self._checkpoints, self._records_of = producer, checkpoints, FORMS[form]
        self._behind_max, self._finish, self.sets_flag = behind_max, finish, finish is not None
        self.moved_at, self.rows = 0.0, 0

    @property
    def unknown(self) -> int:
        """How many batches had no report and were sent again."""
        return self._producer.unknown

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        """Every batch after the file's checkpoint, until the broker has acknowledged all of them and the checkpoint
        says so. `ClaimLost` if another claim has taken the file over. While Kafka or the checkpoints do not answer it
        waits: whoever has no time for that cancels it, and nothing is lost."""
        start = await self._checkpoints.load(file.file_id, self.name)
        passage = _Passage(start)
        with bare_errors():
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._send(file, batches(start.next_batch), passage))
                    group.create_task(self._follow(file, passage))
            finally:
                passage.is_over = True
        return passage.prefix.checkpoint

    async def answers(self) -> object:
        await self._producer.answers()
        return self.moved_at

    def _acknowledged(self, passage: _Passage, share: BatchShare) -> None:
        self.moved_at, self.rows = asyncio.get_running_loop().time(), self.rows + share.rows
        passage.acknowledged(share)

    async def _send(self, file: FileRevision, batches: Iterator[CounterBatch], passage: _Passage) -> None:
        while (prepared := await asyncio.to_thread(self._next, file, batches)) is not None:
            share, records = prepared
            if share.rows == 0:
                # All its counters are out of scope: there is nothing that a broker could acknowledge.
                passage.acknowledged(share)
                continue
            delivery = BatchDelivery(
                records, partial(self._acknowledged, passage, share), passage.failed, lambda: not passage.is_over
            )
            await self._producer.send(delivery)
            passage.sent = share.number + 1
        passage.end()

    def _next(self, file: FileRevision, batches: Iterator[CounterBatch]) -> tuple[BatchShare, BatchRecords] | None:
        """The next batch, read and encoded; in a thread, because both take milliseconds."""
        batch = next(batches, None)
        if batch is None:
            return None
        return BatchShare(batch.number, len(batch), batch_digest(batch)), self._records_of(file, batch)

    async def _follow(self, file: FileRevision, passage: _Passage) -> None:
        """Save the checkpoint when it has moved far enough, the newest one only."""
        saved, pauses = passage.prefix.checkpoint, Pauses()
        while True:
            checkpoint, is_last = passage.prefix.checkpoint, passage.is_delivered
            if not is_last and checkpoint.next_batch - saved.next_batch < self._behind_max:
                await passage.next_move()
                continue
            if is_last and checkpoint == saved and self._finish is None:
                return
            save = self._finish if is_last and self._finish is not None else self._checkpoints.save
            try:
                await save(file.file_id, self.name, file.epoch, checkpoint)
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("checkpoint.failing", sink=self.name, error=str(error))
                await asyncio.sleep(pauses.next_s())
                continue
            if is_last:
                return
            saved = checkpoint
            pauses.reset()


class _Passage:
    """One file on its way to the topic. Everything here is called on the event loop."""

    def __init__(self, start: Checkpoint) -> None:
        self.prefix = AcknowledgedPrefix(start)
        self.sent = start.next_batch
        self.is_over, self._is_all_sent = False, False
        self._move, self._failure = asyncio.Event(), None

    _failure: Exception | None

    @property
    def is_delivered(self) -> bool:
        return self._is_all_sent and self.prefix.checkpoint.next_batch >= self.sent

    def acknowledged(self, share: BatchShare) -> None:
        self.sent = max(self.sent, share.number + 1)
        self.prefix.acknowledge(share)
        self.moved()

    def failed(self, error: Exception) -> None:
        self._failure = error
        self.moved()

    def end(self) -> None:
        self._is_all_sent = True
        self.moved()

    def moved(self) -> None:
        self._move.set()

    async def next_move(self) -> None:
        await self._move.wait()
        self._move.clear()
        if self._failure is not None:
            raise self._failure
