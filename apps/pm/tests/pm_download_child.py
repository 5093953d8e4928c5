"""A process that fetches one file from a server into its spool, to be killed in the middle.

DIRECTORY PORT PATH: says `begun` when the first bytes are on disk, and `done DIGEST BYTES` at the end.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.downloads import Downloader
from headrace_pm.ftp.servers import FileServer
from headrace_pm.ftp.settings import FtpSettings
from headrace_pm.spool.spool import Spool


async def main(directory: str, port: str, path: str) -> None:
    pools = ServerPools(FtpSettings(environment={"PM_TEST_PASSWORD": "rig"}))
    server = FileServer.of_row("5GA", "127.0.0.1", int(port), "rig", "env:PM_TEST_PASSWORD")
    with Spool(Path(directory), 2_000_000_000, spared=0) as spool:
        downloader = Downloader(pools.pool_of(server), spool)
        found = await downloader.fetch("1-1", path.encode())
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        print(f"done {found.digest} {downloader.counts.byte_count} {peak.split()[1]}", flush=True)
    await pools.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
