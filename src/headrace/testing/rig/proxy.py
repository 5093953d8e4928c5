"""A small TCP proxy that cuts a connection at the worst moment: before a request arrives, or after it did and before
its reply is seen. It runs on the event loop of the test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

PIECE = 65_536


class Proxy:
    """Stands before one server. Each cut happens once; later connections pass."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._before: bytes | None = None
        self._reply: bytes | None = None
        self._streams: set[asyncio.StreamWriter] = set()
        self.cuts = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, url: str) -> AsyncIterator[Proxy]:
        """A proxy before the server of this URL; `url` is how to reach the server through it."""
        proxy = cls(url)
        proxy._server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        try:
            yield proxy
        finally:
            proxy._server.close()
            for stream in list(proxy._streams):
                stream.close()

    @property
    def url(self) -> str:
        assert self._server is not None, "the proxy is not open"
        host, port = self._server.sockets[0].getsockname()[:2]
        user = f"{self._target.username}@" if self._target.username else ""
        return self._target._replace(netloc=f"{user}{host}:{port}").geturl()

    def cut_before(self, pattern: bytes) -> None:
        """The next request with this pattern is not passed on: both sides see a broken connection."""
        self._before = pattern

    def cut_reply_to(self, pattern: bytes) -> None:
        """The next request with this pattern is passed on; when its reply comes, the connection breaks instead."""
        self._reply = pattern

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._streams |= {writer, to_there}
        passes = asyncio.Event()
        passes.set()
        back = asyncio.ensure_future(self._back(there, writer, passes))
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(PIECE):
                if self._before is not None and self._before in data:
                    self._before, self.cuts = None, self.cuts + 1
                    break
                if self._reply is not None and self._reply in data:
                    self._reply, self.cuts = None, self.cuts + 1
                    passes.clear()
                to_there.write(data)
        for stream in (to_there, writer):
            stream.close()
        self._streams -= {writer, to_there}
        await back

    async def _back(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await there.read(PIECE):
                if not passes.is_set():
                    break
                writer.write(data)
        writer.close()
