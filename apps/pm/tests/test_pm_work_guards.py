"""What keeps the work going: the watch over sinks, loops that do not die, tables that operators change."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from pm_ftp_world import BlindPool, World, world
from pm_kafka_world import FILE, file_batches
from pm_work_world import Hands, RowsByName, ToldEvents, opened
from structlog.testing import capture_logs
from waiting import eventually, turn

from headrace import Dead
from headrace.errors import CallerError, HeadraceError, OperatorError, Unreachable
from headrace.services import Backoff, CircuitBreaker
from headrace.testing.rig.ftp import FtpServer
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.errors import SpoolUnusable
from headrace_pm.ftp.pool import ServerPool
from headrace_pm.ftp.servers import FileServer
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.sinks.counter_sink import Batches
from headrace_pm.spool.spool import Spool
from headrace_pm.tables.file_claims import HeldFile
from headrace_pm.tables.register import FileTable
from headrace_pm.work.disappearances import Disappearances
from headrace_pm.work.file_fetcher import SPOOL, FileFetcher
from headrace_pm.work.file_outcomes import FileWaits, end_of
from headrace_pm.work.handler import FileHandler
from headrace_pm.work.network_tables import Dictionaries, ServerDirectory
from headrace_pm.work.outages import PAUSE_S_MAX, OutageClock
from headrace_pm.work.sink_lane import SinkAway, SinkLane

WAIT_S = 0.05
BATCHES = file_batches(1)


class PlainSink:
    """A sink that does as it is told: `answer` is awaited by each file."""

    name, sets_flag = "kafka", False

    def __init__(self) -> None:
        self.moved_at, self.asked, self.cancelled, self.rows = 0.0, 0, 0, 0
        self.error: HeadraceError | None = None
        self.open = asyncio.Event()

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        self.asked += 1
        if self.error is not None:
            raise self.error
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Checkpoint(1)

    async def answers(self) -> object:
        return None


def lane_on(sink: PlainSink, clock: Hands, wait_s: float = WAIT_S) -> SinkLane:
    return SinkLane(sink, wait_s, CircuitBreaker(backoff=Backoff(10.0, 10.0, jitter=0.0)), clock)


async def test_a_sink_that_acknowledges_nothing_is_away_and_one_file_tries_at_a_time() -> None:
    sink, clock = PlainSink(), Hands()
    lane = lane_on(sink, clock)
    with pytest.raises(SinkAway, match="kafka is away: it has acknowledged nothing"):
        await lane.write(FILE, BATCHES)
    assert (sink.asked, sink.cancelled) == (1, 1)
    for _ in range(3):
        with pytest.raises(SinkAway):
            await lane.write(FILE, BATCHES)
    assert sink.asked == 1, "nobody is held up by what is known to be away"
    with pytest.raises(SinkAway):
        await lane.answers()
    clock.now += 11.0
    trial = asyncio.ensure_future(lane.write(FILE, BATCHES))
    await eventually(lambda: sink.asked == 2, "it is tried")
    with pytest.raises(SinkAway):
        await lane.write(FILE, BATCHES)
    assert sink.asked == 2, "beside a trial nobody else tries"
    sink.open.set()
    assert await trial == Checkpoint(1)
    await lane.answers()
    assert await lane.write(FILE, BATCHES) == Checkpoint(1)


class StubbornSink(PlainSink):
    """A sink that does not let itself be cancelled."""

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        while not self.open.is_set():
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        return Checkpoint(1)


async def test_a_sink_that_does_not_end_holds_nobody() -> None:
    sink = StubbornSink()
    with capture_logs() as lines, pytest.raises(SinkAway):
        await lane_on(sink, Hands()).write(FILE, BATCHES)
    assert [line["event"] for line in lines] == ["sink.hangs", "sink.away"]
    assert sink.cancelled == 1
    sink.open.set()
    await turn()


async def test_a_sink_that_takes_other_files_is_not_away() -> None:
    sink, clock = PlainSink(), Hands()
    lane = lane_on(sink, clock)
    waiting = asyncio.ensure_future(lane.write(FILE, BATCHES))
    loop = asyncio.get_running_loop()
    began = loop.time()

    def others_go_on() -> bool:
        sink.moved_at = loop.time()
        return loop.time() > began + 3 * WAIT_S

    await eventually(others_go_on, "others were acknowledged for longer than the watch waits")
    assert not waiting.done(), "it waits for its turn"
    sink.open.set()
    assert await waiting == Checkpoint(1)


@pytest.mark.parametrize("error", [Unreachable("no"), OperatorError("not granted")])
async def test_what_is_wrong_with_a_sink_is_no_fault_of_a_file(error: HeadraceError) -> None:
    sink = PlainSink()
    sink.error = error
    with pytest.raises(SinkAway, match=str(error)):
        await lane_on(sink, Hands()).write(FILE, BATCHES)


async def test_what_is_wrong_with_a_file_leaves_the_sink_as_it_is() -> None:
    sink = PlainSink()
    sink.error = CallerError("too large")
    lane = lane_on(sink, Hands())
    with pytest.raises(CallerError):
        await lane.write(FILE, BATCHES)
    await lane.answers()
    assert end_of(sink.error) is None


def test_a_file_waits_for_about_as_long_as_the_outage_lasts() -> None:
    clock = Hands()
    outages = OutageClock(clock, lambda: 0.5)
    assert outages.failed("a") == 2.0
    clock.now += 60.0
    assert (outages.failed("a"), outages.failed("b")) == (60.0, 2.0)
    clock.now += 100_000.0
    assert outages.failed("a") == PAUSE_S_MAX
    outages.passed("a")
    assert (outages.failed("a"), outages.away) == (2.0, ("b", "a"))


async def test_a_server_that_cannot_work_is_told_of_and_the_others_count() -> None:
    good, bad = (1, "5GA", "h", 21, "u", "env:A"), (2, "5GA", "h", 21, "u", "hunter2")
    tables = RowsByName(servers_read=[good, bad], paths_read=[(1, "/a/"), (1, "/a/"), (1, "/b\r\n/"), (2, "/c/")])
    directory = ServerDirectory(opened(tables))
    (served,) = await directory.read()
    assert [folder.path for folder in served.folders] == ["/a/"], "a folder that is there twice is looked at once"
    assert len(directory.faults) == 2
    assert "hunter2" not in " ".join(directory.faults), "it may be a password"
    assert await directory.server_of("5GA", "h_21_u") == served.server
    assert await directory.server_of("5GA", "h_21_other") is None
    tables.by_name["servers_read"] = [good, (3, "5GA", "h", 21, "other", "env:A")]
    assert await directory.server_of("5GA", "h_21_other") is not None, "the table is asked again"


async def test_a_dictionary_that_has_not_changed_stays_the_same() -> None:
    tables, clock = RowsByName(elements_read=[(1, "a")]), Hands()
    dictionaries = Dictionaries(opened(tables), clock)
    first = await dictionaries.current()
    clock.now += 10.0
    assert not await dictionaries.read()
    assert await dictionaries.newest() is first
    tables.by_name["elements_read"] = [(1, "a"), (2, "b")]
    assert await dictionaries.current() is first
    clock.now += 10.0
    newer = await dictionaries.newest()
    assert (newer.ne_id("b"), newer is first) == (2, False)
    tables.by_name["elements_read"] = [(3, "c")]
    assert await dictionaries.newest() is newer, "hundreds of strange files ask once a second"


async def test_a_file_that_begins_after_an_import_is_read_by_it() -> None:
    tables = RowsByName(elements_read=[(1, "a")], counters_read=[(7, 2, "old")])
    dictionaries = Dictionaries(opened(tables), Hands())
    before = await dictionaries.current()
    tables.by_name |= {"counters_read": [(7, 2, "old"), (8, 2, "new")], "newest_import": [(1,)]}
    after = await dictionaries.current()
    assert after is not before, "its counters would be left out until the next look at the tables, and nobody told"
    assert await dictionaries.current() is after


async def test_a_disk_that_is_full_when_a_file_is_unpacked_lets_it_wait(tmp_path: Path) -> None:
    """And nobody else: an error that heals by itself would stop all files until it has."""
    content = GeneratedFolder(FolderPlan(1, 60_000, packed=1)).file(0).content()
    outages = OutageClock()
    with Spool(tmp_path, 10**9) as spool:
        part = spool.part("f1r1", Stamp(len(content)))
        part.write(memoryview(content))
        spooled = spool.finish("f1r1", part)
        spool.plain_path("f1r1").symlink_to("/dev/full")
        nothing = cast("Any", None)
        fetcher = FileFetcher(nothing, nothing, spool, outages, nothing)
        handler = FileHandler(fetcher, nothing, nothing, (), outages, nothing, 1_000)
        with pytest.raises(FileWaits, match="is full"):
            await handler._unpacked(spooled)
        assert outages.away == (SPOOL,)
        assert (await handler._unpacked(spooled)).stat().st_size > len(content), "there is room again"


class BadDisk(FileHandler):
    """A handler on a disk that cannot be read."""

    async def _take_in(self, file: HeldFile) -> None:
        raise OSError(errno.EIO, "Input/output error")


async def test_an_error_of_our_disk_wherever_it_comes_from_lets_a_file_wait() -> None:
    nothing, outages = cast("Any", None), OutageClock()
    with pytest.raises(FileWaits, match="Input/output error"):
        await BadDisk(nothing, nothing, nothing, (), outages, nothing, 1_000)._taken_in(nothing)
    assert outages.away == (SPOOL,)


@pytest.mark.parametrize("kind", ["a whole file", "nothing of it"])
async def test_a_disk_of_ours_that_fails_spends_no_attempt(tmp_path: Path, kind: str) -> None:
    """Else every file would be an error after three tries, and stay one when the disk is mended."""
    content = GeneratedFolder(FolderPlan(1, 100)).file(0).content()
    outages, nothing = OutageClock(), cast("Any", None)
    with Spool(tmp_path / "spool", 10**9) as spool:
        part = spool.part("f1r1", Stamp(len(content)))
        part.write(memoryview(content))
        spooled = spool.finish("f1r1", part)
        if kind == "a whole file":
            spooled.path.unlink()
            spooled.path.mkdir()
        fetcher = FileFetcher(nothing, nothing, spool, outages, nothing)
        handler = FileHandler(fetcher, nothing, nothing, (), outages, nothing, 1_000)
        if kind == "a whole file":
            with pytest.raises(FileWaits, match="cannot be used"):
                await handler._unpacked(spooled)
        else:
            shutil.rmtree(tmp_path / "spool")
            with pytest.raises(SpoolUnusable) as refused:
                spool.part("f2r1", Stamp(5))
            meant = fetcher._meaning(nothing, nothing, refused.value)
            assert isinstance(meant, FileWaits)
            (tmp_path / "spool").mkdir()
        assert outages.away == (SPOOL,)


class BlindPools:
    """The twin: pools whose connections take a folder that is missing for an empty one."""

    def __init__(self, pools: ServerPools) -> None:
        self._pools, self._blind = pools, dict[FileServer, ServerPool]()

    def pool_of(self, server: FileServer) -> ServerPool:
        return self._blind.setdefault(server, BlindPool(self._pools.pool_of(server)))

    def pools(self) -> list[ServerPool]:
        return list(self._blind.values())

    async def close(self) -> None:
        for pool in self._blind.values():
            await pool.close()


async def test_a_file_whose_folder_is_missing_waits(ftp_site: FtpServer, tmp_path: Path) -> None:
    """Else all files of a folder that is renamed for a while would have vanished for good."""
    async with world(ftp_site) as there:
        await folder_goes_away(there, there.pools, tmp_path)


async def test_a_fetcher_that_does_not_look_for_the_folder_is_noticed(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with world(ftp_site) as there:
        blind = BlindPools(there.pools)
        with pytest.raises(Dead, match="vanished"):
            await folder_goes_away(there, cast("ServerPools", blind), tmp_path)
        assert not there.disk.exists(), "it was noticed in the second half"
        await blind.close()


async def folder_goes_away(there: World, pools: ServerPools, tmp_path: Path) -> None:
    ftp_site = there.site
    there.put("a.dat", b"noise")
    address = (1, "5GA", "127.0.0.1", ftp_site.port, "rig", "env:PM_TEST_PASSWORD")
    tables = RowsByName(servers_read=[address], paths_read=[(1, there.folder.path)])
    server = await ServerDirectory(opened(tables)).server_of("5GA", f"127.0.0.1_{ftp_site.port}_rig")
    assert server is not None
    with Spool(tmp_path, 10**9) as spool:
        lonely = Disappearances(FileTable(opened(tables)), ToldEvents())
        fetcher = FileFetcher(ServerDirectory(opened(tables)), pools, spool, OutageClock(), lonely)
        key = {"system_type": "5GA", "ftp_server_key": server.key, "ftp_path": there.folder.path}
        file = HeldFile(
            file_id=1,
            epoch=1,
            **key,
            file_name="gone.dat",
            file_size=5,
            mysql_processed=False,
            clickhouse_processed=False,
            revision=1,
            version=1,
            spool=None,
            archived_as=None,
            was_read=False,
            batch_size=None,
            stamp=Stamp(5),
        )
        with pytest.raises(Dead, match="vanished"):
            await fetcher.fetch(file)
        there.disk.rename(there.disk.with_name("away"))
        with pytest.raises(FileWaits, match="Others"):
            await fetcher.fetch(file)
