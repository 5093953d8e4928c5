"""Files into Parquet: every counter once, a file whole or not at all, killed and late writers, and how it is read."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pm_kafka_world import FILE, MemoryCheckpoints, Row, batch_of, file_batches, ordered, truth

from headrace.errors import ClaimLost, OperatorError, StoreFull
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.counters.row_digest import DIGEST_MODULUS, batch_digest
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.parquet.newest import newest_rows, revision_files
from headrace_pm.parquet.revision_file import GROUP_ROWS, RevisionFile, revision_path
from headrace_pm.parquet.sink import ParquetSink

LATER = replace(FILE, epoch=FILE.epoch + 1)


def whole(batches: list[CounterBatch]) -> Checkpoint:
    digest = sum(map(batch_digest, batches)) % DIGEST_MODULUS
    return Checkpoint(len(batches), sum(map(len, batches)), digest)


def found_in(folder: Path) -> list[Row]:
    """What a reader finds, as the truth has it."""
    rows: list[dict[str, Any]] = newest_rows(folder).to_pylist()
    for row in rows:
        row["record_time"] = round(row["record_time"].timestamp() * 1_000)
        row["obj_hash"] = f"{row['obj_hash']:016x}"
        row["extra_field"] = json.loads(row["extra_field"])
    return ordered(rows)


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*/*.part"))


async def test_every_counter_is_there_once(tmp_path: Path) -> None:
    checkpoints, batches = MemoryCheckpoints(), [batch_of(number) for number in range(4)]
    assert found_in(tmp_path / "counters") == []
    sink = ParquetSink(tmp_path / "counters", checkpoints)
    await sink.answers()
    done = await sink.write(FILE, file_batches(4))
    assert sink.moved_at > 0
    assert done == checkpoints.kept == whole(batches)
    assert found_in(tmp_path / "counters") == truth(batches)
    (path,) = revision_files(tmp_path / "counters")
    told = pq.read_metadata(path).metadata
    assert (told[b"headrace.file"].decode(), told[b"headrace.revision"]) == (FILE.name, b"2")
    assert parts(tmp_path / "counters") == []


async def test_a_large_file_has_row_groups_of_bounded_size_and_those_of_nothing_none(tmp_path: Path) -> None:
    batches = [batch_of(number, counters=1_000) for number in range(70)]
    await ParquetSink(tmp_path, MemoryCheckpoints()).write(FILE, lambda since: iter(batches[since:]))
    metadata = pq.read_metadata(revision_path(tmp_path, FILE.version))
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(sizes) == 70_000
    assert max(sizes) < GROUP_ROWS + 1_000
    empty = replace(FILE, version=FILE.version + 1)
    assert await ParquetSink(tmp_path, MemoryCheckpoints()).write(empty, file_batches(2, counters=0)) == Checkpoint(2)
    assert len(newest_rows(tmp_path)) == 70_000


async def test_a_file_that_is_there_is_left_alone_and_one_that_is_not_is_written_again(tmp_path: Path) -> None:
    sink, path = ParquetSink(tmp_path, checkpoints := MemoryCheckpoints()), revision_path(tmp_path, FILE.version)
    await sink.write(FILE, file_batches(3))
    first = path.stat()
    checkpoints.epoch = LATER.epoch
    await sink.write(LATER, file_batches(3))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    # Of two more batches the checkpoint knows nothing: they were out of scope, and dictionaries have changed.
    assert await sink.write(LATER, file_batches(5)) == checkpoints.kept == whole([batch_of(n) for n in range(5)])
    path.unlink()
    await sink.write(LATER, file_batches(5))
    assert found_in(tmp_path) == truth([batch_of(number) for number in range(5)])


async def test_the_newest_version_of_a_key_counts_and_other_keys_stay(tmp_path: Path) -> None:
    newer = replace(FILE, version=FILE.version + 20_000, revision=3)
    for file, batches in ((newer, [batch_of(0, value=7.0)]), (FILE, [batch_of(0), batch_of(1)])):
        await ParquetSink(tmp_path, MemoryCheckpoints()).write(file, lambda since, of=batches: iter(of[since:]))
    wanted = [*truth([batch_of(0, value=7.0)], newer.version), *truth([batch_of(1)])]
    assert found_in(tmp_path) == ordered(wanted)


def put(folder: Path, file: Any, value: float, kind: type[RevisionFile] = RevisionFile) -> None:
    with kind(folder, file) as written:
        written.write(batch_of(0, value=value))
        written.publish()


async def test_a_worker_that_lost_its_claim_replaces_nothing(tmp_path: Path) -> None:
    put(tmp_path, LATER, 2.0)
    with pytest.raises(ClaimLost, match=f"epoch {LATER.epoch}"):
        put(tmp_path, FILE, 1.0)
    assert found_in(tmp_path) == truth([batch_of(0, value=2.0)])
    put(tmp_path, LATER, 3.0)
    assert found_in(tmp_path) == truth([batch_of(0, value=3.0)])
    assert parts(tmp_path) == []
    # And one whose claim is lost while nobody has written yet learns it from its checkpoint.
    with pytest.raises(ClaimLost):
        await ParquetSink(tmp_path, MemoryCheckpoints(epoch=9)).write(replace(FILE, version=1), file_batches(1))


class UnfencedFile(RevisionFile):
    """The twin: it moves to its place whoever was there."""

    def _move(self) -> None:
        os.rename(self._part, self.path)


def test_without_the_fence_a_late_worker_would_win(tmp_path: Path) -> None:
    put(tmp_path, LATER, 2.0)
    put(tmp_path, FILE, 1.0, UnfencedFile)
    assert found_in(tmp_path) == truth([batch_of(0, value=1.0)])


async def test_what_a_killed_writer_left_is_removed_by_its_successor(tmp_path: Path) -> None:
    path = revision_path(tmp_path, FILE.version)
    path.parent.mkdir(parents=True)
    # A half of a file, as kill -9 leaves it; and that of another revision, which may be alive.
    path.with_suffix(f".e{FILE.epoch}.part").write_bytes(b"PAR1half")
    (path.parent / "v0000000042.e1.part").write_bytes(b"PAR1")
    assert found_in(tmp_path) == []
    await ParquetSink(tmp_path, MemoryCheckpoints(epoch=LATER.epoch)).write(LATER, file_batches(2))
    assert parts(tmp_path) == ["v0000000042.e1.part"]
    assert found_in(tmp_path) == truth([batch_of(number) for number in range(2)])


async def test_a_cancelled_writer_leaves_nothing(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(since: int) -> Iterator[CounterBatch]:
        for number in range(since, 1_000_000):
            begun.set()
            go_on.wait(10)
            yield batch_of(number)

    checkpoints = MemoryCheckpoints()
    running = asyncio.ensure_future(ParquetSink(tmp_path, checkpoints).write(FILE, slow))
    await asyncio.to_thread(begun.wait, 10)
    running.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (parts(tmp_path), revision_files(tmp_path), checkpoints.saves) == ([], [], [])


async def test_a_full_disk_heals_and_nothing_is_published(tmp_path: Path) -> None:
    path = revision_path(tmp_path, FILE.version)
    path.parent.mkdir(parents=True)
    path.with_suffix(f".e{FILE.epoch}.part").symlink_to("/dev/full")
    with pytest.raises(StoreFull, match="is full") as refused:
        await ParquetSink(tmp_path, MemoryCheckpoints()).write(FILE, file_batches(3))
    assert refused.value.heals
    assert revision_files(tmp_path) == []
    await ParquetSink(tmp_path, MemoryCheckpoints()).write(FILE, file_batches(3))
    assert len(revision_files(tmp_path)) == 1


async def test_a_folder_that_cannot_be_written_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OperatorError, match="file cannot be written"):
        await ParquetSink(tmp_path / "file" / "counters", MemoryCheckpoints()).answers()
