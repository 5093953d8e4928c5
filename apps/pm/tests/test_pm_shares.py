"""No server keeps another waiting, and no backlog makes a round that is cut off: looks and moves have their shares."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pm_file_world import FileWorld, listed, sqlite_world
from pm_ftp_world import PATH, World, world
from pm_work_world import Hands, RowsByName, ToldEvents, opened
from waiting import eventually, turn

from headrace.testing.rig.ftp import FtpServer
from headrace_pm.ftp.seen import SeenNames
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.operators.folder_looks import FolderLooks
from headrace_pm.settings import PmSettings
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.register import FileTable
from headrace_pm.work.archive_moves import FILES_MAX, SHARE_S, ArchiveMoves
from headrace_pm.work.disappearances import Disappearances
from headrace_pm.work.loops import KeptLoop
from headrace_pm.work.network_scan import LookFailed, NetworkScan
from headrace_pm.work.network_tables import ServerDirectory
from headrace_pm.work.outages import OutageClock

HOUR_S = 3_600.0


class Rests:
    """Rests that end when a test says so."""

    def __init__(self) -> None:
        self.resting: list[asyncio.Future[None]] = []

    async def __call__(self, seconds: float) -> None:
        assert seconds == HOUR_S
        self.resting.append(asyncio.get_running_loop().create_future())
        await self.resting[-1]

    def end(self) -> None:
        for each in self.resting:
            if not each.done():
                each.set_result(None)


class Fault(FileTable):
    """A table that breaks as nobody has foreseen."""

    is_broken = True
    path = PATH

    async def unknown(self, folder: ServerFolder, names: object) -> set[str]:
        if self.is_broken and folder.path == self.path:
            raise ZeroDivisionError("a fault of ours")
        return set()


class UnwrittenLooks(FolderLooks):
    """What status is told has tests of its own."""

    async def write(self) -> None:
        """These tables have no such table."""


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """Somebody who takes connections and never says a word."""
    ended = asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        ended.set()
        server.close()
        await server.wait_closed()


def rows_of(*ports: int) -> RowsByName:
    servers = [(port, "5GA", "127.0.0.1", port, "rig", "env:PM_TEST_PASSWORD") for port in ports]
    return RowsByName(servers_read=servers, paths_read=[(port, PATH) for port in ports])


def scan_of(there: World, rows: RowsByName, files: FileTable, events: ToldEvents, rests: Rests) -> NetworkScan:
    settings, directory = PmSettings(scan_interval_s=HOUR_S), ServerDirectory(opened(rows))
    seen, looks = SeenNames(None, files), UnwrittenLooks(opened(rows))
    return NetworkScan(settings, directory, there.pools, files, seen, events, looks, rests)


async def test_a_server_that_does_not_answer_leaves_the_others_their_pace(ftp_site: FtpServer, tmp_path: Path) -> None:
    """Looks go on without another round of the loop, and without an end of the look that hangs."""
    events, rests = ToldEvents(), Rests()
    async with world(ftp_site) as there, sqlite_world(tmp_path / "pm.db") as table, silent_port() as silent:
        there.put("a.dat", b"x")
        scan = scan_of(there, rows_of(silent, ftp_site.port), FileTable(table.tables), events, rests)
        await scan.round()
        quick = f"127.0.0.1_{ftp_site.port}_rig"
        for looks in range(1, 4):
            await eventually(lambda looks=looks: events.told[quick] == looks, lambda: f"{events.told}")
            await eventually(lambda: any(not each.done() for each in rests.resting), "it rests")
            rests.end()
        assert events.told[f"127.0.0.1_{silent}_rig"] == 0
        await scan.close()


async def test_a_look_that_breaks_is_told_of_until_one_has_passed(ftp_site: FtpServer, tmp_path: Path) -> None:
    events, rests = ToldEvents(), Rests()
    async with world(ftp_site) as there, sqlite_world(tmp_path / "pm.db") as table:
        there.put("a.dat", b"x")
        files = Fault(table.tables)
        scan = scan_of(there, rows_of(ftp_site.port), files, events, rests)
        await scan.round()
        await eventually(lambda: rests.resting, "the first look has ended")
        for _ in range(2):
            with pytest.raises(LookFailed, match="ZeroDivisionError: a fault of ours"):
                await scan.round()
        files.is_broken = False
        rests.end()
        await eventually(lambda: len(rests.resting) == 2, "the second look has ended")
        await scan.round()
        await scan.close()


async def test_a_folder_whose_look_breaks_keeps_no_other_waiting(ftp_site: FtpServer, tmp_path: Path) -> None:
    events, rests = ToldEvents(), Rests()
    async with world(ftp_site) as there, sqlite_world(tmp_path / "pm.db") as table:
        there.put("a.dat", b"x")
        there.make("other")
        rows, port = rows_of(ftp_site.port), ftp_site.port
        rows.by_name["paths_read"] = [(port, PATH), (port, f"{PATH}other/")]
        scan = scan_of(there, rows, Fault(table.tables), events, rests)
        await scan.round()
        await eventually(lambda: rests.resting, "the first look has ended")
        assert events.told[f"127.0.0.1_{port}_rig"] == 1, "the second folder was looked at"
        with pytest.raises(LookFailed, match="ZeroDivisionError: a fault of ours"):
            await scan.round()
        await scan.close()


async def test_a_server_that_left_the_tables_is_looked_at_no_more(ftp_site: FtpServer, tmp_path: Path) -> None:
    events, rests = ToldEvents(), Rests()
    async with world(ftp_site) as there, sqlite_world(tmp_path / "pm.db") as table:
        rows = rows_of(ftp_site.port)
        scan = scan_of(there, rows, FileTable(table.tables), events, rests)
        await scan.round()
        await eventually(lambda: rests.resting, "the first look has ended")
        rows.by_name["servers_read"] = []
        await scan.round()
        rests.end()
        await turn()
        assert (scan._looks, events.told.total()) == ({}, 1)


async def test_a_loop_with_more_to_do_does_not_rest() -> None:
    rounds: list[bool] = []
    done = asyncio.Event()

    async def one_round() -> bool:
        rounds.append(len(rounds) < 3)
        if not rounds[-1]:
            done.set()
        return rounds[-1]

    stop = asyncio.Event()
    running = asyncio.ensure_future(KeptLoop("mover", HOUR_S, one_round, lambda _name: None).run(stop))
    await done.wait()
    assert rounds == [True, True, True, False]
    stop.set()
    await running


class SlowTimes(Hands):
    """A clock by which every look at it takes some seconds."""

    def __init__(self, step_s: float) -> None:
        self.now, self._step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now += self._step_s
        return self.now


async def to_move(table: FileWorld, there: World, count: int) -> None:
    """So many files that both sinks have, on the server and in the table."""
    key = f"127.0.0.1_{there.site.port}_rig"
    folder = ServerFolder("5GA", key, there.folder.path)
    names = [f"{number}.dat" for number in range(count)]
    for name in names:
        there.put(name, b"x", modified=1_767_225_600)
    files = [listed(name, 1, "u20260101000000") for name in names]
    await FileTable(table.tables).register(folder, files, 3)
    table.query(
        "UPDATE file_processing_state SET state = 'COMPLETED', mysql_processed = TRUE, clickhouse_processed = TRUE"
    )
    stamp = Stamp(1, "u20260101000000")
    table.query(f"UPDATE pm_file_revision SET fetched = '{stamp}', content_hash = x'00'")


@pytest.mark.parametrize("is_full", [False, True])
async def test_moves_that_take_too_long_go_on_where_they_were(
    ftp_site: FtpServer, tmp_path: Path, is_full: bool
) -> None:
    count = FILES_MAX + 1 if is_full else 7
    events = ToldEvents()
    async with world(ftp_site) as there, sqlite_world(tmp_path / "pm.db") as table:
        await to_move(table, there, count)
        directory, outages = ServerDirectory(opened(rows_of(ftp_site.port))), OutageClock()
        seen = SeenNames(None, FileTable(table.tables))
        moves = ArchiveMoves(
            FileMoves(table.tables),
            directory,
            there.pools,
            seen,
            events,
            "m",
            30.0,
            False,
            outages,
            Disappearances(FileTable(table.tables), events),
            SlowTimes(3.0),
        )
        assert await moves.round(), "there is more"
        moved = len(there.names("ClickHouse/Done"))
        assert 0 < moved < 7
        shown = "SELECT state, COUNT(*), MAX(error_message) FROM file_processing_state GROUP BY state ORDER BY state"
        assert table.query(shown) == [("COMPLETED", count - moved, None), ("MOVED", moved, None)]
        assert table.query("SELECT COUNT(*) FROM pm_file_claim WHERE owner IS NOT NULL") == [(0,)], "nobody holds them"
        due = f"SELECT COUNT(*) FROM pm_file_claim WHERE due_at > {table.moment_ago(-SHARE_S / 120)}"
        assert table.query(due) == [(FILES_MAX - moved if is_full else 0,)], "others come first, if there are any"
        if not is_full:
            while await moves.round():
                pass
            assert (len(there.names("ClickHouse/Done")), events.told) == (count, Counter(moved=count))
            assert not await moves.round()
