"""Pools of connections, one per server, made when a server is first spoken to."""

from __future__ import annotations

import ssl
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from headrace_pm.ftp.errors import PasswordMissing
from headrace_pm.ftp.pool import Opener, ServerLane, ServerPool
from headrace_pm.ftp.servers import FileServer, WireProtocol
from headrace_pm.ftp.sessions.conversation import Conversation, Timeouts
from headrace_pm.ftp.sessions.file_session import FileSession, FtpSession
from headrace_pm.ftp.settings import FtpSettings


class ServerPools:
    """The pools of all servers of this process."""

    def __init__(self, settings: FtpSettings) -> None:
        self._settings = settings
        self._pools: dict[FileServer, ServerPool] = {}
        self._threads: dict[FileServer, ThreadPoolExecutor] = {}

    def pool_of(self, server: FileServer) -> ServerPool:
        """The pool of a server. One whose row changed, its password's reference too, is another server."""
        if server not in self._pools:
            is_sftp = server.protocol is WireProtocol.SFTP
            opener = self._sftp_opener(server) if is_sftp else self._ftp_opener(server)
            self._pools[server] = ServerPool(server.key, opener, self._settings.downloads)
        return self._pools[server]

    def pools(self) -> list[ServerPool]:
        """Those that were asked for so far."""
        return list(self._pools.values())

    async def keep_only(self, servers: Collection[FileServer]) -> None:
        """End the connections to servers that are not in the table any more, or not as they were."""
        for server in [each for each in self._pools if each not in servers]:
            await self._pools.pop(server).close()
            threads = self._threads.pop(server, None)
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)

    async def close(self) -> None:
        """End all connections."""
        await self.keep_only(())

    def _ftp_opener(self, server: FileServer) -> Opener:
        settings = self._settings
        # Listing and moving have a thread each, as they have a connection each.
        threads = ThreadPoolExecutor(settings.downloads + len(ServerLane) - 1, f"ftp-{server.key}")
        self._threads[server] = threads
        timeouts = Timeouts(settings.ftp_connect_s, settings.ftp_answer_s, settings.ftp_data_s)

        # Loading all authorities of a machine takes longer than a login, so it is done once, and not for plain FTP.
        context = (
            None if server.protocol is WireProtocol.FTP else ssl.create_default_context(cafile=settings.ftp_ca_file)
        )

        async def opened() -> FileSession:
            secret = server.password.reveal(settings.environment)
            if secret.is_key:
                words = f"{server.key}: {server.password} holds a private key"
                raise PasswordMissing(words, "FTP takes a password; a key is for a host that is written as sftp://HOST")
            session = FtpSession(Conversation(server, secret, timeouts, context), threads)
            try:
                await session.open()
            except BaseException:
                await session.close()
                raise
            return session

        return opened

    def _sftp_opener(self, server: FileServer) -> Opener:
        # Only who has such a server needs the library.
        from headrace_pm.ftp.sessions.sftp import open_sftp

        return partial(open_sftp, server, self._settings)
