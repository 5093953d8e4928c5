"""A connection to a file server as the rest of pm sees it, whatever protocol it speaks.

FTP is spoken by blocking code in threads, each pool with as many as it may have connections. `ftplib` in threads moves
several times as many small files as the async clients do, because those spend their time in Python between two reads;
a thread waits inside of the kernel. It is bounded by the cap of connections, and the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol, TypeVar

from headrace_pm.ftp.listings import FolderListing
from headrace_pm.ftp.sessions.conversation import Conversation, Receive
from headrace_pm.ftp.stamps import Stamp

T = TypeVar("T")


class FileSession(Protocol):
    """One connection, used by one task at a time. Paths are bytes; relative ones begin where the login led to.

    Errors are those of `ftp.errors`. After any error, and after a cancellation, the connection is of no use and must
    be closed.
    """

    async def listing(self, folder: bytes) -> FolderListing:
        """All that is in a folder; `FolderMissing` if it is not there."""

    async def facts(self, path: bytes) -> Stamp | None:
        """Size and moment of a file; None if there is none of this name."""

    async def retrieve(self, path: bytes, offset: int, receive: Receive) -> None:
        """Hand over the bytes from the offset on, in any thread, in order. Returns when the server says that it was
        all: whether it was is for the caller to count."""

    async def rename(self, source: bytes, target: bytes) -> None:
        """`FileGone` if there is no source, `RenameUnanswered` if nobody can say. A target may be overwritten."""

    async def make_folder(self, folder: bytes) -> None:
        """Make a folder and those above it; one that is there is fine."""

    async def delete(self, path: bytes) -> None:
        """Remove a file; `FileGone` if it is not there."""

    async def noop(self) -> None:
        """Whether it still answers."""

    async def close(self) -> None:
        """End it; never raises for the server's sake."""


class FtpSession:
    """FTP and FTPS: a blocking conversation in the threads of its pool."""

    def __init__(self, conversation: Conversation, threads: Executor) -> None:
        self._conversation, self._threads = conversation, threads

    async def open(self) -> None:
        """Connect and log in."""
        await self._run(self._conversation.open)

    async def listing(self, folder: bytes) -> FolderListing:
        return await self._run(self._conversation.listing, folder)

    async def facts(self, path: bytes) -> Stamp | None:
        return await self._run(self._conversation.facts, path)

    async def retrieve(self, path: bytes, offset: int, receive: Receive) -> None:
        await self._run(self._conversation.retrieve, path, offset, receive)

    async def rename(self, source: bytes, target: bytes) -> None:
        await self._run(self._conversation.rename, source, target)

    async def make_folder(self, folder: bytes) -> None:
        await self._run(self._conversation.make_folder, folder)

    async def delete(self, path: bytes) -> None:
        await self._run(self._conversation.delete, path)

    async def noop(self) -> None:
        await self._run(self._conversation.noop)

    async def close(self) -> None:
        # It waits for nothing, so it needs no thread: there may be none left.
        self._conversation.close()

    async def _run(self, call: Callable[..., T], *given: Any) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *given))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, but what it waits for can be ended. It is awaited, because it may be in the
            # middle of a write into the spool.
            self._conversation.abort()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()
            raise
