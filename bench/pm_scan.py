"""How long does a look at a folder take: 5,000 names against 500,000 that are known?

A whole look (`scan`), from the first command to what is new, on both FTP servers and a real Redis. Beside it its parts,
and the text's own way of asking Redis: one SISMEMBER for each name.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from redis.asyncio import Redis

from headrace.testing.rig.ftp import FtpFolder, FtpServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.rig.vsftpd import VsftpdServer
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.gate import ReadyGate
from headrace_pm.ftp.pool import ServerLane
from headrace_pm.ftp.scanner import FolderScanner
from headrace_pm.ftp.seen import SeenNames, open_redis, set_key
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.ftp.settings import FtpSettings
from headrace_pm.ftp.stamps import Stamp

SETTINGS = FtpSettings(settle_s=0.0, environment={"BENCH_PASSWORD": "rig"})
PATH = "/Access/5G/Others/"
SERVERS = {"pyftpdlib": FtpServer, "vsftpd": VsftpdServer}


class KnownNames:
    """The table of files: half of what is listed, and many that are elsewhere by now."""

    def __init__(self, names: Sequence[str], known: int) -> None:
        self.names = [*names[::2], *(f"gone_{number:07}.dat" for number in range(known - len(names) // 2))]
        self._listed = frozenset(names[::2])

    async def unknown(self, folder: ServerFolder, names: Sequence[str]) -> set[str]:
        """Asked at the first look at a folder, and then every five minutes: the best of several looks is without it."""
        return set(names) - self._listed

    async def unmoved(self, folder: ServerFolder) -> AsyncIterator[Sequence[str]]:
        for first in range(0, len(self.names), 10_000):
            yield self.names[first : first + 10_000]

    async def stamps(self, folder: ServerFolder, names: Sequence[str]) -> Mapping[str, Stamp]:
        return {}


class ScanBench:
    """Both servers with the same files, and Redis with the names."""

    def __init__(self, names: int, known: int) -> None:
        self.names = [f"gNodeB_{number:05}_20261118_0445.dat" for number in range(names)]
        self.register = KnownNames(self.names, known)
        self._servers = ExitStack()

    def results(self, rounds: int) -> Iterator[dict[str, object]]:
        with self._servers as servers:
            redis = servers.enter_context(RedisServer())
            for name, kind in SERVERS.items():
                site = servers.enter_context(kind())
                self._fill(site)
                yield from asyncio.run(self._measured(name, site, redis.url, rounds))

    def _fill(self, site: FtpFolder) -> None:
        folder = site.files / PATH.strip("/")
        folder.mkdir(parents=True)
        for name in self.names:
            (folder / name).write_bytes(b"x")
        for path in (folder, *folder.parents[:2]):
            os.chmod(path, 0o755)

    async def _measured(self, name: str, site: FtpFolder, url: str, rounds: int) -> list[dict[str, object]]:
        server = FileServer.of_row("5GA", "127.0.0.1", site.port, "rig", "env:BENCH_PASSWORD")
        folder, pools = ServerFolder("5GA", server.key, PATH), ServerPools(SETTINGS)
        pool = pools.pool_of(server)
        async with open_redis(url) as redis:
            seen = SeenNames(redis, self.register)
            await seen.fill(folder)
            scanner = FolderScanner(folder, pool, seen, self.register, ReadyGate(0.0))

            async def look() -> None:
                found = await scanner.scan()
                assert len(found.new) in (0, len(self.names) // 2), "half of them are new"

            async def listing() -> None:
                async with pool.session(ServerLane.SCAN) as session:
                    assert len((await session.listing(folder.on_server)).files) == len(self.names)

            async def ask() -> None:
                assert len(await seen.new_of(folder, self.names)) == len(self.names) // 2

            parts = {"scan": look, "list": listing, "smismember": ask, "sismember": self._one_by_one(redis, folder)}
            found = [await _best(part, work, rounds) for part, work in parts.items()]
        await pools.close()
        return [{"server": name, "names": len(self.names), "known": len(self.register.names), **each} for each in found]

    def _one_by_one(self, redis: Redis, folder: ServerFolder) -> Callable[[], Awaitable[None]]:
        """The text's pipeline: a command for each name."""

        async def ask() -> None:
            pipeline = redis.pipeline(transaction=False)
            for name in self.names:
                pipeline.sismember(set_key(folder), name)
            assert sum(await pipeline.execute()) == len(self.names) - len(self.names) // 2

        return ask


async def _best(name: str, work: Callable[[], Awaitable[None]], rounds: int) -> dict[str, object]:
    took, used = [], []
    for _ in range(rounds + 1):
        began, cpu = time.perf_counter(), time.process_time()
        await work()
        took.append(1000 * (time.perf_counter() - began))
        used.append(1000 * (time.process_time() - cpu))
    # The first makes the connections, and after a scan's first look the second finds what is new.
    best, median = min(took[1:]), statistics.median(took[1:])
    return {"what": name, "ms": round(best, 1), "median_ms": round(median, 1), "cpu_ms": round(min(used[1:]), 1)}
