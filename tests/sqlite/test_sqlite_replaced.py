"""A store's file that is deleted or replaced while it is open: everybody stops, and nobody begins anew."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import chdir
from pathlib import Path

import pytest
from waiting import PATIENCE_S

import headrace
from headrace.adapters.sqlite.file_watch import FileWatch, strayed
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.errors import StoreReplaced
from headrace.core.jobs import JobFilter


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").rename(path)


WAYS = [delete, delete_log, move, replace]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(str(path))
    yield opened
    await opened.close()


@pytest.mark.parametrize("way", WAYS)
async def test_neither_a_write_nor_a_read_is_answered(
    store: SqliteStore, path: Path, way: Callable[[Path], None]
) -> None:
    await store.sweep()
    way(path)
    with pytest.raises(StoreReplaced, match=r"was (deleted|replaced) while it was open") as refused:
        await store.sweep()
    assert "put the right file back" in refused.value.hint
    with pytest.raises(StoreReplaced):
        await store.jobs(JobFilter())
    with pytest.raises(StoreReplaced):
        store.renew("worker", [1], 30.0)


@pytest.mark.parametrize("way", WAYS)
async def test_an_embedded_worker_ends_with_the_error(tmp_path: Path, way: Callable[[Path], None]) -> None:
    flow = headrace.Flow("idle")

    @flow.stage
    async def work(number: int) -> None: ...

    path = tmp_path / "jobs.db"
    async with headrace.connect(f"sqlite:///{path}") as engine:
        with pytest.raises(StoreReplaced):
            async with engine.worker(flow), asyncio.timeout(PATIENCE_S):
                way(path)
                await asyncio.Event().wait()


async def test_a_file_that_took_its_place_keeps_its_log(store: SqliteStore, path: Path) -> None:
    await store.sweep()
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink()
    other = await SqliteStore.open(str(path))
    await other.sweep()
    log = os.stat(f"{path}-wal").st_ino
    await store.close()
    assert os.stat(f"{path}-wal").st_ino == log
    await other.sweep()
    await other.close()


async def test_who_has_a_lost_file_open_can_be_told(store: SqliteStore, path: Path) -> None:
    assert strayed(str(path)) == []
    path.unlink()
    assert strayed(str(path)) == [os.getpid()]


def test_a_file_is_remembered_when_it_is_first_seen(tmp_path: Path) -> None:
    path = tmp_path / "late.db"
    watch = FileWatch(str(path))
    watch.check()
    path.touch()
    watch.check()
    replace(path)
    with pytest.raises(StoreReplaced, match="was replaced"):
        watch.check()


def test_a_program_that_changes_its_directory_is_not_mistaken(tmp_path: Path) -> None:
    with chdir(tmp_path):
        Path("near.db").touch()
        watch = FileWatch("near.db")
    with chdir("/"):
        watch.check()
