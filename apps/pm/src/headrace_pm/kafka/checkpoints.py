"""How far a file has come in a sink: the port of its checkpoints, and the prefix that a checkpoint may move over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace_pm.counters.row_digest import DIGEST_MODULUS


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All batches before `next_batch` are in the sink: so many rows, with this digest."""

    next_batch: int = 0
    rows: int = 0
    digest: int = 0

    def after(self, share: BatchShare) -> Checkpoint:
        """With the next batch in the sink too."""
        return Checkpoint(share.number + 1, self.rows + share.rows, (self.digest + share.digest) % DIGEST_MODULUS)


@dataclass(frozen=True, slots=True)
class BatchShare:
    """What one batch adds to a checkpoint."""

    number: int
    rows: int
    digest: int


class CheckpointStore(Protocol):
    """The rows `pm_file_sink(file_id, sink, epoch, next_batch, rows, digest)`."""

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        """How far this file came; the beginning if it has no row."""

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        """Write it if the row still has this epoch: saving the same twice changes nothing.

        `ClaimLost` if another claim has taken the row over; then nothing was written.
        """


class AcknowledgedPrefix:
    """Batches are acknowledged in any order; the checkpoint moves over those that have no gap before them."""

    def __init__(self, start: Checkpoint) -> None:
        self.checkpoint = start
        self._ahead: dict[int, BatchShare] = {}

    def acknowledge(self, share: BatchShare) -> None:
        """This batch is in the sink."""
        self._ahead[share.number] = share
        while (next_one := self._ahead.pop(self.checkpoint.next_batch, None)) is not None:
            self.checkpoint = self.checkpoint.after(next_one)
