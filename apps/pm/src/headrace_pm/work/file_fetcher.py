"""From a row of the table to a whole file in the spool, whichever server has it and wherever it is by now."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace_pm.ftp.completeness import check_frame
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.downloads import Downloader
from headrace_pm.ftp.errors import FileChanged, FileGone, FolderMissing, SpoolFull, SpoolUnusable
from headrace_pm.ftp.mover import DONE, INTERMEDIATE
from headrace_pm.ftp.names import bytes_of_name, bytes_of_path, joined
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.spool import Spool, SpooledFile
from headrace_pm.tables.file_claims import HeldFile
from headrace_pm.work.disappearances import Disappearances, FolderEmptied
from headrace_pm.work.file_outcomes import NOT_WHOLE_S, FileWaits, end_of, is_not_ready
from headrace_pm.work.network_tables import ServerDirectory
from headrace_pm.work.outages import OutageClock

SPOOL = "spool"
"""The name of what is away when there is no room."""


def spool_key(file: HeldFile) -> str:
    """Under which a file is in the spool."""
    return f"f{file.file_id}r{file.revision}"


class FileFetcher:
    """Fetches files of all servers into the spool of this process."""

    def __init__(
        self,
        servers: ServerDirectory,
        pools: ServerPools,
        spool: Spool,
        outages: OutageClock,
        disappearances: Disappearances,
    ) -> None:
        self._servers, self._pools, self.spool, self._outages = servers, pools, spool, outages
        self._disappearances = disappearances
        self._downloaders: dict[ServerPool, Downloader] = {}

    async def fetch(self, file: HeldFile) -> SpooledFile:
        """The file in the spool; at once if it is there. `FileWaits` if that is not possible now; what ends a file is
        raised as it is."""
        key = spool_key(file)
        # Who put it into the table by hand did not say how long it is.
        listed = file.stamp if file.stamp.size else None
        found = self.spool.find(key)
        if found is not None and (listed is None or found.stamp.agrees_with(listed)):
            return found
        server = await self._servers.server_of(file.system_type, file.ftp_server_key)
        if server is None:
            words = f"ftp_server has no {file.system_type} server {file.ftp_server_key}"
            raise FileWaits(words, self._outages.failed(file.ftp_server_key))
        try:
            fetched = await self._from_server(server, file, key, listed)
        except HeadraceError as error:
            raise self._meaning(server, file, error) from error
        self._disappearances.passed(_folder(file))
        for name in (server.key, SPOOL, folder_name(_folder(file))):
            self._outages.passed(name)
        return fetched

    async def _from_server(self, server: FileServer, file: HeldFile, key: str, listed: Stamp | None) -> SpooledFile:
        pool = self._pools.pool_of(server)
        if pool not in self._downloaders:
            known = self._pools.pools()
            self._downloaders = {each: made for each, made in self._downloaders.items() if each in known}
            self._downloaders[pool] = Downloader(pool, self.spool, check_frame)
        downloader = self._downloaders[pool]
        folder, name = bytes_of_path(file.ftp_path), bytes_of_name(file.file_name)
        path = bytes_of_name(file.archived_as) if file.archived_as else joined(folder, name)
        try:
            return await downloader.fetch(key, path, listed)
        except FileChanged:
            if not file.was_read:
                raise
            # What was read of it is not here, and nowhere else: its content from now on is what is there now.
            return await downloader.fetch(key, path, None)
        except FileGone:
            # The old system, or an operator, may have moved it meanwhile.
            others = [
                joined(folder, name),
                joined(folder, INTERMEDIATE, name),
                joined(folder, INTERMEDIATE, DONE, name),
            ]
            for other in others:
                if other != path and await _is_there(pool, other, listed):
                    return await downloader.fetch(key, other, listed)
            # If the whole folder is missing, or what was in it, that says nothing of a file: it waits.
            async with pool.session(ServerLane.TRANSFER) as session:
                await session.listing(folder)
            await self._disappearances.judge(pool, _folder(file), file.file_id, ServerLane.TRANSFER)
            raise

    def _meaning(self, server: FileServer, file: HeldFile, error: HeadraceError) -> Exception:
        if is_not_ready(error):
            self._outages.passed(server.key)
            return FileWaits(str(error), NOT_WHOLE_S)
        if isinstance(error, SpoolFull | SpoolUnusable):
            return FileWaits(str(error), self._outages.failed(SPOOL))
        if isinstance(error, FolderMissing | FolderEmptied):
            # Its other folders are well, and would end the outage again and again.
            return FileWaits(str(error), self._outages.failed(folder_name(_folder(file))))
        if error.heals:
            return FileWaits(str(error), self._outages.failed(server.key))
        return end_of(error) or error


def folder_name(folder: ServerFolder) -> str:
    """Of what is away when a folder is, or what was in it."""
    return f"{folder.server_key} {folder.path}"


def _folder(file: HeldFile) -> ServerFolder:
    return ServerFolder(file.system_type, file.ftp_server_key, file.ftp_path)


async def _is_there(pool: ServerPool, path: bytes, listed: Stamp | None) -> bool:
    async with pool.session(ServerLane.TRANSFER) as session:
        found = await session.facts(path)
    return found is not None and (listed is None or found.agrees_with(listed))
