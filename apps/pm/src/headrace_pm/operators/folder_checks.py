"""What `doctor` says of the folders of file servers: each is looked at once, as the scan does it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headrace.commands import Check, bad, fine
from headrace.errors import HeadraceError
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.pool import ServerLane
from headrace_pm.work.network_tables import ServedFolders


async def examined_folders(pools: ServerPools, served: Iterable[ServedFolders]) -> list[Check]:
    """One that cannot be listed brings no file, and no other check would tell. Servers are asked at the same time."""
    asked = [each for each in served if each.folders]
    faults = [fault for found in await asyncio.gather(*(_faults(pools, each) for each in asked)) for fault in found]
    count = sum(len(each.folders) for each in asked)
    good = [fine("folder", f"{count - len(faults):,} of {count:,} can be listed")] if count > len(faults) else []
    return [*faults, *good]


async def _faults(pools: ServerPools, served: ServedFolders) -> list[Check]:
    faults = []
    for folder in served.folders:
        try:
            async with pools.pool_of(served.server).session(ServerLane.SCAN) as session:
                await session.listing(folder.on_server)
        except HeadraceError as error:
            faults.append(bad("folder", str(error), error.hint or "no file comes from there until it can be listed"))
    return faults
