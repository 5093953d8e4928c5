"""The database that programs use: one writer thread per process, many pieces of work per commit.

The thread owns the write connection. It takes everything that is queued, renewals first, runs each piece behind a
savepoint, and answers after the one commit. Writers of several processes queue on a side file's lock before they begin,
because waiting for SQLite's own lock means polling for it; the side file says who holds it since when, so that a
supervisor can kill a child that froze inside a write.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import apsw

from headrace.adapters.sqlite import guard
from headrace.adapters.sqlite.connections import MEMORY, SURROUNDINGS, connect, translated
from headrace.adapters.sqlite.database import WakeListeners, Work
from headrace.adapters.sqlite.file_watch import FileWatch, close_watched
from headrace.adapters.sqlite.hints import Hints
from headrace.core.errors import Unreachable
from headrace.ports.seams import Clock

T = TypeVar("T")
Connect = Callable[[str, bool], apsw.Connection]
COMMIT_WORKS_MAX = 256


class Piece:
    """A queued piece of work and its future answer."""

    __slots__ = ("answer", "error", "future", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()
        self.answer: Any = None
        self.error: BaseException | None = None


class ConnectionThread:
    """A thread that owns a connection and runs batches of queued pieces on it."""

    def __init__(self, name: str, run: Callable[[list[Piece]], None], finish: Callable[[], None]) -> None:
        self._urgent: deque[Piece] = deque()
        self._queued: deque[Piece] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._run = run
        self._finish = finish
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Work[T], urgent: bool = False) -> Future[T]:
        piece = Piece(work)
        with self._changed:
            if self._closing:
                raise Unreachable("the store is closed")
            (self._urgent if urgent else self._queued).append(piece)
            self._changed.notify()
        return piece.future

    def close(self) -> None:
        """What is queued is still done."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _take(self) -> list[Piece]:
        with self._changed:
            while not (self._urgent or self._queued or self._closing):
                self._changed.wait()
            pieces: list[Piece] = []
            for source in (self._urgent, self._queued):
                while source and len(pieces) < COMMIT_WORKS_MAX:
                    pieces.append(source.popleft())
            return pieces

    def _loop(self) -> None:
        while pieces := self._take():
            self._run(pieces)
            for piece in pieces:
                _answer(piece)
        self._finish()


def _answer(piece: Piece) -> None:
    if not piece.future.set_running_or_notify_cancel():
        return
    if piece.error is not None:
        piece.future.set_exception(piece.error)
    else:
        piece.future.set_result(piece.answer)


class ThreadedDatabase(WakeListeners):
    """A file shared by processes, or a database in memory that belongs to this handle.

    `connector` opens it: the first time, with True, it may make what is missing. Without `hinted` nobody hears rings
    of other processes.
    """

    def __init__(self, path: str, clock: Clock, connector: Connect = connect, hinted: bool = True) -> None:
        super().__init__()
        self._path = path
        self._clock = clock
        self._on_disk = path != MEMORY
        self._write_connection = connector(path, True)
        self._read_connection = connector(path, False) if self._on_disk else self._write_connection
        self._files = FileWatch(*((path, f"{path}-wal") if self._on_disk else ()))
        self._lock_file = os.open(f"{path}-writer", os.O_RDWR | os.O_CREAT, 0o600) if self._on_disk else -1
        self._hints = Hints(path, super().ring) if self._on_disk and hinted else None
        self._closed = False
        if self._on_disk:
            guard.opened(path)
        self._writer = ConnectionThread(
            "headrace-writer", self._commit, lambda: close_watched(self._write_connection, self._files)
        )
        self._reader = (
            ConnectionThread("headrace-reader", self._look, lambda: close_watched(self._read_connection, self._files))
            if self._on_disk
            else self._writer
        )

    @classmethod
    async def open(cls, path: str, clock: Clock) -> ThreadedDatabase:
        return await asyncio.to_thread(cls, path, clock)

    async def write(self, work: Work[T]) -> T:
        return await asyncio.wrap_future(self._writer.put(work))

    def write_blocking(self, work: Work[T]) -> T:
        return self._writer.put(work, urgent=True).result()

    async def read(self, work: Work[T]) -> T:
        return await asyncio.wrap_future(self._reader.put(work))

    def ring(self) -> None:
        super().ring()
        if self._hints is not None and not self._closed:
            self._hints.ring()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        if self._on_disk:
            self._reader.close()
            os.close(self._lock_file)
            guard.closed(self._path)
        if self._hints is not None:
            self._hints.close()

    def _commit(self, pieces: list[Piece]) -> None:
        """All pieces in one commit. A piece that fails leaves no trace and does not disturb the others."""
        connection = self._write_connection
        try:
            self._lock()
            self._files.check()
            connection.execute("BEGIN IMMEDIATE")
            for piece in pieces:
                self._try(piece, alone=len(pieces) == 1)
            if connection.in_transaction:
                connection.execute("COMMIT")
        except BaseException as error:  # the thread must outlive whatever a piece raises
            _roll_back(connection)
            for piece in pieces:
                piece.error = piece.error or translated(error, self._path)
        finally:
            self._unlock()

    def _try(self, piece: Piece, alone: bool) -> None:
        connection = self._write_connection
        if alone:
            piece.answer = piece.work(connection)
            return
        connection.execute("SAVEPOINT piece")
        try:
            piece.answer = piece.work(connection)
        except SURROUNDINGS:
            raise
        except Exception as error:  # whatever it is, it is this piece's own
            piece.error = translated(error, self._path)
            connection.execute("ROLLBACK TO piece")
        connection.execute("RELEASE piece")

    def _look(self, pieces: list[Piece]) -> None:
        """Each piece on a snapshot of its own, held no longer than it takes."""
        connection = self._read_connection
        for piece in pieces:
            try:
                self._files.check()
                connection.execute("BEGIN")
                piece.answer = piece.work(connection)
            except BaseException as error:  # the thread must outlive whatever a piece raises
                piece.error = translated(error, self._path)
            finally:
                _roll_back(connection)

    def _lock(self) -> None:
        if self._on_disk:
            take_turn(self._lock_file, self._clock)

    def _unlock(self) -> None:
        if self._on_disk:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)


def take_turn(lock_file: int, clock: Clock) -> None:
    """Wait for the side file's lock, and say there who has it since when."""
    fcntl.flock(lock_file, fcntl.LOCK_EX)
    os.pwrite(lock_file, f"{os.getpid():>10} {clock.monotonic():>20.3f}\n".encode(), 0)


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
