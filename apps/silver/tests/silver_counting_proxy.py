"""A proxy that reads the messages a PostgreSQL client sends, and can call somebody instead of passing one on.

It counts what makes the server do something: a simple query, the execution of a statement, a synchronisation. Both
sides are cut when the chosen one is reached (by its number, or the first with a text), so the server never sees it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

STATEMENTS = b"QES"


class CountingProxy:
    """For one connection after another. `seen` counts since the proxy was made."""

    def __init__(self, url: str, stop_at: int | bytes | None = None, stop: Callable[[], None] = lambda: None) -> None:
        self._target = urlsplit(url)
        self._stop_at, self._stop = stop_at, stop
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.seen = 0
        self.stopped = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        port = self._listener.getsockname()[1]
        where = self._target._replace(netloc=f"{self._target.username}@127.0.0.1:{port}").geturl()
        return f"{where}{'&' if self._target.query else '?'}sslmode=disable&gssencmode=disable"

    def cut(self) -> None:
        """End the connections that are open; new ones are taken."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._target.hostname, self._target.port))
                self._sockets += [client, server]
                for work in (self._requests, self._replies):
                    thread = threading.Thread(target=work, args=(client, server), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        # The first message has no type, only a length.
        with suppress(OSError, EOFError):
            size = _exactly(client, 4)
            server.sendall(size + _exactly(client, int.from_bytes(size, "big") - 4))
            while True:
                head = _exactly(client, 5)
                message = head + _exactly(client, int.from_bytes(head[1:], "big") - 4)
                if self._is_the_one(message):
                    self._stop()
                    self.stopped.set()
                    break
                server.sendall(message)
        for one in (server, client):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _is_the_one(self, message: bytes) -> bool:
        self.seen += message[:1] in STATEMENTS
        if isinstance(self._stop_at, bytes):
            return self._stop_at in message and not self.stopped.is_set()
        return message[:1] in STATEMENTS and self.seen == self._stop_at

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, size: int) -> bytes:
    pieces = b""
    while len(pieces) < size:
        piece = source.recv(size - len(pieces))
        if not piece:
            raise EOFError
        pieces += piece
    return pieces
