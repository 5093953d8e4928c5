"""A file is fetched once: from the server into the spool, in as many tries as it takes, and no byte twice.

Size and moment are asked before and after: if they differ, what was read may be a mixture, and the file waits to be
listed again. A try that was cut goes on where it ended (REST), and if only the server's last word was lost there is
nothing left to read. The first bytes tell whether the file is whole; one that is not gives its room back and waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.services import Backoff, Pauses
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
from headrace_pm.ftp.names import shown
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.sessions.file_session import FileSession
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.part import HEAD_BYTES, PartialFile
from headrace_pm.spool.spool import Spool, SpooledFile

TRIES_MAX = 3
# A cut connection is mostly back at once; a server that is overloaded needs seconds.
PAUSES = Backoff(0.2, 5.0)
# Of a file that is known to be incomplete no more than this is read for nothing.
READ_ON_BYTES = 256 * 1024


@dataclass(slots=True)
class DownloadCounts:
    """What was fetched so far, and how often it took more than one try."""

    files: int = 0
    byte_count: int = 0
    tries_again: int = 0
    resumed_bytes: int = 0
    changed: int = 0
    incomplete: int = 0


def accept_all(head: bytes, size: int) -> Completeness:
    """Believe that every file that holds still is whole."""
    return Completeness.UNDECIDED


class Downloader:
    """Fetches files of one server into the spool."""

    def __init__(
        self,
        pool: ServerPool,
        spool: Spool,
        check: CompletenessCheck = accept_all,
        backoff: Backoff = PAUSES,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pool, self._spool, self._check = pool, spool, check
        self._backoff, self._rest = backoff, rest
        self.counts = DownloadCounts()

    async def fetch(self, key: str, path: bytes, listed: Stamp | None = None) -> SpooledFile:
        """The file in the spool, under this key; at once if it is there already.

        `listed` is what the file was when it was taken for ready. Raises `FileGone`, `FileChanged` (back to the gate),
        `FileIncomplete` (likewise), `FileUnreadable`, `SpoolFull`, `TooLarge`, or the last error of the server.
        """
        found = self._spool.find(key)
        if found is not None and (listed is None or found.stamp.agrees_with(listed)):
            return found
        pauses = Pauses(backoff=self._backoff)
        for number in range(1, TRIES_MAX + 1):
            try:
                return await self._try(key, path, listed)
            except (FileChanged, FileIncomplete, SpoolFull):
                # Another try would meet the same; what was read is of no use, or in the way.
                self._spool.drop(key)
                raise
            except FileGone:
                await self._refuse_if_there(path)
                raise
            except HeadraceError as error:
                if not error.heals or number == TRIES_MAX:
                    raise
                self.counts.tries_again += 1
                await self._rest(pauses.next_s())
        raise AssertionError("the last try returns or raises")

    async def _try(self, key: str, path: bytes, listed: Stamp | None) -> SpooledFile:
        async with self._pool.session(ServerLane.TRANSFER) as session:
            before = await self._before(session, path, listed)
            self._spool.reserve(key, before.size)
            part = await asyncio.to_thread(self._spool.part, key, before)
            try:
                return await self._read(session, key, path, part)
            finally:
                part.close()

    async def _refuse_if_there(self, path: bytes) -> None:
        """550 means "gone" and "not allowed" in words of each server's own: looking tells which."""
        async with self._pool.session(ServerLane.TRANSFER) as session:
            if await session.facts(path) is not None:
                raise CommandRefused(
                    f"{self._pool.name}: {shown(path)} is there and cannot be read", "look at its rights"
                )

    async def _before(self, session: FileSession, path: bytes, listed: Stamp | None) -> Stamp:
        before = await session.facts(path)
        if before is None:
            raise FileGone(f"{self._pool.name}: {shown(path)} is not there any more")
        if listed is not None and not before.agrees_with(listed):
            self.counts.changed += 1
            raise FileChanged(f"{self._pool.name}: {shown(path)} is not as it was listed")
        return before

    async def _read(self, session: FileSession, key: str, path: bytes, part: PartialFile) -> SpooledFile:
        self.counts.resumed_bytes += part.length
        is_checked, already = False, part.length

        def receive(piece: memoryview) -> None:
            nonlocal is_checked
            part.write(piece)
            if not is_checked and part.length >= HEAD_BYTES:
                is_checked = True
                if part.stamp.size - part.length > READ_ON_BYTES:
                    self._judge(path, part)

        try:
            # Everything may be here already, if only the server's last word was lost.
            if part.length < part.stamp.size:
                await session.retrieve(path, part.length, receive)
        finally:
            self.counts.byte_count += part.length - already
        return await self._finished(session, key, path, part)

    async def _finished(self, session: FileSession, key: str, path: bytes, part: PartialFile) -> SpooledFile:
        after = await session.facts(path)
        if after is not None and not after.agrees_with(part.stamp):
            self.counts.changed += 1
            raise FileChanged(f"{self._pool.name}: {shown(path)} changed while it was read")
        if part.length < part.stamp.size:
            raise TransferCut(
                f"{self._pool.name}: {shown(path)} ended after {part.length:,} of {part.stamp.size:,} bytes"
            )
        self._judge(path, part)
        whole = await asyncio.to_thread(self._spool.finish, key, part)
        self.counts.files += 1
        return whole

    def _judge(self, path: bytes, part: PartialFile) -> None:
        match self._check(part.head, part.stamp.size):
            case Completeness.INCOMPLETE:
                self.counts.incomplete += 1
                raise FileIncomplete(f"{self._pool.name}: {shown(path)} is not whole yet")
            case Completeness.BAD:
                raise FileUnreadable(f"{self._pool.name}: {shown(path)} does not begin as a performance file")
