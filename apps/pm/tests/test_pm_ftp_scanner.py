"""A look at a folder: what is new, what came again, what must wait, with Redis and without."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pm_ftp_world import MemoryRegister, World, world
from redis.asyncio import Redis

from headrace.testing.rig.ftp import FtpFolder, FtpServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.twins import turns_red
from headrace_pm.ftp.gate import ReadyGate
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.names import NameFault
from headrace_pm.ftp.scanner import CHECK_S, FolderScanner, Scanned
from headrace_pm.ftp.seen import SeenNames, open_redis, set_key
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp

FIRST, SECOND = 1_790_000_000.0, 1_790_000_600.0
WEEK_S = 7 * 24 * 3600


@dataclass
class Watch:
    """A scanner with all that it needs, and a clock of the test."""

    there: World
    register: MemoryRegister
    seen: SeenNames
    redis: Redis
    scanner: FolderScanner
    now: float = 1000.0

    async def look(self) -> Scanned:
        self.now += 10.0
        return await self.scanner.scan()

    async def names(self) -> set[str]:
        """What two looks find to be new."""
        await self.look()
        return {file.text for file in (await self.look()).new}

    async def take(self) -> set[str]:
        """Register all that is ready, table first."""
        found = await self.look()
        files = [*found.new, *found.changed]
        self.register.rows.update((file.text, file.stamp) for file in files)
        await self.scanner.registered(files)
        return {file.text for file in files}

    async def members(self) -> set[str]:
        return {name.decode() for name in await self.redis.smembers(set_key(self.there.folder))}


@asynccontextmanager
async def watching(site: FtpFolder, redis_url: str, kind: type[FolderScanner] = FolderScanner) -> AsyncIterator[Watch]:
    async with world(site) as there, open_redis(redis_url) as redis:
        await redis.flushdb()
        register = MemoryRegister()
        watch: Watch

        def now() -> float:
            return watch.now

        seen = SeenNames(redis, register, now)
        scanner = kind(there.folder, there.pool, seen, register, now=now)
        watch = Watch(there, register, seen, redis, scanner)
        yield watch


@pytest.fixture(params=["ftp_site", "vsftpd_site", "sftp_site"])
def site(request: pytest.FixtureRequest) -> FtpFolder:
    found: FtpFolder = request.getfixturevalue(request.param)
    return found


async def test_what_holds_still_is_new_and_then_known(site: FtpFolder, redis_database: str) -> None:
    async with watching(site, redis_database) as watch:
        for name in ("a.dat", "b c.dat", b"caf\xe9.dat"):
            watch.there.put(name, b"x", FIRST)
        first = await watch.look()
        assert (first.new, first.waiting_count, first.listed_count) == ((), 3, 3)
        assert await watch.take() == {"a.dat", "b c.dat", "caf%E9.dat"}
        assert await watch.members() == {"a.dat", "b c.dat", "caf%E9.dat"}
        assert await watch.names() == set()
        asked = len(watch.register.asked)
        await watch.look()
        assert len(watch.register.asked) == asked, "Redis answers, and the table is left alone"


async def test_a_file_that_grows_or_is_empty_waits(site: FtpFolder, redis_database: str) -> None:
    async with watching(site, redis_database) as watch:
        for size in range(1, 4):
            watch.there.put("grows.dat", b"x" * size, FIRST)
            watch.there.put("touched.dat", b"x", FIRST + 60 * size)
            watch.there.put("empty.dat", b"", FIRST)
            found = await watch.look()
            assert (found.new, found.waiting_count, found.empty_count) == ((), 2, 1)
        assert await watch.names() == {"grows.dat", "touched.dat"}


async def test_names_of_unfinished_uploads_are_passed_over(ftp_site: FtpServer, redis_database: str) -> None:
    async with watching(ftp_site, redis_database) as watch:
        for name in ("a.tmp", "b.PART", "c.filepart", ".d.dat", "e.dat"):
            watch.there.put(name)
        watch.there.put(b"f\ng")
        assert await watch.names() == {"e.dat"}
        found = await watch.look()
        assert found.unfinished_count == 4
        assert found.refused[NameFault.LINE_BREAK] == 1


async def test_the_same_name_with_another_content_is_seen(site: FtpFolder, redis_database: str) -> None:
    async with watching(site, redis_database) as watch:
        watch.there.put("a.dat", b"one", FIRST)
        await watch.look()
        await watch.take()
        for content, modified in ((b"two", SECOND), (b"three!", SECOND)):
            watch.there.put("a.dat", content, modified)
            assert (await watch.look()).changed == (), "it must hold still, too"
            found = await watch.look()
            assert ([file.text for file in found.changed], found.new) == (["a.dat"], ())
            assert await watch.take() == {"a.dat"}
        assert (await watch.look()).changed == ()


async def test_a_change_while_we_were_away_is_seen_by_the_table(ftp_site: FtpServer, redis_database: str) -> None:
    async with watching(ftp_site, redis_database) as watch:
        for name in ("a.dat", "b.dat"):
            watch.there.put(name, b"one", FIRST)
        await watch.look()
        await watch.take()
        fresh = FolderScanner(watch.there.folder, watch.there.pool, watch.seen, watch.register, ReadyGate(0.0))
        watch.there.put("a.dat", b"two!", SECOND)
        assert (await fresh.scan()).changed == ()
        assert [file.text for file in (await fresh.scan()).changed] == ["a.dat"]


async def test_a_moved_file_is_forgotten_and_may_come_again(ftp_site: FtpServer, redis_database: str) -> None:
    async with watching(ftp_site, redis_database) as watch:
        watch.there.put("a.dat", b"one", FIRST)
        watch.there.put("b.dat", b"one", FIRST)
        await watch.look()
        await watch.take()
        del watch.register.rows["a.dat"]
        (watch.there.disk / "a.dat").unlink()
        await watch.seen.remove(watch.there.folder, ["a.dat"])
        assert await watch.members() == {"b.dat"}
        watch.there.put("a.dat", b"one", FIRST)
        assert await watch.names() == {"a.dat"}


class Trusting(FolderScanner):
    """The twin: what Redis knows has a row."""

    async def _without_rows(self, known: Sequence[str]) -> set[str]:
        return set()


async def test_a_scanner_that_believes_redis_is_noticed(ftp_site: FtpServer, redis_database: str) -> None:
    with pytest.raises(AssertionError):
        await rows_go(ftp_site, redis_database, Trusting)


async def test_a_name_whose_row_is_gone_is_new_whatever_redis_says(ftp_site: FtpServer, redis_database: str) -> None:
    await rows_go(ftp_site, redis_database, FolderScanner)


async def rows_go(ftp_site: FtpServer, redis_database: str, kind: type[FolderScanner]) -> None:
    """Somebody deleted its row, or set the table back to a backup."""
    async with watching(ftp_site, redis_database, kind) as watch:
        for name in ("a.dat", "b.dat"):
            watch.there.put(name, b"one", FIRST)
        await watch.look()
        assert await watch.take() == {"a.dat", "b.dat"}
        await watch.look()
        del watch.register.rows["a.dat"]
        watch.now += CHECK_S
        assert await watch.names() == {"a.dat"}
        assert await watch.take() == {"a.dat"}
        del watch.register.rows["b.dat"]
        fresh = kind(watch.there.folder, watch.there.pool, watch.seen, watch.register, ReadyGate(0.0))
        await fresh.scan()
        assert {file.text for file in (await fresh.scan()).new} == {"b.dat"}, "a new process asks at once"


async def test_without_redis_the_table_answers(
    ftp_site: FtpServer, redis_database: str, redis_server: RedisServer
) -> None:
    async with watching(ftp_site, redis_database) as watch:
        watch.register.rows["known.dat"] = Stamp(3)
        for name in ("known.dat", "new.dat"):
            watch.there.put(name, b"one", FIRST)
        redis_server.stop()
        assert await watch.names() == {"new.dat"}
        assert watch.seen.counts.fallbacks == 2
        assert await watch.take() == {"new.dat"}
        redis_server.start()
        watch.now += 60.0
        assert await watch.names() == set()
        await watch.look()
        assert await watch.members() == {"known.dat", "new.dat"}, "and Redis is filled again"


async def test_a_redis_that_forgot_is_filled_from_the_table(ftp_site: FtpServer, redis_database: str) -> None:
    async with watching(ftp_site, redis_database) as watch:
        names = [f"{number}.dat" for number in range(250)]
        watch.register.rows.update((name, Stamp(3)) for name in names)
        watch.there.put("7.dat", b"one")
        watch.there.put("new.dat", b"one")
        assert await watch.names() == {"new.dat"}
        assert await watch.members() == set(names)
        assert WEEK_S - 60 < await watch.redis.ttl(set_key(watch.there.folder)) <= WEEK_S
        await watch.redis.flushdb()
        assert await watch.names() == {"new.dat"}
        assert await watch.members() == set(names)


async def test_a_filled_set_holds_what_the_table_says_and_nothing_else(
    ftp_site: FtpServer, redis_database: str
) -> None:
    async with watching(ftp_site, redis_database) as watch:
        await watch.redis.sadd(set_key(watch.there.folder), "stray.dat")
        watch.register.rows["a.dat"] = Stamp(1)
        assert await watch.seen.fill(watch.there.folder)
        assert await watch.members() == {"a.dat"}
        watch.register.rows.clear()
        assert await watch.seen.fill(watch.there.folder)
        assert await watch.members() == set()
        assert await watch.redis.keys("*making*") == []


async def test_a_path_that_is_sanitised_keeps_a_key_of_its_own() -> None:
    def key(path: str) -> str:
        return set_key(ServerFolder("5GA", "192.168.1.100_21_user", path))

    assert key("/Access/5G/Others/") == "pm:files:5GA:192.168.1.100_21_user:/Access/5G/Others/"
    assert key("/a-b/").startswith("pm:files:5GA:192.168.1.100_21_user:/a_b/:")
    assert len({key(path) for path in ("/a-b/", "/a b/", "/a_b/", "/a.b/")}) == 4


class NeverEmpty(SeenNames):
    """Takes a Redis that knows nothing of a folder for one that knows that all is new."""

    async def _asked(self, folder: ServerFolder, names: Sequence[str]) -> list[Any] | None:
        return await super()._asked(folder, names) or [0] * len(names)


class KeepsStrays(SeenNames):
    """Adds to a set what the table says, and leaves the rest."""

    async def fill(self, folder: ServerFolder) -> bool:
        async for names in self._register.unmoved(folder):
            await self.add(folder, names)
        return True


async def forgot(ftp_site: FtpServer, redis_url: str, kind: type[SeenNames]) -> None:
    async with watching(ftp_site, redis_url) as watch:
        seen = kind(watch.redis, watch.register)
        watch.register.rows["a.dat"] = Stamp(1)
        assert await seen.new_of(watch.there.folder, ["a.dat", "b.dat"]) == {"b.dat"}
        await watch.redis.sadd(set_key(watch.there.folder), "stray.dat")
        await seen.fill(watch.there.folder)
        assert await watch.members() == {"a.dat"}


async def test_an_empty_set_and_a_stray_name_are_noticed(ftp_site: FtpServer, redis_database: str) -> None:
    await forgot(ftp_site, redis_database, SeenNames)
    for kind in (NeverEmpty, KeepsStrays):

        async def broken(self: None, kind: type[SeenNames] = kind) -> None:
            await forgot(ftp_site, redis_database, kind)

        await turns_red(broken, kind=kind)


class OneListing(ReadyGate):
    """Lets a file through as soon as it is listed."""

    def passed(self, candidates: Sequence[ListedFile], now: float):  # type: ignore[no-untyped-def, override]
        super().passed(candidates, now - 3600)
        return super().passed(candidates, now)


class Stampless(FolderScanner):
    """Knows names and nothing else, as the text has it."""

    async def _changed(self, known: Sequence[ListedFile]) -> list[ListedFile]:
        return []


async def grows(ftp_site: FtpServer, redis_url: str, gate: ReadyGate) -> None:
    async with watching(ftp_site, redis_url) as watch:
        watch.scanner.gate = gate
        watch.there.put("a.dat", b"x", FIRST)
        assert (await watch.look()).new == ()


async def comes_again(ftp_site: FtpServer, redis_url: str, kind: type[FolderScanner]) -> None:
    async with watching(ftp_site, redis_url) as watch:
        watch.scanner = kind(watch.there.folder, watch.there.pool, watch.seen, watch.register, ReadyGate(0.0))
        watch.there.put("a.dat", b"one", FIRST)
        await watch.look()
        await watch.take()
        watch.there.put("a.dat", b"two!", SECOND)
        await watch.look()
        assert len((await watch.look()).changed) == 1


async def test_two_listings_and_stamps_are_needed(ftp_site: FtpServer, redis_database: str) -> None:
    async def at_once(self: None) -> None:
        await grows(ftp_site, redis_database, OneListing())

    async def by_name_alone(self: None) -> None:
        await comes_again(ftp_site, redis_database, Stampless)

    await grows(ftp_site, redis_database, ReadyGate())
    await comes_again(ftp_site, redis_database, FolderScanner)
    for broken in (at_once, by_name_alone):
        ftp_site.empty()
        await turns_red(broken)


async def test_two_looks_in_one_moment_are_one(ftp_site: FtpServer, redis_database: str) -> None:
    async with watching(ftp_site, redis_database) as watch:
        watch.there.put("a.dat", b"x", FIRST)
        assert (await watch.scanner.scan()).new == ()
        assert (await watch.scanner.scan()).new == ()
        watch.now += 1.0
        assert [os.fsencode(file.text) for file in (await watch.scanner.scan()).new] == [b"a.dat"]
