"""How many files a second come from a server, and by which client?

`headrace`: the whole way into the spool, with a look before and after, hash and sync. `ftplib`: the same client in
threads, and nothing else. `aioftp`: the async client, and nothing else. `reconnect`: a login for each file, as the old
system has it. All read from a real vsftpd: beside us, and then with each way of the control connection so much longer.
CPU seconds are those of this process.
"""

from __future__ import annotations

import asyncio
import ftplib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aioftp

from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.vsftpd import VsftpdServer
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.downloads import Downloader
from headrace_pm.ftp.servers import FileServer
from headrace_pm.ftp.settings import FtpSettings
from headrace_pm.spool.spool import Spool

BUFFER = 256 * 1024
PATH = "Access/5G/Others"


@dataclass(frozen=True, slots=True)
class TransferSizes:
    """How much is fetched, by how many connections, and from how far away."""

    files: int
    bytes_each: int
    connections: int
    latency_s: float


class TransferBench:
    """One server with files, and clients that fetch them all."""

    def __init__(self, sizes: TransferSizes) -> None:
        self.count, self.size, self.connections = sizes.files, sizes.bytes_each, sizes.connections
        self.latency_s, self.port = sizes.latency_s, 0

    def results(self, rounds: int) -> Iterator[dict[str, object]]:
        ways: dict[str, Callable[[], Awaitable[int]]] = {
            "headrace": self._ours,
            "ftplib": self._plain,
            "aioftp": self._async,
            "reconnect": self._reconnect,
        }
        with ExitStack() as servers:
            site = servers.enter_context(VsftpdServer())
            folder = site.files / PATH
            folder.mkdir(parents=True)
            for number in range(self.count):
                (folder / f"{number}.dat").write_bytes(os.urandom(self.size))
            for latency_s in (0.0, self.latency_s):
                proxy = servers.enter_context(Proxy(site.url)) if latency_s else None
                if proxy is not None:
                    proxy.latency(latency_s)
                self.port = proxy.port if proxy else site.port
                for who, work in ways.items():
                    yield {"who": who, "round_trip_ms": round(2000 * latency_s, 1), **self._best(work, rounds)}

    def _best(self, work: Callable[[], Awaitable[int]], rounds: int) -> dict[str, object]:
        found: list[tuple[float, float]] = []
        for _ in range(rounds):
            began, used = time.perf_counter(), time.process_time()
            assert asyncio.run(work()) == self.count * self.size, "every byte came"
            found.append((time.perf_counter() - began, time.process_time() - used))
        wall, cpu = min(found)
        return {"files_per_s": round(self.count / wall), "cpu_ms_per_file": round(1000 * cpu / self.count, 3)}

    def _paths(self) -> list[str]:
        return [f"/{PATH}/{number}.dat" for number in range(self.count)]

    async def _ours(self) -> int:
        pools = ServerPools(FtpSettings(downloads=self.connections, environment={"BENCH_PASSWORD": "rig"}))
        server = FileServer.of_row("5GA", "127.0.0.1", self.port, "rig", "env:BENCH_PASSWORD")
        with (
            tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as place,
            Spool(Path(place), 1 << 40) as spool,
        ):
            downloader = Downloader(pools.pool_of(server), spool)
            paths = enumerate(self._paths())
            await asyncio.gather(*(downloader.fetch(str(number), path.encode()) for number, path in paths))
            await pools.close()
            return downloader.counts.byte_count

    async def _plain(self) -> int:
        return sum(await self._in_threads(self._through_one))

    async def _reconnect(self) -> int:
        def each(paths: list[str]) -> int:
            return sum(self._through_one([path]) for path in paths)

        return sum(await self._in_threads(each))

    async def _in_threads(self, work: Callable[[list[str]], int]) -> list[int]:
        paths, loop = self._paths(), asyncio.get_running_loop()
        with ThreadPoolExecutor(self.connections) as threads:
            shares = [paths[number :: self.connections] for number in range(self.connections)]
            return await asyncio.gather(*(loop.run_in_executor(threads, work, share) for share in shares))

    def _through_one(self, paths: list[str]) -> int:
        buffer, total = bytearray(BUFFER), 0
        with ftplib.FTP() as client:
            client.connect("127.0.0.1", self.port)
            client.login("rig", "rig")
            client.voidcmd("TYPE I")
            for path in paths:
                with client.transfercmd(f"RETR {path}") as data:
                    while count := data.recv_into(buffer):
                        total += count
                client.voidresp()
        return total

    async def _async(self) -> int:
        waiting, total = self._paths(), 0

        async def one() -> None:
            nonlocal total
            async with self._async_client() as client:
                while waiting:
                    async with client.download_stream(waiting.pop()) as stream:
                        async for block in stream.iter_by_block(BUFFER):
                            total += len(block)

        await asyncio.gather(*(one() for _ in range(self.connections)))
        return total

    @asynccontextmanager
    async def _async_client(self) -> AsyncIterator[aioftp.Client]:
        async with aioftp.Client.context("127.0.0.1", self.port, "rig", "rig") as client:
            yield client
