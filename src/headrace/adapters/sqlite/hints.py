"""Cross-process wake-up: every process that has the store open listens on a datagram socket beside it.

A ring is one byte to each socket in the directory. Nothing depends on it: a ring that is lost costs a poll.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

SOCKET_PATH_MAX = 100


class Hints:
    def __init__(self, store_path: str, hear: Callable[[], None]) -> None:
        self._folder = Path(f"{store_path}-wake")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._name = f"{os.getpid()}-{id(self):x}"
        self._hear = hear
        self._closing = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder / self._name)
        self._socket.bind(self._address(self._name))
        self._outgoing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._outgoing.setblocking(False)
        self._thread = threading.Thread(target=self._listen, name="headrace-hints", daemon=True)
        self._thread.start()

    def ring(self) -> None:
        """Tell the other processes; those that are gone are forgotten."""
        for name in os.listdir(self._folder):
            if name != self._name:
                self._tell(name)

    def close(self) -> None:
        self._closing = True
        self._tell(self._name)
        self._thread.join(timeout=2)
        for opened in (self._socket, self._outgoing):
            opened.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder / self._name)
        os.close(self._handle)

    def _tell(self, name: str) -> None:
        try:
            self._outgoing.sendto(b"!", self._address(name))
        except BlockingIOError:
            return  # it has rings to hear already
        except ConnectionRefusedError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._folder / name)
        except OSError:
            return

    def _address(self, name: str) -> str:
        return _address(self._folder, self._handle, name)

    def _listen(self) -> None:
        while not self._closing:
            try:
                self._socket.recv(16)
            except OSError:
                return
            if not self._closing:
                self._hear()


def stale(store_path: str) -> tuple[int, int]:
    """How many sockets are beside a store, and how many of them nobody listens on any more. Rings nobody."""
    folder = Path(f"{store_path}-wake")
    if not folder.is_dir():
        return 0, 0
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        names = os.listdir(handle)
        return len(names), sum(_is_deaf(_address(folder, handle, name)) for name in names)
    finally:
        os.close(handle)


def _is_deaf(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _address(folder: Path, handle: int, name: str) -> str:
    """Socket addresses are short; a long path is reached through the open directory."""
    path = str(folder / name)
    return path if len(path) < SOCKET_PATH_MAX else f"/proc/self/fd/{handle}/{name}"
