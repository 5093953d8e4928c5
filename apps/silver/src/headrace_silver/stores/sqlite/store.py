"""The silver layer in one SQLite file, with the meaning it has in PostgreSQL and nothing to install.

One connection, one write transaction per batch, a write-ahead log that is flushed at every commit. There is one writer
at a time, so no task can be held by somebody else. The consumer's lock is a lock on a file beside the database: the
system drops it with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import apsw

from headrace.errors import SchemaMismatch, Unreachable, UnsafeStore
from headrace.tables import python_rows, stored, stored_values
from headrace_silver.records.values import Task
from headrace_silver.stores.silver_store import LOCK
from headrace_silver.stores.sqlite.batch import SqliteBatch
from headrace_silver.stores.sqlite.errors import INIT_HINT, translated
from headrace_silver.stores.sqlite.statements import creating, statement

# A file is put in one transaction, and nobody else can write meanwhile.
BUSY_MS = 30_000
CHECKPOINT_PAGES = 8_000
# Bars of one day lie far from each other in their key, and SQLite's own two megabytes do not hold it.
CACHE_KB = 16_384
LOOK_S = 0.02


class SqliteSilverStore:
    """See `SilverStore`."""

    dialect = "sqlite"

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._open: apsw.Connection | None = None
        self._lock: int | None = None
        self._version = 0

    def create(self) -> None:
        with translated(self._path):
            self._connect(apsw.SQLITE_OPEN_CREATE)
            with self.transaction():
                self._connection().execute(creating())

    def lock(self) -> bool:
        if self._lock is not None:
            return True
        if not self.rows("silver_present")[0][0]:
            raise SchemaMismatch(f"there is no table task_q in {self._path}", INIT_HINT)
        try:
            handle = os.open(f"{self._path}-{LOCK}", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UnsafeStore(f"{self._path} cannot be locked: {error}", "choose a directory to write to") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._lock = handle
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self.create()
        return True

    def unlock(self) -> None:
        # The file stays: whoever removed it would let two hold a lock on one name.
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def holder(self) -> str | None:
        try:
            with open(f"{self._path}-{LOCK}", encoding="ascii") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            with open(f"{self._path}-{LOCK}", encoding="ascii") as file:
                return f"process {file.read() or '?'}"
        return None

    @contextmanager
    def batch(self, size: int) -> Iterator[SqliteBatch]:
        with translated(self._path):
            connection = self._connection()
            connection.execute(statement("consume_revising"))
            connection.execute(statement("consume_indexable"))
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._version = connection.pragma("data_version")
                # Nobody else can write from here on: no task has arrived after this moment.
                now = datetime.now(UTC)
                found = connection.execute(statement("consume_fetch"), {"size": size})
                tasks = [Task(id, kind, text, datetime.fromisoformat(seen)) for id, kind, text, seen in found]
                yield SqliteBatch(connection, tasks, now)
            finally:
                self._roll_back()

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with translated(self._path):
            while self._connection().pragma("data_version") == self._version:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return
                time.sleep(min(LOOK_S, left_s))

    def rows(self, name: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        with translated(self._path):
            found = self._connection().execute(statement(name), stored_values(values))
            try:
                description = found.get_description()
            except apsw.ExecutionCompleteError:
                return []
            return python_rows(description, found.fetchall())

    def load(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        with translated(self._path):
            self._connection().executemany(statement(name), ([stored(value) for value in row] for row in rows))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with translated(self._path):
            connection = self._connection()
            if connection.in_transaction:
                with connection:
                    yield
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            finally:
                self._roll_back()

    def close(self) -> None:
        self.unlock()
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> apsw.Connection:
        return self._open or self._connect()

    def _connect(self, create: int = 0) -> apsw.Connection:
        if self._open is not None:
            return self._open
        if not create and not os.path.exists(self._path):
            raise Unreachable(f"there is no file {self._path}", INIT_HINT)
        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE | create)
        try:
            # A value that is bound must not make SQLite plan a statement anew.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.set_busy_timeout(BUSY_MS)
            if connection.pragma("journal_mode", "wal") != "wal":
                raise UnsafeStore(f"{self._path} cannot have a write-ahead log", "use a local disk")
            connection.pragma("synchronous", "full")
            connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            connection.pragma("cache_size", -CACHE_KB)
        except BaseException:
            connection.close()
            raise
        self._open = connection
        return connection

    def _roll_back(self) -> None:
        """After a settlement there is nothing to roll back, and after some errors SQLite has done it by itself."""
        if self._open is not None and self._open.in_transaction:
            with suppress(apsw.Error):
                self._open.execute("ROLLBACK")
