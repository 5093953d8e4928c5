"""Threads that own connections, so that the account does not depend on the event loop being quick. For every driver
that blocks.

A lane takes work from a queue, runs it on its connection and answers through a future. A transaction that lost a
deadlock is run again whole; a connection that broke is replaced before the next piece of work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from headrace.core.errors import Busy, HeadraceError, Unreachable

T = TypeVar("T")
C = TypeVar("C")
AGAIN_MAX = 20
STOP_S_MAX = 5.0


class Driver(Protocol[C]):
    """What lanes have to know of a driver. `error` is the class of all that it raises."""

    error: type[Exception]

    def open(self) -> C:
        """A connection that is ready for work, or one of our errors."""

    def close(self, connection: C) -> None: ...

    def fileno(self, connection: C) -> int:
        """Its socket; below zero if it is closed."""

    def is_again(self, error: Exception) -> bool:
        """Whether the whole transaction is simply to be run again."""

    def is_broken(self, connection: C, error: Exception) -> bool:
        """Whether the connection is of no more use."""

    def translate(self, connection: C, error: Exception, write: bool) -> HeadraceError:
        """The error in the words of the tree."""


class ConnectionOwner(Generic[C]):
    """One connection and the thread-safe right to use it; reconnects when it has to."""

    def __init__(self, driver: Driver[C]) -> None:
        self._driver = driver
        self._connection: C | None = None
        self._lock = threading.Lock()
        self._since = float("inf")

    def run(self, work: Callable[[C], T], write: bool) -> T:
        """Run one piece of work; a read is repeated once on a fresh connection before it fails."""
        with self._lock:
            self._since = time.monotonic()
            try:
                return self._run(work, write)
            except Unreachable:
                if write or self._connection is not None:
                    raise
                return self._run(work, write)
            finally:
                self._since = float("inf")

    def cut(self, after_s: float) -> None:
        """Break a connection whose answer has been awaited for longer than that: who waits finds it broken."""
        connection = self._connection
        if connection is not None and time.monotonic() - self._since > after_s:
            with (
                contextlib.suppress(OSError, self._driver.error),
                socket.socket(fileno=os.dup(self._driver.fileno(connection))) as line,
            ):
                line.shutdown(socket.SHUT_RDWR)

    def _run(self, work: Callable[[C], T], write: bool) -> T:
        connection = self._open()
        for _ in range(AGAIN_MAX):
            try:
                return work(connection)
            except self._driver.error as error:
                if self._driver.is_again(error):
                    continue
                found = self._driver.translate(connection, error, write)
                if self._driver.is_broken(connection, error):
                    self._drop()
                raise found from error
        raise Busy("the same rows were fought over too often", "the same call again is right")

    def _open(self) -> C:
        if self._connection is not None and self._hung_up(self._connection):
            # Found before anything is sent: so nothing is unknown.
            self._drop()
        if self._connection is None:
            self._connection = self._driver.open()
        return self._connection

    def _hung_up(self, connection: C) -> bool:
        """Whether the server has said something to a connection that asked nothing: its goodbye, or that it is gone."""
        number = self._driver.fileno(connection)
        if number < 0:
            return True
        line = select.poll()
        line.register(number, select.POLLIN)
        return bool(line.poll(0))

    def _drop(self) -> None:
        if self._connection is not None:
            self._driver.close(self._connection)
            self._connection = None

    def close(self) -> None:
        """Without waiting for a call that hangs: its thread is not worth the wait."""
        if self._lock.acquire(timeout=STOP_S_MAX):
            try:
                self._drop()
            finally:
                self._lock.release()


class _Task(Generic[C, T]):
    __slots__ = ("future", "work", "write")

    def __init__(self, work: Callable[[C], T], write: bool) -> None:
        self.work = work
        self.write = write
        self.future: Future[T] = Future()

    def run(self, owner: ConnectionOwner[C]) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            answer = owner.run(self.work, self.write)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(answer)


class ConnectionLanes(Generic[C]):
    """A few owners that share one queue. With `answer_s_max` a connection that has not answered for so long is cut: a
    network that swallows packets tells nobody, and neither does a server that is frozen."""

    def __init__(self, driver: Driver[C], name: str, count: int, answer_s_max: float | None = None) -> None:
        self._queue: SimpleQueue[_Task[C, Any] | None] = SimpleQueue()
        self._owners = [ConnectionOwner(driver) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._serve, args=(owner,), name=f"headrace-{name}-{number}", daemon=True)
            for number, owner in enumerate(self._owners)
        ]
        self._closed = threading.Event()
        for thread in self._threads:
            thread.start()
        if answer_s_max is not None:
            watch = threading.Thread(target=self._watch, args=(answer_s_max,), name="headrace-answers", daemon=True)
            watch.start()

    async def read(self, work: Callable[[C], T]) -> T:
        return await asyncio.wrap_future(self._put(work, write=False))

    async def write(self, work: Callable[[C], T]) -> T:
        return await asyncio.wrap_future(self._put(work, write=True))

    def _put(self, work: Callable[[C], T], write: bool) -> Future[T]:
        if self._closed.is_set():
            raise HeadraceError("this store handle is closed", "open another one")
        task = _Task(work, write)
        self._queue.put(task)
        return task.future

    def _watch(self, answer_s_max: float) -> None:
        while not self._closed.wait(answer_s_max / 10):
            for owner in self._owners:
                owner.cut(answer_s_max)

    def _serve(self, owner: ConnectionOwner[C]) -> None:
        while (task := self._queue.get()) is not None:
            task.run(owner)
            # A task keeps its answer alive: payloads by the hundred kilobytes.
            del task
        owner.close()

    def close(self) -> None:
        """Finish what was begun, then give the connections back. Idempotent."""
        if not self._closed.is_set():
            self._closed.set()
            for _ in self._threads:
                self._queue.put(None)
        deadline = time.monotonic() + STOP_S_MAX
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
