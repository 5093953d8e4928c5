"""A folder that lost its files at once: they wait, people are told, and nothing is taken for deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pm_file_world import AGAIN, FOLDER, A, FileWorld, completed, register, sqlite_world
from pm_ftp_world import World, world
from pm_work_world import Hands, ToldEvents, opened
from structlog.testing import capture_logs
from test_pm_shares import rows_of, to_move

from headrace import Dead
from headrace.testing.rig.ftp import FtpServer
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.seen import SeenNames
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.spool import Spool
from headrace_pm.tables.file_claims import HeldFile
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.register import VANISHED_MINUTES, FileTable
from headrace_pm.work.archive_moves import ArchiveMoves
from headrace_pm.work.disappearances import BELIEVED_S, OTHERS_MIN, TOLD_AGAIN_S, Disappearances
from headrace_pm.work.file_fetcher import FileFetcher
from headrace_pm.work.file_outcomes import FileWaits
from headrace_pm.work.network_tables import ServerDirectory
from headrace_pm.work.outages import OutageClock

FILES = OTHERS_MIN + 1


class Credulous(Disappearances):
    """The twin: what is nowhere was deleted."""

    async def judge(self, pool: ServerPool, folder: ServerFolder, file_id: int, lane: ServerLane) -> None:
        return


@dataclass
class EmptiedWorld:
    """Files that were listed on a server, with what takes them and what moves them."""

    there: World
    table: FileWorld
    fetcher: FileFetcher
    mover: ArchiveMoves
    events: ToldEvents
    clock: Hands

    def held(self, number: int) -> HeldFile:
        key, path = f"127.0.0.1_{self.there.site.port}_rig", self.there.folder.path
        name = f"{number}.dat"
        ((file_id,),) = self.table.query(f"SELECT id FROM file_processing_state WHERE file_name = '{name}'")
        stamp = Stamp(1, "u20260101000000")
        flags = {"mysql_processed": False, "clickhouse_processed": False, "was_read": False}
        none = {"spool": None, "archived_as": None, "batch_size": None}
        return HeldFile(file_id, 1, "5GA", key, path, name, 1, revision=1, version=1, stamp=stamp, **flags, **none)

    def unmount(self) -> None:
        self.there.disk.rename(self.there.disk.with_name("mounted"))
        self.there.make()

    def mount(self) -> None:
        for each in sorted(self.there.disk.rglob("*"), reverse=True):
            each.rmdir()
        self.there.disk.rmdir()
        self.there.disk.with_name("mounted").rename(self.there.disk)

    def states(self) -> list[tuple[object, ...]]:
        return self.table.query("SELECT state, COUNT(*) FROM file_processing_state GROUP BY state ORDER BY state")


@asynccontextmanager
async def emptied_world(
    site: FtpServer,
    home: Path,
    kind: type[Disappearances] = Disappearances,
    table_kind: type[FileTable] = FileTable,
) -> AsyncIterator[EmptiedWorld]:
    events, clock = ToldEvents(), Hands()
    async with world(site) as there, sqlite_world(home / "pm.db") as table:
        with Spool(home / "spool", 10**9) as spool:
            await to_move(table, there, FILES)
            files, directory, outages = (
                table_kind(table.tables),
                ServerDirectory(opened(rows_of(site.port))),
                OutageClock(),
            )
            gone = kind(files, events, clock)
            fetcher = FileFetcher(directory, there.pools, spool, outages, gone)
            moves, seen = FileMoves(table.tables), SeenNames(None, files)
            mover = ArchiveMoves(moves, directory, there.pools, seen, events, "m", 30.0, False, outages, gone)
            yield EmptiedWorld(there, table, fetcher, mover, events, clock)


async def all_wait(found: EmptiedWorld) -> None:
    """Nothing is fetched, nothing is judged, and people are told once."""
    found.unmount()
    with capture_logs() as lines:
        for number in range(3):
            with pytest.raises((FileWaits, Dead)) as ended:
                await found.fetcher.fetch(found.held(number))
            assert isinstance(ended.value, FileWaits)
            assert "have disappeared" in ended.value.reason
        await found.mover.round()
    assert found.states() == [("COMPLETED", FILES)]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        f"ALERT: Files of {found.there.folder.path} have disappeared from 127.0.0.1_{found.there.site.port}_rig"
    ]
    assert found.events.told["emptied"] == 1


async def test_files_that_are_gone_together_wait_and_go_on_when_they_are_back(
    ftp_site: FtpServer, tmp_path: Path
) -> None:
    async with emptied_world(ftp_site, tmp_path) as found:
        await all_wait(found)
        found.clock.now += TOLD_AGAIN_S
        with capture_logs() as lines, pytest.raises(FileWaits):
            await found.fetcher.fetch(found.held(4))
        assert len([line for line in lines if line["log_level"] == "error"]) == 1, "it is said again now and then"
        found.mount()
        found.table.query(f"UPDATE pm_file_claim SET due_at = {found.table.moment_ago(1)}")
        await found.mover.round()
        assert found.states() == [("MOVED", FILES)]
        assert found.events.told["emptied"] == 0


async def test_without_the_look_at_the_others_each_would_have_vanished(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with emptied_world(ftp_site, tmp_path, Credulous) as found:
        with pytest.raises(AssertionError):
            await all_wait(found)


async def test_one_file_that_is_gone_was_deleted(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with emptied_world(ftp_site, tmp_path) as found:
        for number in range(3):
            (found.there.disk / f"{number}.dat").unlink()
        with pytest.raises(Dead, match="vanished"):
            await found.fetcher.fetch(found.held(0))
        await found.mover.round()
        assert found.states() == [("ERROR", 3), ("MOVED", FILES - 3)]
        assert found.events.told["vanished"] == 3


async def test_files_that_are_gone_beside_an_archive_were_deleted(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with emptied_world(ftp_site, tmp_path) as found:
        await all_have_vanished(found)


class Forgetful(FileTable):
    """The twin: what lies in the archive proves nothing."""

    async def archived(self, folder: ServerFolder, count_max: int) -> list[str]:
        return []


async def test_without_the_look_into_the_archive_they_would_wait_for_ever(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with emptied_world(ftp_site, tmp_path, table_kind=Forgetful) as found:
        with pytest.raises(AssertionError):
            await all_have_vanished(found)


async def all_have_vanished(found: EmptiedWorld) -> None:
    """Somebody has deleted all that was not moved yet."""
    found.table.query(
        "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, file_size, state)"
        " SELECT system_type, ftp_server_key, ftp_path, 'old.dat', 1, 'MOVED' FROM file_processing_state LIMIT 1"
    )
    archive = found.there.disk / "ClickHouse" / "Done"
    archive.mkdir(parents=True, exist_ok=True)
    (archive / "old.dat").write_bytes(b"x")
    for number in range(FILES):
        (found.there.disk / f"{number}.dat").unlink()
    await found.mover.round()
    assert found.states() == [("ERROR", FILES), ("MOVED", 1)]


async def test_rows_that_nobody_listed_prove_nothing(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with emptied_world(ftp_site, tmp_path) as found:
        found.table.query("UPDATE pm_file_revision SET modified = ''")
        found.unmount()
        with pytest.raises(Dead, match="vanished"):
            await found.fetcher.fetch(replace(found.held(0), stamp=Stamp(1)))


async def test_the_answer_is_believed_for_a_while_only(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with emptied_world(ftp_site, tmp_path) as found:
        await all_wait(found)
        found.mount()
        (found.there.disk / "0.dat").unlink()
        with pytest.raises(FileWaits):
            await found.fetcher.fetch(found.held(0))
        found.clock.now += BELIEVED_S
        with pytest.raises(Dead, match="vanished"):
            await found.fetcher.fetch(found.held(0))


@pytest.mark.parametrize("was_read", [False, True])
async def test_a_file_that_had_vanished_and_is_listed_again_is_taken(file_world: FileWorld, was_read: bool) -> None:
    """It is as it was, and nobody would ever ask for it again."""
    world = file_world
    await register(world, A)
    if was_read:
        await completed(world, b"one")
    ((file_id,),) = world.query("SELECT id FROM file_processing_state")
    world.change(file_id, state="'ERROR'", error_message="'vanished: it is nowhere'", retry_count="0")
    world.query("UPDATE pm_file_claim SET is_permanent = TRUE")
    assert await FileTable(world.tables).unknown(FOLDER, [A.text]) == set(), "not at every look"
    world.change(file_id, updated_at=world.ago(VANISHED_MINUTES + 0.1))
    assert await FileTable(world.tables).unknown(FOLDER, [A.text]) == {A.text}
    assert (await register(world, A)).renewed == (A,)
    assert world.look(file_id) == ("PENDING", 0, "")
    _, held = await world.hold()
    assert (held.revision, held.was_read) == (2 if was_read else 1, False)
    other = world.add()
    assert await FileTable(world.tables).awaited(FOLDER, other, 5) == [A.text]
    assert await FileTable(world.tables).awaited(FOLDER, held.file_id, 5) == [], "nobody has listed the other"
    world.change(other, state="'ERROR'", error_message="'bad'", updated_at=world.ago(90))
    assert (await register(world, AGAIN)).later == (AGAIN,), "what is held is not touched"
