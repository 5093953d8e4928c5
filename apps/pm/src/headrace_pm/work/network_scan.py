"""Looks at the folders of all servers, and gives what is ready its row: the table first, then Redis.

Every server has a pace of its own: its folders in turn, a rest, and again. So one that answers slowly, or not at all,
keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from headrace.errors import HeadraceError
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.gate import ReadyGate
from headrace_pm.ftp.scanner import FolderScanner
from headrace_pm.ftp.seen import SeenNames
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.operators.folder_looks import FolderLooks
from headrace_pm.settings import PmSettings
from headrace_pm.tables.register import FileTable
from headrace_pm.work.events import PipelineEvents
from headrace_pm.work.network_tables import ServedFolders, ServerDirectory

# Every answer of a server has a limit of its own; this is for what nobody has thought of.
LOOK_S_MAX = 600.0
log = structlog.get_logger("headrace_pm.work")


class LookFailed(Exception):
    """A look ended by a fault of ours, and not of a server."""


class NetworkScan:
    """The looks of one process; `seen` is shared with its mover."""

    def __init__(  # noqa: PLR0913
        self,
        settings: PmSettings,
        servers: ServerDirectory,
        pools: ServerPools,
        files: FileTable,
        seen: SeenNames,
        events: PipelineEvents,
        folders: FolderLooks,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings, self._servers, self._pools = settings, servers, pools
        self._files, self._seen, self._events, self._rest = files, seen, events, rest
        self._served: dict[FileServer, ServedFolders] = {}
        self._scanners: dict[tuple[FileServer, ServerFolder], FolderScanner] = {}
        self._looks: dict[FileServer, asyncio.Task[None]] = {}
        self._faults: dict[FileServer, Exception] = {}
        self.folders = folders

    async def round(self) -> None:
        """Begin with servers that are new in the tables, and end with those that are gone. Raises while the looks at
        one of them fail by a fault of ours."""
        served = await self._servers.read()
        await self._pools.keep_only([each.server for each in served])
        wanted = {(each.server, folder) for each in served for folder in each.folders}
        self._scanners = {key: scanner for key, scanner in self._scanners.items() if key in wanted}
        self._served = {each.server: each for each in served}
        self.folders.keep_only({folder for _, folder in wanted})
        self._events.looked_after({folder for _, folder in wanted})
        for server in [each for each in self._looks if each not in self._served]:
            self._looks.pop(server).cancel()
            self._faults.pop(server, None)
        for server in self._served:
            if server not in self._looks or self._looks[server].done():
                self._looks[server] = asyncio.ensure_future(self._keep_looking(server))
        await self.folders.write()
        for server, error in self._faults.items():
            raise LookFailed(f"{server.key}: {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """End all looks."""
        for look in self._looks.values():
            look.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def _keep_looking(self, server: FileServer) -> None:
        while True:
            try:
                await self._look_at(self._served[server])
                self._faults.pop(server, None)
            except Exception as error:  # what a look cannot tell by itself the loop tells, until one has passed
                self._faults[server] = error
            await self._rest(self._settings.scan_interval_s)

    async def _look_at(self, served: ServedFolders) -> None:
        """All folders, whatever became of one of them; what cannot be told of a folder is raised at the end."""
        faults: list[Exception] = []
        for folder in served.folders:
            try:
                async with asyncio.timeout(LOOK_S_MAX):
                    await self._look(served.server, folder)
            except HeadraceError as error:
                self._events.scan_failed(folder)
                if self.folders.failed(folder, error):
                    log.warning("scan.failed", server=folder.server_key, path=folder.path, error=str(error))
            except Exception as error:
                error.add_note(f"folder {folder.path}")
                faults.append(error)
        if faults:
            raise faults[0]

    async def _look(self, server: FileServer, folder: ServerFolder) -> None:
        scanner = self._scanners.get((server, folder))
        if scanner is None:
            gate = ReadyGate(self._settings.settle_s)
            scanner = FolderScanner(folder, self._pools.pool_of(server), self._seen, self._files, gate)
            self._scanners[server, folder] = scanner
        scanned = await scanner.scan()
        ready = (*scanned.new, *scanned.changed)
        if ready:
            became = await self._files.register(folder, ready, self._settings.max_retry)
            await scanner.registered(became.registered)
            log.info(
                "files.registered",
                server=folder.server_key,
                path=folder.path,
                new=len(became.new),
                again=len(became.renewed),
                later=len(became.later),
            )
        before = self.folders.now.get(folder)
        if before is not None and before.error is not None:
            log.info("scan.recovered", server=folder.server_key, path=folder.path)
        self.folders.listed(folder, scanned.listed_count)
        self._events.scanned(folder, scanned)
