"""Whether the tables can be written: a server or a directory without room answers every read, and loses every job."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from headrace.errors import HeadraceError, TryAgain
from headrace_scheduler.tables.job_tables import JobTables

ASKED_EVERY_S = 5.0
"""Nobody needs a key to ask whether a process is ready, so asking writes no more often than this."""
FREE_BYTES_MIN = 4 * 1024**2
"""A store that has written before writes a little into its old pages when the disk is full. More than one request may
have is what must fit."""


class WriteProbe:
    """One small write now and then, and its answer in between. `home` is the directory of the embedded store."""

    def __init__(self, tables: JobTables, home: Path | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._tables, self._home, self._monotonic = tables, home, monotonic
        self._failure: HeadraceError | None = None
        self._ask_at = float("-inf")
        self._turn = asyncio.Lock()

    async def answers(self) -> None:
        """`HeadraceError` if nothing can be written."""
        async with self._turn:
            if self._monotonic() >= self._ask_at:
                self._failure = await self._asked()
                self._ask_at = self._monotonic() + ASKED_EVERY_S
        if self._failure is not None:
            raise self._failure

    async def _asked(self) -> HeadraceError | None:
        try:
            self._check_room()
            await self._tables.rows("writes", value=str(round(time.time())))
        except HeadraceError as error:
            return error
        return None

    def _check_room(self) -> None:
        if self._home is None:
            return
        disk = os.statvfs(self._home)
        free = disk.f_bavail * disk.f_frsize
        if free < FREE_BYTES_MIN:
            raise TryAgain(f"the disk of {self._home} has {free // 1024:,} KiB left", "free some")
