"""A folder on a real server with files in it, and our connections to that server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from headrace.testing.rig.ftp import FtpFolder
from headrace.testing.rig.sftp import SftpServer
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.errors import FolderMissing
from headrace_pm.ftp.names import bytes_of_path
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.ftp.sessions.file_session import FileSession
from headrace_pm.ftp.settings import FtpSettings
from headrace_pm.ftp.stamps import Stamp

# As the text has it. OpenSSH has no cage, and there a path without its first slash begins in the same place.
PATH = "/Access/5G/Others/"
PASSWORD = {"PM_TEST_PASSWORD": "rig"}
QUICK = FtpSettings(
    downloads=4, ftp_connect_s=5.0, ftp_answer_s=5.0, ftp_data_s=5.0, settle_s=0.0, environment=PASSWORD
)


@dataclass
class World:
    """One server, one folder, and the pools of one process."""

    site: FtpFolder
    settings: FtpSettings
    row: FileServer
    folder: ServerFolder
    pools: ServerPools
    path: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.path = bytes_of_path(self.folder.path)

    @property
    def pool(self) -> ServerPool:
        return self.pools.pool_of(self.row)

    @property
    def disk(self) -> Path:
        """The folder as the server's own disk has it."""
        return self.site.files / PATH.strip("/")

    def put(self, name: str | bytes, content: bytes = b"content", modified: float | None = None) -> bytes:
        """A file in the folder; its path for a client."""
        raw = os.fsencode(name)
        path = os.path.join(os.fsencode(self.disk), raw)
        with open(path, "wb") as file:
            file.write(content)
        self.site.hand_over(Path(os.fsdecode(path)))
        if modified is not None:
            os.utime(path, (modified, modified))
        return self.at(raw)

    def at(self, name: str | bytes) -> bytes:
        return self.path.rstrip(b"/") + b"/" + os.fsencode(name)

    def names(self, below: str = "") -> set[str]:
        """The files on the server's disk."""
        return {path.name for path in (self.disk / below).iterdir() if path.is_file()}

    def make(self, below: str = "") -> None:
        """Make the folder, or one below it, as its owner."""
        path = self.site.files
        for part in (PATH.strip("/") + "/" + below).strip("/").split("/"):
            path = path / part
            path.mkdir(exist_ok=True)
            self.site.hand_over(path)


def row_of(site: FtpFolder, scheme: str = "", reference: str = "env:PM_TEST_PASSWORD", port: int = 0) -> FileServer:
    scheme = scheme or ("sftp://" if isinstance(site, SftpServer) else "")
    # A certificate names a host and not an address.
    host = "localhost" if scheme.startswith("ftp") else "127.0.0.1"
    return FileServer.of_row("5GA", f"{scheme}{host}", port or site.port, "rig", reference)


@asynccontextmanager
async def world(
    site: FtpFolder, settings: FtpSettings = QUICK, scheme: str = "", port: int = 0
) -> AsyncIterator[World]:
    """The folder is empty, and connections are closed at the end."""
    if isinstance(site, SftpServer):
        settings = replace(settings, sftp_known_hosts=site.known_hosts)
    row = row_of(site, scheme, port=port)
    path = PATH.lstrip("/") if isinstance(site, SftpServer) else PATH
    made = World(site, settings, row, ServerFolder(row.system_type, row.key, path), ServerPools(settings))
    made.make()
    try:
        yield made
    finally:
        await made.pools.close()


@contextmanager
def started_with(server: FtpFolder, settings: Mapping[str, str]) -> Iterator[None]:
    """For the block the server has these settings, and afterwards none."""
    server.stop()
    server.start(settings)
    try:
        yield
    finally:
        server.restart()


Meddle = Callable[[str, str], None]


class MeddledSession:
    """A connection beside which something happens: `meddle("before" | "after", verb)` at every command."""

    def __init__(self, session: FileSession, meddle: Meddle) -> None:
        self._session, self._meddle = session, meddle

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._session, verb)

        async def call(*given: Any) -> Any:
            self._meddle("before", verb)
            answer = await real(*given)
            self._meddle("after", verb)
            return answer

        return call


class MeddledPool(ServerPool):
    """A pool whose connections are all meddled with."""

    def __init__(self, pool: ServerPool, meddle: Meddle) -> None:
        super().__init__(pool.name, pool._open_session)
        self._meddle = meddle

    @asynccontextmanager
    async def session(self, lane: ServerLane) -> AsyncIterator[FileSession]:
        async with super().session(lane) as lent:
            yield cast("FileSession", MeddledSession(lent, self._meddle))


class BlindSession:
    """The twin of a connection: a folder that is missing is an empty one."""

    def __init__(self, session: FileSession) -> None:
        self._session = session

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._session, verb)
        if verb != "listing":
            return real

        async def listing(folder: bytes) -> Any:
            try:
                return await real(folder)
            except FolderMissing:
                return None

        return listing


class BlindPool(ServerPool):
    """A pool whose connections are all blind."""

    def __init__(self, pool: ServerPool) -> None:
        super().__init__(pool.name, pool._open_session)

    @asynccontextmanager
    async def session(self, lane: ServerLane) -> AsyncIterator[FileSession]:
        async with super().session(lane) as lent:
            yield cast("FileSession", BlindSession(lent))


@dataclass
class MemoryRegister:
    """The table of files, in memory: what is registered and not moved."""

    rows: dict[str, Stamp] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    async def unknown(self, folder: ServerFolder, names: Sequence[str]) -> set[str]:
        self.asked.append(len(names))
        return set(names) - set(self.rows)

    async def unmoved(self, folder: ServerFolder) -> AsyncIterator[Sequence[str]]:
        names = list(self.rows)
        for first in range(0, len(names), 100):
            yield names[first : first + 100]

    async def stamps(self, folder: ServerFolder, names: Sequence[str]) -> Mapping[str, Stamp]:
        return {name: self.rows[name] for name in names if name in self.rows}
