"""Into the archive: once, over nothing, and only what was read."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pm_ftp_world import BlindPool, MeddledPool, World, world

from headrace.errors import CallerError
from headrace.testing.rig.ftp import FtpFolder, FtpServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.twins import turns_red
from headrace_pm.ftp import archive
from headrace_pm.ftp.errors import FolderMissing
from headrace_pm.ftp.mover import Move, MoveOutcome, Mover, MoveResult
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.sessions.file_session import FileSession
from headrace_pm.ftp.stamps import Stamp

DONE = "ClickHouse/Done"
FIRST, SECOND = 1_790_000_000.0, 1_790_000_600.0


@pytest.fixture(params=["ftp_site", "vsftpd_site", "sftp_site"])
def site(request: pytest.FixtureRequest) -> FtpFolder:
    found: FtpFolder = request.getfixturevalue(request.param)
    return found


async def read_stamp(there: World, name: str) -> Stamp:
    async with there.pool.session(ServerLane.SCAN) as session:
        found = await session.facts(there.at(name))
    assert found is not None
    return found


async def put(there: World, content: bytes, modified: float, revision: int = 1) -> Move:
    there.put("a.dat", content, modified)
    return Move(there.path, b"a.dat", await read_stamp(there, "a.dat"), revision)


def archived(there: World) -> dict[str, bytes]:
    return {name: (there.disk / DONE / name).read_bytes() for name in there.names(DONE)}


async def test_a_file_is_moved_and_the_folders_are_made(site: FtpFolder) -> None:
    async with world(site) as there:
        wanted, mover = await put(there, b"one", FIRST), Mover(there.pool)
        result = await mover.move(wanted)
        assert result == MoveResult(MoveOutcome.MOVED, there.at(f"{DONE}/a.dat"))
        assert (there.names(), archived(there)) == (set(), {"a.dat": b"one"})
        assert await mover.move(wanted) == result, "the second time it is there already"


async def test_a_file_that_came_again_does_not_replace_the_first(site: FtpFolder) -> None:
    async with world(site) as there:
        mover = Mover(there.pool)
        await mover.move(await put(there, b"one", FIRST))
        for revision in (2, 3):
            again = await put(there, b"two", SECOND + revision, revision)
            assert (await mover.move(again)).path == there.at(f"{DONE}/a.dat.rev{revision}")
        assert archived(there) == {"a.dat": b"one", "a.dat.rev2": b"two", "a.dat.rev3": b"two"}


async def folder_is_missing(there: World, pool: ServerPool, is_known: bool) -> None:
    try:
        mover = Mover(pool)
        if is_known:
            await mover.move(await put(there, b"zero", SECOND))
        wanted = await put(there, b"one", FIRST)
        away = there.disk.rename(there.disk.with_name("away"))
        with pytest.raises(FolderMissing):
            await mover.move(wanted)
        assert not there.disk.exists(), "it is not made anew"
        away.rename(there.disk)
        assert (await mover.move(wanted)).outcome is MoveOutcome.MOVED
        with pytest.raises(FileNotFoundError):
            (there.disk / "a.dat").stat()
    finally:
        await pool.close()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_folder_that_is_missing_makes_no_file_vanish(site: FtpFolder, is_known: bool) -> None:
    """It is renamed for a while, or the server's disk is not there: everything in it would end as an error."""
    async with world(site) as there:
        await folder_is_missing(there, there.pool, is_known)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_mover_that_does_not_look_for_the_folder_is_noticed(ftp_site: FtpServer, is_known: bool) -> None:
    async with world(ftp_site) as there:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await folder_is_missing(there, BlindPool(there.pool), is_known)


async def test_a_file_that_changed_since_it_was_read_stays(site: FtpFolder) -> None:
    async with world(site) as there:
        wanted = await put(there, b"one", FIRST)
        for content, modified in ((b"two", SECOND), (b"longer", FIRST)):
            there.put("a.dat", content, modified)
            assert (await Mover(there.pool).move(wanted)).outcome is MoveOutcome.CHANGED
            assert (there.names(), archived(there)) == ({"a.dat"}, {})


async def test_what_is_nowhere_has_vanished(site: FtpFolder) -> None:
    async with world(site) as there:
        wanted = await put(there, b"one", FIRST)
        (there.disk / "a.dat").unlink()
        assert (await Mover(there.pool).move(wanted)).outcome is MoveOutcome.VANISHED
        there.put(f"{DONE}/a.dat", b"other", SECOND)
        assert (await Mover(there.pool).move(wanted)).outcome is MoveOutcome.VANISHED, "that is another file"


async def test_the_old_manner_has_two_steps(site: FtpFolder) -> None:
    seen: list[set[str]] = []
    async with world(site) as there:
        wanted = await put(there, b"one", FIRST)

        def meddle(when: str, verb: str) -> None:
            if (when, verb) == ("after", "rename"):
                seen.append(there.names("ClickHouse"))

        pool = MeddledPool(there.pool, meddle)
        assert (await Mover(pool, two_steps=True).move(wanted)).outcome is MoveOutcome.MOVED
        assert seen == [{"a.dat"}, set()]
        assert archived(there) == {"a.dat": b"one"}
        await pool.close()


async def test_what_was_left_between_the_steps_is_moved_on(site: FtpFolder) -> None:
    async with world(site) as there:
        wanted = await put(there, b"one", FIRST)
        there.make("ClickHouse")
        (there.disk / "a.dat").rename(there.disk / "ClickHouse" / "a.dat")
        assert (await Mover(there.pool).move(wanted)).outcome is MoveOutcome.MOVED
        assert (there.names("ClickHouse"), archived(there)) == (set(), {"a.dat": b"one"})


async def test_a_removed_archive_is_made_again(ftp_site: FtpServer) -> None:
    async with world(ftp_site) as there:
        mover = Mover(there.pool)
        await mover.move(await put(there, b"one", FIRST))
        (there.disk / DONE / "a.dat").unlink()
        (there.disk / DONE).rmdir()
        assert (await mover.move(await put(there, b"two", SECOND))).outcome is MoveOutcome.MOVED
        assert archived(there) == {"a.dat": b"two"}


@asynccontextmanager
async def behind_a_proxy(site: FtpFolder) -> AsyncIterator[tuple[World, Proxy]]:
    with Proxy(site.url) as proxy:
        async with world(site, port=proxy.port) as there:
            yield there, proxy


@pytest.mark.parametrize("site", ["ftp_site", "vsftpd_site"], indirect=True)
async def test_a_rename_whose_answer_was_lost_is_decided_by_looking(site: FtpFolder) -> None:
    async with behind_a_proxy(site) as (there, proxy):
        wanted = await put(there, b"one", FIRST)
        proxy.cut_reply_to(b"RNTO")
        assert (await Mover(there.pool).move(wanted)).outcome is MoveOutcome.MOVED
        assert proxy.cuts == 1
        assert archived(there) == {"a.dat": b"one"}


async def test_a_rename_that_never_arrived_is_sent_again(ftp_site: FtpServer) -> None:
    async with behind_a_proxy(ftp_site) as (there, proxy):
        wanted = await put(there, b"one", FIRST)
        proxy.cut_before(b"RNTO")
        assert (await Mover(there.pool).move(wanted)).outcome is MoveOutcome.MOVED
        assert proxy.cuts == 1
        assert archived(there) == {"a.dat": b"one"}


async def test_somebody_who_moves_it_between_our_looks_is_believed(ftp_site: FtpServer) -> None:
    async with world(ftp_site) as there:
        wanted = await put(there, b"one", FIRST)

        def meddle(when: str, verb: str) -> None:
            if (when, verb) == ("after", "facts") and (there.disk / "a.dat").exists():
                (there.disk / "a.dat").rename(there.disk / DONE / "a.dat")

        pool = MeddledPool(there.pool, meddle)
        assert (await Mover(pool).move(wanted)).outcome is MoveOutcome.MOVED
        await pool.close()


class Overwrites(Mover):
    """Renames without a look at the target."""

    async def _look(self, session: FileSession, wanted: Move) -> tuple[bytes, bytes]:
        return there_in(wanted, wanted.name), b""


class LooksOnce(Mover):
    """Renames without a look at what it renamed."""

    async def _renamed(self, session: FileSession, source: bytes, target: bytes, wanted: Move) -> MoveResult:
        await session.rename(source, target)
        return MoveResult(MoveOutcome.MOVED, target)


class MovesAnything(Mover):
    """Takes what is at the source for what was read."""

    async def move(self, wanted: Move) -> MoveResult:
        async with self._pool.session(ServerLane.MOVE) as session:
            await self._make_folders(session, wanted.folder)
            return await LooksOnce._renamed(
                self, session, there_in(wanted, wanted.name, b""), there_in(wanted, wanted.name), wanted
            )


def there_in(wanted: Move, name: bytes, below: bytes = b"ClickHouse/Done/") -> bytes:
    return wanted.folder + below + name


async def twice(site: FtpFolder, kind: type[Mover]) -> None:
    async with world(site) as there:
        mover = kind(there.pool)
        await mover.move(await put(there, b"one", FIRST))
        await mover.move(await put(there, b"two", SECOND, 2))
        assert archived(there) == {"a.dat": b"one", "a.dat.rev2": b"two"}


async def replaced_before_the_rename(site: FtpFolder, kind: type[Mover]) -> None:
    replaced: list[bytes] = []
    async with world(site) as there:
        wanted = await put(there, b"one", FIRST)

        def meddle(when: str, verb: str) -> None:
            if (when, verb) == ("before", "rename") and not replaced:
                replaced.append(there.put("a.dat", b"two", SECOND))

        pool = MeddledPool(there.pool, meddle)
        try:
            assert (await kind(pool).move(wanted)).outcome is MoveOutcome.CHANGED
            assert (there.names(), archived(there)) == ({"a.dat"}, {})
        finally:
            await pool.close()


async def changed(site: FtpFolder, kind: type[Mover]) -> None:
    async with world(site) as there:
        wanted = await put(there, b"one", FIRST)
        there.put("a.dat", b"two", SECOND)
        assert (await kind(there.pool).move(wanted)).outcome is MoveOutcome.CHANGED


async def test_what_is_replaced_before_the_rename_is_put_back(ftp_site: FtpServer) -> None:
    await replaced_before_the_rename(ftp_site, Mover)


async def test_every_look_of_the_mover_is_needed(ftp_site: FtpServer) -> None:
    async def overwritten(self: None) -> None:
        await twice(ftp_site, Overwrites)

    async def not_looked_again(self: None) -> None:
        await replaced_before_the_rename(ftp_site, LooksOnce)

    async def not_compared(self: None) -> None:
        await changed(ftp_site, MovesAnything)

    for broken in (overwritten, not_looked_again, not_compared):
        ftp_site.empty()
        await turns_red(broken)
    ftp_site.empty()
    await twice(ftp_site, Mover)


async def old_and_new(there: World) -> datetime:
    there.make(DONE)
    now = datetime.now(UTC)
    for name, days in (("old.dat", 40), ("older.dat", 400), ("new.dat", 1)):
        there.put(f"{DONE}/{name}", name.encode(), (now - timedelta(days=days)).timestamp())
    return now


async def test_the_archive_is_shown_before_it_is_cleared(site: FtpFolder) -> None:
    async with world(site) as there:
        now = await old_and_new(there)
        shown = await archive.preview(there.pool, there.path, timedelta(days=30), now)
        assert [Path(os.fsdecode(file.path)).name for file in shown.files] == ["older.dat", "old.dat"]
        assert (shown.kept_count, shown.byte_count) == (1, len("older.dat" + "old.dat"))
        assert there.names(DONE) == {"old.dat", "older.dat", "new.dat"}, "nothing happened yet"
        there.put(f"{DONE}/old.dat", b"another by now")
        cleared = await archive.clear(there.pool, shown)
        assert cleared.deleted == (there.at(f"{DONE}/older.dat"),)
        assert cleared.left == (there.at(f"{DONE}/old.dat"),)
        assert there.names(DONE) == {"old.dat", "new.dat"}


async def test_an_archive_that_is_not_there_is_empty(ftp_site: FtpServer) -> None:
    async with world(ftp_site) as there:
        assert (await archive.preview(there.pool, there.path, timedelta(days=30), datetime.now(UTC))).files == ()
        with pytest.raises(CallerError):
            await archive.preview(there.pool, there.path, timedelta(hours=1), datetime.now(UTC))
