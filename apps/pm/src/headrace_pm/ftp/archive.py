"""Clearing the archive: old files of `ClickHouse/Done/`, first shown, then deleted.

Deleted is what was shown and nothing else: a file that is another one by then stays. How old a file is, is the one
question here that needs the server's clock and ours together; days forgive what seconds do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.errors import CallerError
from headrace_pm.ftp.errors import FileGone, FolderMissing
from headrace_pm.ftp.mover import archive_of
from headrace_pm.ftp.names import joined
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.sessions.file_session import FileSession
from headrace_pm.ftp.stamps import Stamp

# Clocks of both sides may differ by a zone.
AGE_MIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of the archive that may go."""

    path: bytes
    stamp: Stamp
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class ArchivePreview:
    """What would be deleted, and how much stays."""

    files: tuple[ArchivedFile, ...]
    kept_count: int

    @property
    def byte_count(self) -> int:
        return sum(file.stamp.size for file in self.files)


@dataclass(frozen=True, slots=True)
class ArchiveCleared:
    """What was deleted; `left` are files that were gone or had changed by then."""

    deleted: tuple[bytes, ...]
    left: tuple[bytes, ...]


async def preview(pool: ServerPool, folder: bytes, older_than: timedelta, now: datetime) -> ArchivePreview:
    """The files of a folder's archive that were last changed longer ago than this."""
    if older_than < AGE_MIN:
        raise CallerError("an archive is kept for a day at least", f"older than {AGE_MIN.days} day or more")
    place = archive_of(folder)
    found: list[ArchivedFile] = []
    async with pool.session(ServerLane.MOVE) as session:
        try:
            listing = await session.listing(place)
        except FolderMissing:
            listing = None
    if listing is None:
        return ArchivePreview((), 0)
    async with pool.session(ServerLane.MOVE) as session:
        for file in listing.files:
            path = joined(place, file.name)
            stamp = await _dated(session, path, file.stamp)
            moment = _moment(stamp)
            if stamp is not None and moment is not None and now - moment > older_than:
                found.append(ArchivedFile(path, stamp, moment))
    found.sort(key=lambda file: file.modified_at)
    return ArchivePreview(tuple(found), len(listing.files) - len(found))


async def clear(pool: ServerPool, shown: ArchivePreview) -> ArchiveCleared:
    """Delete what was shown."""
    deleted, left = [], []
    for file in shown.files:
        try:
            async with pool.session(ServerLane.MOVE) as session:
                found = await session.facts(file.path)
                if found is None or not found.agrees_with(file.stamp):
                    left.append(file.path)
                    continue
                await session.delete(file.path)
                deleted.append(file.path)
        except FileGone:
            left.append(file.path)
    return ArchiveCleared(tuple(deleted), tuple(left))


async def _dated(session: FileSession, path: bytes, listed: Stamp) -> Stamp | None:
    """LIST leaves out the year or the hour, and a zone: then each file is asked for."""
    return listed if listed.modified.startswith("u") else await session.facts(path)


def _moment(stamp: Stamp | None) -> datetime | None:
    if stamp is None or not stamp.modified.startswith("u"):
        return None
    try:
        return datetime.strptime(stamp.modified[1:], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
