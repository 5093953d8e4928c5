"""Every file is fetched once, whatever the line, the server, the uploader and the disk do meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from ftplib import FTP
from pathlib import Path

import pytest
from pm_ftp_world import QUICK, MeddledPool, World, started_with, world
from waiting import eventually

from headrace.errors import HeadraceError, TooLarge
from headrace.services import Backoff
from headrace.testing.rig.ftp import FtpFolder, FtpServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.sftp import SftpServer
from headrace.testing.rig.vsftpd import VsftpdServer
from headrace.testing.twins import turns_red
from headrace_pm.ftp.downloads import Downloader
from headrace_pm.ftp.errors import (
    CommandRefused,
    FileChanged,
    FileGone,
    FileIncomplete,
    FileUnreadable,
    SpoolFull,
    TransferCut,
)
from headrace_pm.ftp.gate import Completeness, CompletenessCheck
from headrace_pm.ftp.pool import ServerLane
from headrace_pm.ftp.sessions.file_session import FileSession
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.part import PartialFile
from headrace_pm.spool.spool import Spool, SpooledFile

CONTENT = bytes(range(256)) * 4000
SOON = Backoff(0.01, 0.01)


@asynccontextmanager
async def fetching(
    site: FtpFolder, spool_dir: Path, check: CompletenessCheck | None = None, **settings: float
) -> AsyncIterator[tuple[World, Downloader, Spool]]:
    async with world(site, replace(QUICK, **settings)) as there:
        with Spool(spool_dir, 50_000_000, spared=0) as spool:
            given = {"check": check} if check else {}
            yield there, Downloader(there.pool, spool, backoff=SOON, **given), spool


@contextmanager
def uploading(site: FtpFolder, name: str, beginning: bytes) -> Iterator[Callable[[bytes], None]]:
    """An uploader in the middle of its file; what it is called with is the rest."""
    client = FTP(timeout=10)
    client.connect("127.0.0.1", site.port)
    client.login("rig", "rig")
    client.cwd("/Access/5G/Others")
    client.voidcmd("TYPE I")
    line = client.transfercmd(f"STOR {name}")
    line.sendall(beginning)

    def finish(rest: bytes) -> None:
        line.sendall(rest)
        line.close()
        client.voidresp()

    try:
        yield finish
    finally:
        line.close()
        client.close()


@pytest.fixture(params=["ftp_site", "vsftpd_site", "sftp_site"])
def site(request: pytest.FixtureRequest) -> FtpFolder:
    found: FtpFolder = request.getfixturevalue(request.param)
    return found


async def test_a_file_is_in_the_spool_with_its_hash(site: FtpFolder, tmp_path: Path) -> None:
    async with fetching(site, tmp_path) as (there, downloader, _):
        path = there.put("a.dat", CONTENT)
        found = await downloader.fetch("1-1", path)
        assert found.path.read_bytes() == CONTENT
        assert found.digest == hashlib.blake2b(CONTENT, digest_size=16).hexdigest()
        assert await downloader.fetch("1-1", path) == found, "the second time it is there already"
        assert downloader.counts.files == 1
        assert downloader.counts.byte_count == len(CONTENT)


async def test_the_server_sends_every_byte_once(ftp_site: FtpServer, tmp_path: Path) -> None:
    """Two hundred files over four connections: no byte twice, and four logins."""
    async with fetching(ftp_site, tmp_path) as (there, downloader, spool):
        sizes = {f"{number}.dat": 1 + number * 97 for number in range(200)}
        paths = {name: there.put(name, CONTENT[:size]) for name, size in sizes.items()}
        found = await asyncio.gather(*(downloader.fetch(name[:-4], path) for name, path in paths.items()))
        assert [file.path.stat().st_size for file in found] == list(sizes.values())
        sent = await eventually(
            lambda: [each for each in ftp_site.transfers() if each.command == "RETR"][199:] and ftp_site.transfers(),
            "all are noted",
        )
        assert sum(each.byte_count for each in sent) == sum(sizes.values()) == spool.used_bytes
        assert ftp_site.login_count() <= QUICK.downloads
        assert len(sent) == 200


async def test_a_cut_transfer_goes_on_where_it_ended(ftp_site: FtpServer, tmp_path: Path) -> None:
    with started_with(ftp_site, {"cut_transfer_after": "400000", "cuts": "2"}):
        async with fetching(ftp_site, tmp_path) as (there, downloader, _):
            path = there.put("a.dat", CONTENT)
            found = await downloader.fetch("1-1", path)
            assert found.path.read_bytes() == CONTENT
            assert downloader.counts.tries_again == 2
        sent = await eventually(lambda: len(told := ftp_site.transfers()) == 3 and told, "three transfers are noted")
        assert sum(each.byte_count for each in sent) == len(CONTENT), "no byte twice"


async def test_after_three_tries_the_part_stays_for_the_next_claim(ftp_site: FtpServer, tmp_path: Path) -> None:
    with started_with(ftp_site, {"cut_transfer_after": "100000", "cuts": "3"}):
        async with fetching(ftp_site, tmp_path) as (there, downloader, spool):
            path = there.put("a.dat", CONTENT)
            with pytest.raises(TransferCut) as cut:
                await downloader.fetch("1-1", path)
            assert cut.value.heals
            assert spool.find("1-1") is None
            assert (await downloader.fetch("1-1", path)).path.read_bytes() == CONTENT
            assert downloader.counts.byte_count == len(CONTENT)


async def test_a_lost_last_word_costs_no_byte(ftp_site: FtpServer, tmp_path: Path) -> None:
    with started_with(ftp_site, {"cut_transfer_after": str(len(CONTENT)), "cuts": "1"}):
        async with fetching(ftp_site, tmp_path) as (there, downloader, _):
            path = there.put("a.dat", CONTENT)
            assert (await downloader.fetch("1-1", path)).path.read_bytes() == CONTENT
            assert downloader.counts.tries_again == 1
            assert downloader.counts.byte_count == len(CONTENT)


async def test_half_an_upload_waits_and_spends_nothing(ftp_site: FtpServer, tmp_path: Path) -> None:
    def check(head: bytes, size: int) -> Completeness:
        return Completeness.COMPLETE if size >= len(CONTENT) else Completeness.INCOMPLETE

    async with fetching(ftp_site, tmp_path, check) as (there, downloader, spool):
        with uploading(ftp_site, "half.dat", CONTENT[:700_000]) as finish:
            half = there.disk / "half.dat"
            await eventually(lambda: half.exists() and half.stat().st_size > 600_000, "some of it is there")
            with pytest.raises(FileIncomplete) as waits:
                await downloader.fetch("1-1", there.at("half.dat"))
            assert waits.value.heals
            assert spool.used_bytes == 0
            assert not list(tmp_path.glob("1-1*"))
            finish(CONTENT[700_000:])
        assert (await downloader.fetch("1-1", there.at("half.dat"))).path.read_bytes() == CONTENT


async def test_little_is_read_of_a_file_that_is_known_to_be_incomplete(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with fetching(ftp_site, tmp_path, lambda head, size: Completeness.INCOMPLETE) as (there, downloader, _):
        path = there.put("a.dat", CONTENT * 8)
        with pytest.raises(FileIncomplete):
            await downloader.fetch("1-1", path)
        assert downloader.counts.byte_count < len(CONTENT)


async def test_what_is_no_such_file_is_told_once(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with fetching(ftp_site, tmp_path, lambda head, size: Completeness.BAD) as (there, downloader, _):
        with pytest.raises(FileUnreadable) as bad:
            await downloader.fetch("1-1", there.put("a.dat", b"<html>"))
        assert not bad.value.heals
        assert downloader.counts.tries_again == 0


async def test_a_reader_that_hangs_behind_an_uploader_gives_its_place_back(
    vsftpd_site: VsftpdServer, tmp_path: Path
) -> None:
    async with fetching(vsftpd_site, tmp_path, ftp_data_s=0.3) as (there, downloader, _):
        with uploading(vsftpd_site, "half.dat", CONTENT[:1000]) as finish:
            half = there.disk / "half.dat"
            await eventually(lambda: half.exists() and half.stat().st_size == 1000, "half of it is there")
            with pytest.raises(TransferCut):
                await downloader.fetch("1-1", there.at("half.dat"))
            async with there.pool.session(ServerLane.SCAN) as session:
                assert len((await session.listing(there.path)).files) == 1
            finish(CONTENT[1000:])
        assert (await downloader.fetch("1-1", there.at("half.dat"))).path.read_bytes() == CONTENT


async def test_a_file_that_is_not_as_it_was_listed_goes_back(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with fetching(ftp_site, tmp_path) as (there, downloader, spool):
        path = there.put("a.dat", CONTENT)
        with pytest.raises(FileChanged):
            await downloader.fetch("1-1", path, Stamp(7))
        assert spool.used_bytes == 0
        with pytest.raises(FileGone):
            await downloader.fetch("2-1", there.at("none"))


def replaced_while_read(there: World) -> MeddledPool:
    """As soon as a file was read, and before its last look, it is replaced by another of the same size."""

    def meddle(when: str, verb: str) -> None:
        if (when, verb) == ("after", "retrieve"):
            there.put("a.dat", CONTENT[::-1], 1_800_000_000.0)

    return MeddledPool(there.pool, meddle)


async def fetch_what_is_replaced(ftp_site: FtpServer, spool_dir: Path, kind: type[Downloader]) -> None:
    async with world(ftp_site) as there:
        path, pool = there.put("a.dat", CONTENT), replaced_while_read(there)
        with Spool(spool_dir, 50_000_000, spared=0) as spool:
            try:
                with pytest.raises(FileChanged, match="while it was read"):
                    await kind(pool, spool).fetch("1-1", path)
                assert spool.find("1-1") is None
            finally:
                await pool.close()


async def test_a_file_that_is_replaced_while_it_is_read_is_not_believed(ftp_site: FtpServer, tmp_path: Path) -> None:
    await fetch_what_is_replaced(ftp_site, tmp_path, Downloader)


class Believes(Downloader):
    """Takes what came for the file that was listed."""

    async def _finished(self, session: FileSession, key: str, path: bytes, part: PartialFile) -> SpooledFile:
        return self._spool.finish(key, part)


async def test_without_the_second_look_a_mixture_would_be_believed(ftp_site: FtpServer, tmp_path: Path) -> None:
    async def fetch(self: None) -> None:
        await fetch_what_is_replaced(ftp_site, tmp_path, Believes)

    await turns_red(fetch)


async def fetch_what_may_not_be_read(site: FtpFolder, spool_dir: Path, kind: type[Downloader]) -> None:
    async with world(site) as there:
        path = there.put("a.dat", CONTENT)
        os.chown(there.disk / "a.dat", 0, 0)
        os.chmod(there.disk / "a.dat", 0o600)
        with Spool(spool_dir, 50_000_000, spared=0) as spool:
            with pytest.raises(HeadraceError) as refused:
                await kind(there.pool, spool, backoff=SOON).fetch("1-1", path)
            assert isinstance(refused.value, CommandRefused), f"{refused.value} is not what happened"


class BelievesWords(Downloader):
    """Takes 550 for what it says."""

    async def _refuse_if_there(self, path: bytes) -> None:
        pass


# The server `ftp` runs as root and reads everything.
@pytest.mark.parametrize("site", ["vsftpd_site", "sftp_site"], indirect=True)
async def test_a_file_that_may_not_be_read_has_not_vanished(site: FtpFolder, tmp_path: Path) -> None:
    await fetch_what_may_not_be_read(site, tmp_path, Downloader)


async def test_words_of_a_server_are_not_believed(vsftpd_site: VsftpdServer, tmp_path: Path) -> None:
    async def believed(self: None) -> None:
        await fetch_what_may_not_be_read(vsftpd_site, tmp_path, BelievesWords)

    await turns_red(believed)


async def test_a_spool_without_room_is_told_before_anything_is_read(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with world(ftp_site) as there:
        with Spool(tmp_path, 1_500_000, spared=0) as spool:
            downloader = Downloader(there.pool, spool, backoff=SOON)
            await downloader.fetch("1-1", there.put("a.dat", CONTENT))
            with pytest.raises(SpoolFull):
                await downloader.fetch("2-1", there.put("b.dat", CONTENT))
            with pytest.raises(TooLarge):
                await downloader.fetch("3-1", there.put("c.dat", CONTENT * 2))
            assert downloader.counts.byte_count == len(CONTENT)
            spool.drop("1-1")
            await downloader.fetch("2-1", there.at("b.dat"))


async def test_a_cancelled_transfer_ends_at_once_and_can_be_continued(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with fetching(ftp_site, tmp_path) as (there, downloader, _):
        path = there.put("a.dat", CONTENT)
        with started_with(ftp_site, {"bytes_per_s": "100000"}):
            running = asyncio.create_task(downloader.fetch("1-1", path))
            await eventually(lambda: [p for p in tmp_path.glob("*.part") if p.stat().st_size], "some bytes are here")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert there.pool.open_count == 0, "its connection is dropped"
        kept = next(tmp_path.glob("*.part")).stat().st_size
        assert 0 < kept < len(CONTENT)
        assert (await downloader.fetch("1-1", path)).path.read_bytes() == CONTENT
        assert downloader.counts.byte_count == len(CONTENT), f"{kept:,} bytes were not fetched again"


async def test_a_server_that_freezes_is_noticed(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with fetching(ftp_site, tmp_path, ftp_answer_s=0.5, ftp_data_s=0.5, ftp_connect_s=0.5) as (
        there,
        downloader,
        _,
    ):
        path = there.put("a.dat", CONTENT)
        await downloader.fetch("1-1", path)
        ftp_site.pause()
        with pytest.raises(HeadraceError) as away:
            await downloader.fetch("2-1", path)
        assert away.value.heals
        ftp_site.resume()


async def test_sftp_goes_on_where_it_ended(sftp_site: SftpServer, tmp_path: Path) -> None:
    with Proxy(sftp_site.url) as proxy:
        async with world(sftp_site) as there:
            known = there.settings.sftp_known_hosts
            assert known is not None
            known.write_text(known.read_text().replace(f":{sftp_site.port} ", f":{proxy.port} "))
            path = there.put("a.dat", CONTENT)
            through = replace(there.row, port=proxy.port)
            with Spool(tmp_path, 50_000_000, spared=0) as spool:
                downloader = Downloader(there.pools.pool_of(through), spool, backoff=SOON)
                proxy.cut_after(600_000)
                assert (await downloader.fetch("1-1", path)).path.read_bytes() == CONTENT
                assert proxy.cuts == 1
                assert 0 < downloader.counts.resumed_bytes < len(CONTENT)
                assert downloader.counts.byte_count == len(CONTENT)
