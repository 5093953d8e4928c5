"""Both ends of a connection through a proxy in one hand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.testing.rig.proxy import Proxy

WAIT_S = 60.0
SILENCE_S = 0.15
MEGA = 1_000_000


class Ends:
    """A listening server, the proxy before it, and every socket that was opened."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.proxy = Proxy(f"tcp://127.0.0.1:{self.listener.getsockname()[1]}")
        self.sockets = [self.listener]

    def call(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.proxy.port), WAIT_S)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sockets.append(client)
        return client

    def accept(self) -> socket.socket:
        self.listener.settimeout(WAIT_S)
        server = self.listener.accept()[0]
        server.settimeout(WAIT_S)
        self.sockets.append(server)
        return server

    def pair(self) -> tuple[socket.socket, socket.socket]:
        return self.call(), self.accept()


@contextmanager
def both_ends() -> Iterator[Ends]:
    ends = Ends()
    with ends.proxy:
        yield ends
    for each in ends.sockets:
        each.close()


def take(receiver: socket.socket, count: int) -> bytes:
    taken = bytearray()
    while len(taken) < count and (piece := receiver.recv(count - len(taken))):
        taken += piece
    return bytes(taken)


def take_all(receiver: socket.socket) -> tuple[bytes, str]:
    """Everything that comes, and how it ended."""
    taken = bytearray()
    try:
        while piece := receiver.recv(1 << 16):
            taken += piece
    except ConnectionResetError:
        return bytes(taken), "reset"
    return bytes(taken), "close"


def is_silent(receiver: socket.socket) -> bool:
    receiver.settimeout(SILENCE_S)
    try:
        receiver.recv(1)
    except TimeoutError:
        return True
    finally:
        receiver.settimeout(WAIT_S)
    return False


class Sending(threading.Thread):
    """Sends in the background, and keeps what went wrong with it."""

    def __init__(self, sender: socket.socket, data: bytes) -> None:
        super().__init__()
        self._sender = sender
        self._data = data
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        try:
            self._sender.sendall(self._data)
        except OSError as error:
            self.error = error
