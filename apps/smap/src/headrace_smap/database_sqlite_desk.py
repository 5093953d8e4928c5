"""A thread that owns a connection of SQLite and deals with what is queued for it, as much at once as there is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import apsw

from headrace.errors import Unreachable

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
AT_ONCE_MAX = 256


class Request:
    """Work that is asked for, and its future answer."""

    __slots__ = ("answer", "error", "future", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()
        self.answer: Any = None
        self.error: BaseException | None = None

    def tell(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        if self.error is None:
            self.future.set_result(self.answer)
        else:
            self.future.set_exception(self.error)


class Desk:
    """`deal` gives every request its answer or its error, and raises nothing."""

    def __init__(self, connection: apsw.Connection, deal: Callable[[apsw.Connection, list[Request]], None]) -> None:
        self._connection, self._deal = connection, deal
        self._queued: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="smap-database", daemon=True)
        self._thread.start()

    def put(self, work: Work[T]) -> Future[T]:
        request = Request(work)
        with self._changed:
            if self._closing:
                raise Unreachable("the database is closed")
            self._queued.append(request)
            self._changed.notify()
        return request.future

    def close(self) -> None:
        """What is queued is still done."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _loop(self) -> None:
        while requests := self._take():
            self._deal(self._connection, requests)
            for request in requests:
                request.tell()
        self._connection.close()

    def _take(self) -> list[Request]:
        with self._changed:
            while not (self._queued or self._closing):
                self._changed.wait()
            return [self._queued.popleft() for _ in range(min(AT_ONCE_MAX, len(self._queued)))]
