"""SFTP by `asyncssh`, on the event loop: the same session as FTP's, for servers that have only this.

Its rename refuses a target that is there. Paths stay bytes. The key of a host must be known beforehand; it is never
learned from the host itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncssh

from headrace.errors import HeadraceError
from headrace_pm.ftp.errors import (
    CommandRefused,
    FileGone,
    FolderMissing,
    IdentityRefused,
    LoginRefused,
    PasswordMissing,
    RenameUnanswered,
    ServerAway,
    TransferCut,
)
from headrace_pm.ftp.listings import FolderListing
from headrace_pm.ftp.names import joined, shown
from headrace_pm.ftp.passwords import Secret
from headrace_pm.ftp.servers import FileServer
from headrace_pm.ftp.sessions.conversation import BUFFER_BYTES, SAID_MAX, Receive
from headrace_pm.ftp.settings import FtpSettings
from headrace_pm.ftp.stamps import Stamp, exact

KEEPALIVE_S = 30
MISSING = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)
LOST = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.DisconnectError, OSError, TimeoutError)


async def open_sftp(server: FileServer, settings: FtpSettings) -> SftpSession:
    """Connect and log in."""
    secret = server.password.reveal(settings.environment)
    session = SftpSession(server, secret, settings)
    try:
        await session.open()
    except BaseException:
        await session.close()
        raise
    return session


class SftpSession:
    """One SSH connection with one SFTP channel."""

    def __init__(self, server: FileServer, secret: Secret, settings: FtpSettings) -> None:
        self._server, self._secret, self._settings = server, secret, settings
        self._connection: asyncssh.SSHClientConnection | None = None
        self._client: asyncssh.SFTPClient | None = None
        self._home = b"/"

    async def open(self) -> None:
        """Connect and log in with the password or key; no agent, no other key and no configuration of the user's is
        asked."""
        known, keys = self._settings.sftp_known_hosts, self._keys()
        async with self._meaning("connect", self._settings.ftp_connect_s):
            self._connection = await asyncssh.connect(
                self._server.host,
                self._server.port,
                username=self._server.user,
                password=None if keys else self._secret.value,
                known_hosts=str(known) if known else (),
                client_keys=keys,
                agent_path=None,
                config=None,
                preferred_auth="publickey" if keys else "password,keyboard-interactive",
                keepalive_interval=KEEPALIVE_S,
            )
            self._client = await self._connection.start_sftp_client(path_encoding=None)
            self._home = _raw(await self._client.realpath(b"."))

    def _keys(self) -> list[asyncssh.SSHKey] | None:
        if not self._secret.is_key:
            return None
        try:
            return [asyncssh.import_private_key(self._secret.value)]
        except asyncssh.KeyImportError:
            # What it says may quote the key.
            words = f"{self._server.key}: {self._server.password} holds a private key that cannot be read"
            raise PasswordMissing(words, "it has no passphrase, and is whole as ssh-keygen wrote it") from None

    async def listing(self, folder: bytes) -> FolderListing:
        listing = FolderListing()
        async with self._meaning(f"list {shown(folder)}", self._settings.ftp_data_s, missing=FolderMissing):
            async for entry in self._sftp.scandir(self._absolute(folder)):
                name, attributes = _raw(entry.filename), entry.attrs
                if attributes.type == asyncssh.FILEXFER_TYPE_REGULAR:
                    listing.add(name, _stamp(attributes))
                elif attributes.type != asyncssh.FILEXFER_TYPE_DIRECTORY:
                    listing.other_count += 1
                elif name not in (b".", b".."):
                    listing.folder_count += 1
        return listing

    async def facts(self, path: bytes) -> Stamp | None:
        try:
            async with self._meaning(f"look at {shown(path)}", missing=FileGone):
                found = await self._sftp.stat(self._absolute(path))
        except FileGone:
            return None
        return _stamp(found) if found.type == asyncssh.FILEXFER_TYPE_REGULAR else None

    async def retrieve(self, path: bytes, offset: int, receive: Receive) -> None:
        doing, data_s = f"read {shown(path)}", self._settings.ftp_data_s
        async with self._meaning(doing, missing=FileGone, cut=TransferCut):
            file = await self._sftp.open(self._absolute(path), "rb", encoding=None)
        while True:
            async with self._meaning(doing, data_s, missing=FileGone, cut=TransferCut):
                piece = await file.read(BUFFER_BYTES, offset)
            if not piece:
                break
            await asyncio.to_thread(receive, memoryview(_raw(piece)))
            offset += len(piece)
        async with self._meaning(doing, cut=TransferCut):
            await file.close()

    async def rename(self, source: bytes, target: bytes) -> None:
        doing = f"rename {shown(source)} to {shown(target)}"
        async with self._meaning(doing, missing=FileGone, cut=RenameUnanswered):
            await self._sftp.rename(self._absolute(source), self._absolute(target))

    async def make_folder(self, folder: bytes) -> None:
        async with self._meaning(f"make {shown(folder)}", missing=FolderMissing):
            await self._sftp.makedirs(self._absolute(folder), exist_ok=True)

    async def delete(self, path: bytes) -> None:
        async with self._meaning(f"delete {shown(path)}", missing=FileGone):
            await self._sftp.remove(self._absolute(path))

    async def noop(self) -> None:
        async with self._meaning("ask", self._settings.ftp_connect_s):
            await self._sftp.realpath(b".")

    async def close(self) -> None:
        if self._connection is not None:
            # Not awaited: a server that hangs would keep us.
            self._connection.abort()

    @property
    def _sftp(self) -> asyncssh.SFTPClient:
        assert self._client is not None, "it is used behind open"
        return self._client

    def _absolute(self, path: bytes) -> bytes:
        return path if path.startswith(b"/") else joined(self._home, path)

    @contextlib.asynccontextmanager
    async def _meaning(
        self,
        doing: str,
        answer_s: float | None = None,
        missing: type[HeadraceError] = CommandRefused,
        cut: type[HeadraceError] = ServerAway,
    ) -> AsyncIterator[None]:
        where = f"{self._server.key}: {doing}"
        try:
            async with asyncio.timeout(answer_s or self._settings.ftp_answer_s):
                yield
        except TimeoutError:
            raise cut(f"{where}: no answer in time") from None
        except asyncssh.PermissionDenied as error:
            raise LoginRefused(f"{where}: {self._said(error)}") from None
        except asyncssh.HostKeyNotVerifiable as error:
            raise IdentityRefused(f"{where}: {self._said(error)}", "name its key in PM_SFTP_KNOWN_HOSTS") from None
        except MISSING as error:
            raise missing(f"{where}: {self._said(error)}") from None
        except LOST as error:
            raise cut(f"{where}: {self._said(error)}") from None
        except asyncssh.Error as error:
            raise CommandRefused(f"{where}: {self._said(error)}") from None

    def _said(self, error: Exception) -> str:
        return shown(self._secret.removed_from(str(error)), SAID_MAX) or type(error).__name__


def _raw(found: str | bytes) -> bytes:
    return found if isinstance(found, bytes) else found.encode("utf-8", "surrogateescape")


def _stamp(attributes: asyncssh.SFTPAttrs) -> Stamp:
    if attributes.mtime is None:
        return Stamp(attributes.size or 0)
    moment = datetime.fromtimestamp(attributes.mtime, UTC)
    return Stamp(attributes.size or 0, exact(f"{moment:%Y%m%d%H%M%S}"))
