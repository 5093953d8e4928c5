"""Looks at the folders of all servers, and gives what is ready its row: the table first, then Redis.

Servers are looked at side by side, the folders of one in turn. One that answers slowly has its look to itself: the
others are looked at again when it is time, and it when its look has ended.
"""

from __future__ import annotations

import asyncio

import structlog

from headrace.errors import HeadraceError
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.gate import ReadyGate
from headrace_pm.ftp.scanner import FolderScanner
from headrace_pm.ftp.seen import SeenNames
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.settings import PmSettings
from headrace_pm.tables.register import FileTable
from headrace_pm.work.events import PipelineEvents
from headrace_pm.work.network_tables import ServedFolders, ServerDirectory

log = structlog.get_logger("headrace_pm.work")


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
    ) -> None:
        self._settings, self._servers, self._pools = settings, servers, pools
        self._files, self._seen, self._events = files, seen, events
        self._scanners: dict[tuple[FileServer, ServerFolder], FolderScanner] = {}
        self._looks: dict[FileServer, asyncio.Task[None]] = {}
        self._failing: dict[ServerFolder, str] = {}

    async def round(self) -> None:
        """One look at every server that is not being looked at. Waits for those that end in time."""
        served = await self._servers.read()
        await self._pools.keep_only([each.server for each in served])
        wanted = {(each.server, folder) for each in served for folder in each.folders}
        self._scanners = {key: scanner for key, scanner in self._scanners.items() if key in wanted}
        for each in served:
            if each.server not in self._looks:
                self._looks[each.server] = asyncio.ensure_future(self._look_at(each))
        if self._looks:
            await asyncio.wait(self._looks.values(), timeout=self._settings.scan_interval_s)
        ended = [self._looks.pop(server) for server, look in list(self._looks.items()) if look.done()]
        for look in ended:
            # What a look cannot tell by itself is a fault of ours: the loop tells it.
            look.result()

    async def close(self) -> None:
        """End looks that are not over."""
        for look in self._looks.values():
            look.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def _look_at(self, served: ServedFolders) -> None:
        for folder in served.folders:
            try:
                await self._look(served.server, folder)
            except HeadraceError as error:
                self._events.scan_failed(folder)
                if self._failing.get(folder) != str(error):
                    log.warning("scan.failed", server=folder.server_key, path=folder.path, error=str(error))
                self._failing[folder] = str(error)
            else:
                if self._failing.pop(folder, ""):
                    log.info("scan.recovered", server=folder.server_key, path=folder.path)

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
        self._events.scanned(folder, scanned)
