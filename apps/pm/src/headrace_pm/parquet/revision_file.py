"""One Parquet file of one revision: written beside its place, synced, and moved there under the fence of its claim.

    000000/v0000000041.parquet      revision with the version 41: all its rows, or it is not there
    000000/v0000000041.e7.part      being written by the claim with epoch 7

A file says by which epoch it was written. It is replaced by one of the same epoch or a higher one, compared and moved
under a lock of the folder: a worker that lost its claim and comes late replaces nothing, also if it read its file with
older dictionaries. The lock is held for a look and a rename.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import ClaimLost, OperatorError, StoreFull
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.counters.row_digest import batch_digest
from headrace_pm.kafka.checkpoints import BatchShare, Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.parquet.columns import SCHEMA, record_batch

# Readers want large row groups, ten files at once want small ones: these take 2 MB while they are gathered.
GROUP_ROWS = 32_768
REVISIONS_PER_FOLDER = 10_000
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_MARK = b"headrace."


@dataclass(frozen=True, slots=True)
class PublishedRevision:
    """What a file in its place says of itself."""

    epoch: int
    checkpoint: Checkpoint


def revision_path(folder: Path, version: int) -> Path:
    """Where the rows of a revision are. Names sort as versions do."""
    return folder / f"{version // REVISIONS_PER_FOLDER:06}" / f"v{version:010}.parquet"


def published(path: Path) -> PublishedRevision | None:
    """What is in its place; None if nothing is, or nothing that we wrote."""
    try:
        found = pq.read_metadata(path).metadata or {}
        told = {name: int(found[_MARK + name.encode()]) for name in ("epoch", "next_batch", "rows", "digest")}
    except (FileNotFoundError, KeyError, ValueError, pa.ArrowInvalid):
        return None
    return PublishedRevision(told.pop("epoch"), Checkpoint(**told))


class RevisionFile:
    """The file of one revision while it is written; no two threads at once. What is not published is removed."""

    def __init__(self, folder: Path, file: FileRevision) -> None:
        self._file = file
        self.path = revision_path(folder, file.version)
        self._part = self.path.with_suffix(f".e{file.epoch}.part")
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self.checkpoint = Checkpoint()

    def __enter__(self) -> RevisionFile:
        with _room_for(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = self._part.open("wb")
            self._writer = pq.ParquetWriter(self._sink, SCHEMA, compression="zstd", store_schema=False)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._writer, self._sink):
            # What was published is closed; what was not is thrown away, whatever closing it has to say.
            with suppress(OSError):
                each.close()
        self._part.unlink(missing_ok=True)

    def write(self, batch: CounterBatch) -> None:
        """The next batch."""
        self.checkpoint = self.checkpoint.after(BatchShare(batch.number, len(batch), batch_digest(batch)))
        self._gathered.append(record_batch(batch, self._file.version))
        self._rows += len(batch)
        if self._rows >= GROUP_ROWS:
            self._flush()

    def publish(self) -> Checkpoint:
        """All batches are written: sync the file and move it to its place. `ClaimLost` if a later claim was there
        before."""
        self._flush()
        told = {"epoch": self._file.epoch, "next_batch": self.checkpoint.next_batch}
        told |= {"rows": self.checkpoint.rows, "digest": self.checkpoint.digest}
        names = {"file": self._file.name, "file_id": str(self._file.file_id), "revision": str(self._file.revision)}
        with _room_for(self.path):
            self._writer.add_key_value_metadata(
                {_MARK + name.encode(): str(value).encode() for name, value in {**told, **names}.items()}
            )
            self._writer.close()
            self._sink.flush()
            os.fsync(self._sink.fileno())
            with _locked(self.path.parent) as held:
                self._move()
                os.fsync(held)
        return self.checkpoint

    def _move(self) -> None:
        there = published(self.path)
        if there is not None and there.epoch > self._file.epoch:
            later = f"{self.path.name} was written by a later claim, with epoch {there.epoch}"
            raise ClaimLost(later, self._file.epoch)
        os.rename(self._part, self.path)
        # What killed processes left: they had an earlier claim, or they would not have been succeeded.
        for left in self.path.parent.glob(f"{self.path.stem}.e*.part"):
            if int(left.suffixes[-2][2:]) < self._file.epoch:
                left.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._gathered:
            table = pa.Table.from_batches(self._gathered, SCHEMA).unify_dictionaries()
            self._gathered, self._rows = [], 0
            with _room_for(self.path):
                self._writer.write_table(table, row_group_size=max(1, len(table)))


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield held
    finally:
        os.close(held)


@contextmanager
def _room_for(path: Path) -> Iterator[None]:
    """A full disk is `StoreFull`, which heals; what else the disk refuses is for the operator."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StoreFull(f"the disk of {path.parent} is full", "free some room; work goes on by itself") from None
        raise OperatorError(f"{path} cannot be written: {error.strerror or error}", "look at PM_HOME") from None
