"""The folders to which the old system moves files: what came there before we saw it is registered from there.

The old system may take a file from its folder within seconds, before two of our looks have seen it alike. Then it is
found in `ClickHouse/` or `ClickHouse/Done/`, under the name that it had, and registered as if it were in its folder
still; the fetcher looks there too. Nothing is renamed or deleted. What was archived before the shadow began is left
alone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog

from headrace.errors import HeadraceError
from headrace.tables import OpenTables
from headrace_pm.ftp.errors import FolderMissing
from headrace_pm.ftp.gate import is_unfinished
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.mover import DONE, INTERMEDIATE
from headrace_pm.ftp.names import joined
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables.register import FileTable
from headrace_pm.work.pipeline import FilePipeline

PLACES = {"ClickHouse": (INTERMEDIATE,), "ClickHouse/Done": (INTERMEDIATE, DONE)}
# Clocks of servers and databases may differ by a zone; what is read once too often does no harm.
MARGIN = timedelta(hours=1)
log = structlog.get_logger("headrace_pm.shadow")


class OldSystemFolders:
    """Looks of one process. `since`: files of the archive that are older are left alone."""

    def __init__(self, pipeline: FilePipeline, record: OpenTables, since: datetime) -> None:
        self._servers, self._pools, self._files = pipeline.servers, pipeline.pools, FileTable(pipeline.tables)
        self._max_retry, self._record, self._since = pipeline.settings.max_retry, record, since - MARGIN
        self._old: dict[ServerFolder, set[str]] = {}
        # The archive may hold the files of months: it is listed as seldom as stuck files are looked for.
        self._every_s = {"ClickHouse": 0.0, "ClickHouse/Done": pipeline.settings.recover_interval_s}
        self._due_at: dict[tuple[ServerFolder, str], float] = {}

    async def round(self) -> int:
        """One look at all of them; how many files were registered."""
        count = 0
        for served in await self._servers.read():
            for folder in served.folders:
                try:
                    count += await self._look(served.server, folder)
                except HeadraceError as error:
                    log.warning("old_folder.failed", server=folder.server_key, path=folder.path, error=str(error))
        return count

    async def _look(self, server: FileServer, folder: ServerFolder) -> int:
        pool, count = self._pools.pool_of(server), 0
        for place, parts in PLACES.items():
            if time.monotonic() < self._due_at.get((folder, place), 0.0):
                continue
            self._due_at[folder, place] = time.monotonic() + self._every_s[place]
            files = await listed_in(pool, joined(folder.on_server, *parts))
            await self._saw(folder, place, files)
            missed = await self._missed(pool, folder, joined(folder.on_server, *parts), files)
            if missed:
                became = await self._files.register(folder, missed, self._max_retry)
                count += len(became.new) + len(became.renewed)
        return count

    async def _saw(self, folder: ServerFolder, place: str, files: Sequence[ListedFile]) -> None:
        names = hashlib.blake2b(b"\n".join(sorted(file.name for file in files)), digest_size=16)
        values: dict[str, object] = {"place": place, "files": len(files), "digest": names.digest()}
        values |= {"system_type": folder.system_type, "server_key": folder.server_key, "path": folder.path}
        async with self._record.transaction() as tx:
            tx.run_many("place_seen", (values,))

    async def _missed(
        self, pool: ServerPool, folder: ServerFolder, place: bytes, files: Sequence[ListedFile]
    ) -> list[ListedFile]:
        old = self._old.setdefault(folder, set())
        whole = (file for file in files if file.stamp.size and not is_unfinished(file.name))
        some = [file for file in whole if file.text not in old and self._may_be_recent(file.stamp)]
        names = [file.text for file in some]
        unknown = await self._files.unknown(folder, names) if names else set[str]()
        known = await self._files.stamps(folder, [name for name in names if name not in unknown])
        found = []
        for file in some:
            if file.text not in unknown and not _is_newer(file.stamp, known.get(file.text)):
                continue
            if await self._is_recent(pool, joined(place, file.name), file.stamp):
                found.append(file)
            elif file.text in unknown:
                old.add(file.text)
        return found

    def _may_be_recent(self, stamp: Stamp) -> bool:
        moment = modified_at(stamp)
        return moment is None or moment >= self._since

    async def _is_recent(self, pool: ServerPool, path: bytes, stamp: Stamp) -> bool:
        """LIST knows no zone, and often no year: then the file itself is asked for, once."""
        if not stamp.modified.startswith("u"):
            async with pool.session(ServerLane.SCAN) as session:
                stamp = await session.facts(path) or stamp
        return self._may_be_recent(stamp)


def _is_newer(found: Stamp, known: Stamp | None) -> bool:
    """Whether it came after what is known of its name. The archive keeps what was there before, which is not new: both
    would take turns for ever."""
    before = modified_at(known) if known is not None else None
    moment = modified_at(found)
    return before is not None and moment is not None and moment > before


async def listed_in(pool: ServerPool, folder: bytes) -> tuple[ListedFile, ...]:
    """The files of a folder; none if there is no such folder."""
    async with pool.session(ServerLane.SCAN) as session:
        try:
            listing = await session.listing(folder)
        except FolderMissing:
            return ()
    return tuple(listing.files)


def modified_at(stamp: Stamp) -> datetime | None:
    """When a file was last changed; None if the server does not say it exactly."""
    if not stamp.modified.startswith("u"):
        return None
    return datetime.strptime(stamp.modified[1:], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
