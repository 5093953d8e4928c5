"""A small web site inside the test's own loop: pages by path, and a note of every request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class Reply:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False


@dataclass(slots=True)
class Request:
    path: str
    headers: dict[str, str]
    at: float


@dataclass(slots=True)
class Site:
    """`pages` answers by path and query, `routes` by path alone; what is not there is 404. A function may answer
    differently each time."""

    url: str = ""
    pages: dict[str, Reply | Callable[[Request], Reply]] = field(default_factory=dict)
    routes: dict[str, Callable[[Request], Reply]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def asked(self) -> list[str]:
        return [request.path for request in self.requests if request.path != "/robots.txt"]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            request = Request(head[0].split(" ")[1], headers, asyncio.get_running_loop().time())
            self.requests.append(request)
            nothing = self.routes.get(request.path.partition("?")[0], Reply(b"there is nothing", 404))
            page = self.pages.get(request.path, nothing)
            reply = page if isinstance(page, Reply) else page(request)
            lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in reply.headers.items())]
            lines += [f"Content-Length: {len(reply.body)}", "Connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + reply.body)
            await writer.drain()
            if reply.hangs:
                await reader.read()
        writer.close()


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.answer, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield site
