"""A SQLite database behind one seam: work goes in, committed answers come out.

`InlineDatabase` runs each piece of work at once, in a transaction of its own, in the calling task: for the simulator.
`writer.ThreadedDatabase` is the one that programs use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import apsw

from headrace.adapters.sqlite.connections import MEMORY, plain, translated
from headrace.adapters.sqlite.migrations import migrate_up

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]


class SqliteDatabase(Protocol):
    async def write(self, work: Work[T]) -> T:
        """Run `work` in a write transaction; the answer comes after its commit."""

    def write_blocking(self, work: Work[T]) -> T:
        """The same from a thread that may wait; it goes before everything that is queued."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one snapshot."""

    def ring(self) -> None:
        """Say to all processes that work may have become available."""

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Hear such rings, from any thread; the answer unsubscribes."""

    async def close(self) -> None:
        """Give everything back. Idempotent."""


class WakeListeners:
    """Who wants to hear rings in this process."""

    def __init__(self) -> None:
        self._rings: dict[object, Callable[[], None]] = {}

    def ring(self) -> None:
        for ring in list(self._rings.values()):
            ring()

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._rings[key] = ring
        return lambda: self._rings.pop(key, None) and None


class InlineDatabase(WakeListeners):
    """One connection in memory, shared by any number of handles."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = plain(MEMORY)
        migrate_up(self.connection)

    async def write(self, work: Work[T]) -> T:
        return self.write_blocking(work)

    def write_blocking(self, work: Work[T]) -> T:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            answer = work(self.connection)
        except BaseException as error:
            self.connection.execute("ROLLBACK")
            raise translated(error, MEMORY) from error
        self.connection.execute("COMMIT")
        return answer

    async def read(self, work: Work[T]) -> T:
        return work(self.connection)

    async def close(self) -> None:
        """Nothing to give back: other handles may go on using it."""
