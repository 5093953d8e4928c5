"""Where clients come in: a listening socket that can be closed and opened again on its port.

asyncio's own server loses a connection that is accepted in the moment it is closed: nobody ever closes that socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

BACKLOG = 1024


class Entrance:
    """Open or closed; whoever comes in while it is open gets a protocol of its own."""

    def __init__(self, host: str, port: int, welcome: Callable[[], asyncio.Protocol]) -> None:
        self._address = (host, port)
        self._welcome = welcome
        self._listener: socket.socket | None = None
        self._coming: set[asyncio.Task[object]] = set()

    @property
    def is_open(self) -> bool:
        return self._listener is not None

    def open(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(self._address, backlog=BACKLOG)
            self._listener.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def close(self) -> None:
        """From now on clients are refused."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def settle(self) -> None:
        """Until all who were let in have got their protocol."""
        await asyncio.gather(*self._coming, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            # The client has thought better of it.
            return
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        coming = asyncio.ensure_future(loop.connect_accepted_socket(self._welcome, connection))
        self._coming.add(coming)
        coming.add_done_callback(self._coming.discard)
