"""Servers, folders and dictionaries as the tables have them now. Operators change them by SQL while we run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from headrace.errors import CallerError
from headrace.tables import OpenTables
from headrace_pm.counters.dictionary import DictionaryRows, NetworkDictionary
from headrace_pm.ftp.names import ascii_text, bytes_of_path
from headrace_pm.ftp.servers import FileServer, ServerFolder

# Files of an element that nobody knows may come by the hundred, and each asks once more.
READ_AGAIN_S = 1.0
log = structlog.get_logger("headrace_pm.work")


@dataclass(frozen=True, slots=True)
class ServedFolders:
    """A server, and its folders in the order of their table."""

    server: FileServer
    folders: tuple[ServerFolder, ...]


class ServerDirectory:
    """The servers of the table `ftp_server`. A row that cannot work is told of, and the others count."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables
        self._found: tuple[ServedFolders, ...] = ()
        self.faults: tuple[str, ...] = ()

    async def read(self) -> tuple[ServedFolders, ...]:
        """As the tables have them now."""
        paths = await self._tables.rows("paths_read")
        found, faults = [], []
        for number, system_type, host, port, user, password_ref in await self._tables.rows("servers_read"):
            try:
                server = FileServer.of_row(system_type, host, port, user, password_ref)
            except CallerError as error:
                faults.append(f"ftp_server {number}: {error}")
                continue
            folders = []
            for server_id, path in paths:
                if server_id == number:
                    try:
                        folders.append(_folder(server, path))
                    except CallerError as error:
                        faults.append(f"ftp_path of server {number}: {error}")
            found.append(ServedFolders(server, tuple(dict.fromkeys(folders))))
        if self.faults != tuple(faults):
            for fault in faults:
                log.warning("server.refused", error=fault)
        self._found, self.faults = tuple(found), tuple(faults)
        return self._found

    async def server_of(self, system_type: str, key: str) -> FileServer | None:
        """The server with this key; the table is asked again if none is known."""
        found = self._known(system_type, key)
        if found is None:
            await self.read()
            found = self._known(system_type, key)
        return found

    def _known(self, system_type: str, key: str) -> FileServer | None:
        servers = (each.server for each in self._found)
        return next((one for one in servers if (one.system_type, one.key) == (system_type, key)), None)


def _folder(server: FileServer, path: str) -> ServerFolder:
    text = ascii_text(path)
    bytes_of_path(text)
    return ServerFolder(server.system_type, server.key, text)


class Dictionaries:
    """The dictionaries of the tables, for files that begin now. One that has not changed stays the same object.

    What an import brought counts from its end on: a file that was read by older ones would lack counters, and be done.
    """

    def __init__(self, tables: OpenTables, now: Callable[[], float] = time.monotonic) -> None:
        self._tables, self._now = tables, now
        self._rows: DictionaryRows | None = None
        self._current = NetworkDictionary(DictionaryRows())
        self._read_at = 0.0
        self._import = 0
        self._reading = asyncio.Lock()

    async def current(self) -> NetworkDictionary:
        newest = await self._newest_import()
        if self._rows is None or newest > self._import:
            await self.read(newest)
        return self._current

    async def read(self, wanted: int | None = None) -> bool:
        """Read the tables, unless somebody has read the wanted import meanwhile; whether they have changed."""
        async with self._reading:
            if wanted is not None and self._rows is not None and wanted <= self._import:
                return False
            began, newest = self._now(), await self._newest_import()
            rows = DictionaryRows(
                {name: number for number, name in await self._tables.rows("elements_read")},
                {(counter, str(level)): group for counter, level, group in await self._tables.rows("counters_read")},
                {code: str(level) for code, level in await self._tables.rows("levels_read")},
                dict(await self._tables.rows("functions_read")),
            )
            self._read_at = began
            if rows == self._rows:
                self._import = newest
                return False
            if self._rows is not None:
                log.info("dictionary.changed", elements=len(rows.ne), counters=len(rows.counter_cat))
            self._current = await asyncio.to_thread(NetworkDictionary, rows)
            self._rows, self._import = rows, newest
            return True

    async def _newest_import(self) -> int:
        return max((number for (number,) in await self._tables.rows("newest_import")), default=0)

    async def newest(self) -> NetworkDictionary:
        """As the tables have them now; for whoever missed something in the current ones."""
        asked_at = self._now()
        if asked_at - self._read_at >= READ_AGAIN_S:
            await self.read()
        return self._current
