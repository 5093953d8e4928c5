"""Tells a file that is gone from a folder that lost its files: a disk that is not mounted shows an empty folder.

One file that is nowhere was deleted by somebody, and has ended. If most of those that were listed in its folder, and
have not been moved since, are nowhere too, then nobody knows what became of any of them: they wait, and people are
told. Only files that a listing has shown count, so rows that somebody put into the table prove nothing. Where a file
that we moved lies in the archive the disk is there, and what is gone was deleted, however much it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from headrace.errors import Unreachable
from headrace_pm.ftp.mover import DONE, INTERMEDIATE
from headrace_pm.ftp.names import bytes_of_name, bytes_of_path, joined
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.tables.register import FileTable
from headrace_pm.work.events import PipelineEvents

# Fewer others prove nothing; of many, some are enough. Each is looked for in three places.
OTHERS_MIN, OTHERS_MAX = 10, 20
# Somebody may clear the archive; one that is left is proof enough.
ARCHIVED_MAX = 5
# Thousands of files may ask at once, and the first answer is good for all of them.
BELIEVED_S = 10.0
TOLD_AGAIN_S = 600.0
log = structlog.get_logger("headrace_pm.work")


class FolderEmptied(Unreachable):
    """Most files of a folder are nowhere: that is for people to look at, and says nothing of one file."""


class Disappearances:
    """Of one process. Folders that lost their files are known until a file of theirs is found again."""

    def __init__(self, files: FileTable, events: PipelineEvents, now: Callable[[], float] = time.monotonic) -> None:
        self._files, self._events, self._now = files, events, now
        self._believed_until: dict[ServerFolder, float] = {}
        self._told_at: dict[ServerFolder, float] = {}

    async def judge(self, pool: ServerPool, folder: ServerFolder, file_id: int, lane: ServerLane) -> None:
        """A file of this folder is nowhere: `FolderEmptied` if most of the others are, too."""
        if self._now() >= self._believed_until.get(folder, 0.0):
            others = await self._files.awaited(folder, file_id, OTHERS_MAX)
            gone = await self._gone(pool, folder, others, lane) if len(others) >= OTHERS_MIN else 0
            if gone * 2 <= len(others) or await self._is_there(pool, folder, lane):
                self.passed(folder)
                return
            self._believed_until[folder] = self._now() + BELIEVED_S
            self._tell(folder, gone, len(others))
        raise FolderEmptied(
            f"most files of {folder.path} have disappeared", f"is the disk of {folder.server_key} mounted?"
        )

    def passed(self, folder: ServerFolder) -> None:
        """A file of it was found, or few of them are missing."""
        if self._believed_until.pop(folder, None) is not None:
            self._told_at.pop(folder, None)
            self._events.emptied(len(self._believed_until))
            log.info("folder.filled", server=folder.server_key, path=folder.path)

    def _tell(self, folder: ServerFolder, gone: int, others: int) -> None:
        self._events.emptied(len(self._believed_until))
        if self._now() - self._told_at.get(folder, -TOLD_AGAIN_S) >= TOLD_AGAIN_S:
            self._told_at[folder] = self._now()
            words = f"ALERT: Files of {folder.path} have disappeared from {folder.server_key}"
            log.error(words, server=folder.server_key, path=folder.path, looked_for=others, gone=gone)

    async def _is_there(self, pool: ServerPool, folder: ServerFolder, lane: ServerLane) -> bool:
        """Whether its archive still holds something that was moved there."""
        names = await self._files.archived(folder, ARCHIVED_MAX)
        place = joined(bytes_of_path(folder.path), INTERMEDIATE, DONE)
        async with pool.session(lane) as session:
            for name in map(bytes_of_name, names):
                if await session.facts(joined(place, name)) is not None:
                    return True
        return False

    async def _gone(self, pool: ServerPool, folder: ServerFolder, names: list[str], lane: ServerLane) -> int:
        place, gone = bytes_of_path(folder.path), 0
        async with pool.session(lane) as session:
            for name in map(bytes_of_name, names):
                for path in (
                    joined(place, name),
                    joined(place, INTERMEDIATE, name),
                    joined(place, INTERMEDIATE, DONE, name),
                ):
                    if await session.facts(path) is not None:
                        break
                else:
                    gone += 1
        return gone
