"""Bad days of a store file: no room, no right to write, the wrong place, a second library, a clock that jumps."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from headrace.adapters.sqlite import connections, guard
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Settlement, Want
from headrace.core.errors import SchemaMismatch, UnsafeStore
from headrace.core.graph import Graph, StageSpec
from headrace.core.jobs import Submission
from headrace.core.parcels import Encoded, pack
from headrace.testing.passage import ManualClock

GRAPH = Graph.build([StageSpec("read")])
WANT = [Want("flow", "read", 10, 10)]
HOUR_S = 3_600.0


def submission(items: int = 1) -> Submission:
    return Submission("job-1", "flow", GRAPH, tuple(pack("read", [Encoded(b"\x01")] * items)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(str(path), clock=clock)
    yield opened
    await opened.close()


def in_own_mounts(*steps: str) -> subprocess.CompletedProcess[str]:
    """Run a script whose mounts nobody else sees."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    command = ["unshare", *flags, "sh", "-c", " && ".join(steps)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    script = Path(__file__).parent / "full_disk.py"
    ran = in_own_mounts(f"mount -t tmpfs -o size=6m headrace {tmp_path}", f"{sys.executable} {script} {tmp_path}")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert "nothing was acknowledged" in answer["refused"]
    assert answer["count"] > 3
    assert (answer["lost"], answer["ghosts"], answer["findings"]) == ([], [], 0)
    assert answer["states"] == ["finished"]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir()
    command = f"{sys.executable} -m headrace migrate up --store sqlite:///{shut}/store.db"
    ran = in_own_mounts(f"mount --bind -o ro {shut} {shut}", command)
    assert ran.returncode == 1, ran.stderr
    assert f"the directory {shut} cannot be written" in ran.stderr


async def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsafeStore, match="does not exist") as refused:
        await SqliteStore.open(str(tmp_path / "none" / "store.db"))
    assert refused.value.hint.startswith("mkdir -p")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_recognised(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
        f"40 22 0:38 / /srv/my\\040share rw,relatime - {kind} server:/share rw\n"
    )
    assert guard.file_system(Path("/srv/my share/deep"), str(mounts)) in guard.NETWORK_KINDS
    assert guard.file_system(Path("/srv/my share 2"), str(mounts)) == "ext4"


async def test_the_standard_library_must_not_open_an_open_store(store: SqliteStore, path: Path) -> None:
    for spelling in (str(path), f"file:{path}?mode=ro", path):
        with pytest.raises(UnsafeStore, match="would drop its locks") as refused:
            sqlite3.connect(spelling, uri=True)
        assert "headrace.connect" in refused.value.hint
    sqlite3.connect(":memory:").close()


async def test_the_standard_library_may_open_a_closed_store(path: Path) -> None:
    await (await SqliteStore.open(str(path))).close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_a_new_file_that_another_writes_into_is_waited_for(path: Path) -> None:
    another = connections.plain(str(path))
    another.execute("BEGIN IMMEDIATE")
    soon = threading.Timer(0.05, another.execute, ["COMMIT"])
    soon.start()
    opened = connections.plain(str(path))
    connections.configure(opened, str(path))
    soon.join()
    assert opened.pragma("journal_mode") == "wal"


async def test_a_wall_clock_that_jumps_takes_no_live_claim(store: SqliteStore, clock: ManualClock) -> None:
    await store.submit(submission())
    (claim,) = (await store.claim("worker", WANT, 30)).claims
    clock.jump_wall(HOUR_S)
    assert (await store.sweep()).lost == 0
    clock.jump_wall(-2 * HOUR_S)
    assert (await store.sweep()).lost == 0
    assert (await store.settle([Settlement(claim.fence, 1, 1)]))[0].accepted


async def test_claims_of_an_earlier_boot_are_lost(path: Path) -> None:
    before, after = ManualClock(boot="boot-1"), ManualClock(boot="boot-2")
    store = await SqliteStore.open(str(path), clock=before)
    await store.submit(submission())
    (claim,) = (await store.claim("worker", WANT, 30)).claims
    await store.close()
    store = await SqliteStore.open(str(path), clock=after)
    assert not (await store.settle([Settlement(claim.fence, 1, 1)]))[0].accepted
    assert (await store.sweep()).lost == 1
    assert [c.seqs for c in (await store.claim("worker", WANT, 30)).claims] == [[claim.seqs[0]]]
    await store.close()


async def test_fences_go_on_rising_after_a_restore(path: Path, tmp_path: Path) -> None:
    clock = ManualClock()
    store = await SqliteStore.open(str(path), clock=clock)
    await store.submit(submission(items=3))
    await store.close()
    shutil.copy(path, tmp_path / "backup.db")
    store = await SqliteStore.open(str(path), clock=clock)
    given = [(await store.claim("worker", [Want("flow", "read", 1, 1)], 30)).claims[0].fence for _ in range(3)]
    await store.close()
    clock.advance(60)
    store = await SqliteStore.open(str(tmp_path / "backup.db"), clock=clock)
    (claim, *_) = (await store.claim("worker", WANT, 30)).claims
    assert claim.fence > max(given)
    await store.close()


async def test_a_store_of_a_newer_headrace_is_refused(path: Path) -> None:
    await (await SqliteStore.open(str(path))).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 9_999)
    connection.close()
    with pytest.raises(SchemaMismatch, match="has schema 9999") as refused:
        await SqliteStore.open(str(path))
    assert "newer headrace" in refused.value.hint


async def test_a_store_of_an_older_headrace_names_the_migration(path: Path) -> None:
    await (await SqliteStore.open(str(path))).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 1)
    connection.close()
    with pytest.raises(SchemaMismatch, match="has schema 1") as refused:
        await SqliteStore.open(str(path))
    assert refused.value.hint.startswith("headrace migrate up")


async def test_a_database_of_somebody_else_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    with pytest.raises(UnsafeStore, match="is not a headrace store"):
        await SqliteStore.open(str(path))


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 500)
    with pytest.raises(UnsafeStore, match="not a SQLite database"):
        await SqliteStore.open(str(path))
