"""Wake-ups between processes: NOTIFY after the commit, on a connection of its own, at most once in a while.

A NOTIFY inside a settlement would make all settlements of the database commit one after another. A lost ring costs a
poll, so the notifying connection does not wait for its commits to reach the disk.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

import psycopg

from headrace.adapters.connection_lanes import STOP_S_MAX
from headrace.adapters.postgres.connections import Connection, connect
from headrace.core.errors import HeadraceError

CHANNEL = "headrace"
RING_EVERY_S = 0.005
RECONNECT_S = 1.0


class Notifications:
    """Who wants to hear rings in this process, and the two threads that carry them to and from the others."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._rings: dict[object, Callable[[], None]] = {}
        self._name = f"{socket.gethostname()}.{os.getpid()}.{id(self):x}"
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._ringer: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        self._listening: Connection | None = None

    def ring(self) -> None:
        """Work became available: wake this process now and the others soon."""
        self._ring_here()
        self._wanted.set()
        with self._lock:
            if self._ringer is None and not self._stopping.is_set():
                self._ringer = threading.Thread(target=self._carry_out, name="headrace-postgres-ring", daemon=True)
                self._ringer.start()

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._rings[key] = ring
        with self._lock:
            if self._listener is None and not self._stopping.is_set():
                self._listener = threading.Thread(target=self._carry_in, name="headrace-postgres-wake", daemon=True)
                self._listener.start()
        return lambda: self._rings.pop(key, None) and None

    def close(self) -> None:
        self._stopping.set()
        self._wanted.set()
        with self._lock:
            threads, listening = (self._ringer, self._listener), self._listening
        if listening is not None:
            _interrupt(listening)
        for thread in threads:
            if thread is not None:
                thread.join(STOP_S_MAX)

    def _ring_here(self) -> None:
        for ring in list(self._rings.values()):
            ring()

    def _carry_out(self) -> None:
        connection: Connection | None = None
        while self._wanted.wait() and not self._stopping.is_set():
            self._wanted.clear()
            try:
                connection = connection or connect(self._url, "-c synchronous_commit=off")
                connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, self._name))
            except (psycopg.Error, HeadraceError):
                _close(connection)
                connection = None
                self._stopping.wait(RECONNECT_S)
            # Whatever becomes available in the meantime is one more ring, not one per settlement.
            self._stopping.wait(RING_EVERY_S)
        _close(connection)

    def _carry_in(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect(self._url) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    with self._lock:
                        self._listening = connection
                    # Nothing was heard while there was no connection.
                    self._ring_here()
                    self._listen(connection)
            except (psycopg.Error, HeadraceError, OSError):
                self._stopping.wait(RECONNECT_S)
            finally:
                with self._lock:
                    self._listening = None

    def _listen(self, connection: Connection) -> None:
        if self._stopping.is_set():
            return
        for notice in connection.notifies():
            if self._stopping.is_set():
                return
            if notice.payload != self._name:
                self._ring_here()


def _close(connection: Connection | None) -> None:
    if connection is not None:
        connection.close()


def _interrupt(connection: Connection) -> None:
    """End a wait for notifications from another thread: the socket is shut, and the waiting thread closes it."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
