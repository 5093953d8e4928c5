"""Serving an application inside a loop that is running already, for as long as a block runs.

Signals stay with the program: it leaves the block when it has had enough, and the end takes less than three seconds,
whatever clients do. Streams are told to end, answers that have begun may finish, the rest is cut.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette

from headrace.core.errors import PortTaken
from headrace.http.options import Options

STOP_S_MAX = 2
HEADER_BYTES_MAX = 32_768
# Longer than clients keep a connection that rests (httpx: 5 s). Who sends at the moment in which the server closes
# gets no answer, and does not know whether a POST was taken.
KEEP_ALIVE_S = 75
_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class Served:
    """Where an application answers."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[Served]:
    """Answer on the address of the application's options while the block runs; port 0 is any that is free. Leaves the
    block with an error if the server fails."""
    options: Options = app.state.options
    listening = _listen(options.host, options.port)
    served = Served(options.host, listening.getsockname()[1])
    server = _Server(_config(app))
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await _started(server, running)
        yield served
    finally:
        app.state.streams.stopping.set()
        server.should_exit = True
        await running
        for connection in list(server.server_state.connections):
            # A client that takes nothing would keep its connection for as long as this process lives.
            connection.transport.abort()
        listening.close()


class _Server(uvicorn.Server):
    """Tells when it listens, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S_MAX,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )


async def _started(server: _Server, running: asyncio.Future[None]) -> None:
    listens = asyncio.ensure_future(server.listens.wait())
    ends: set[asyncio.Future[Any]] = {listens, running}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    listens.cancel()
    if running.done():
        running.result()


def _listen(host: str, port: int) -> socket.socket:
    """Bound before anything else happens, so that a taken port is told in words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise PortTaken(
            f"cannot listen on {host} port {port}: {error}", "choose another port, or 0 for any that is free"
        ) from None
