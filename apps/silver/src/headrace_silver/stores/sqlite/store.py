"""The silver layer in one SQLite file, with the meaning it has in PostgreSQL and nothing to install.

One connection, one write transaction per batch, a write-ahead log that is flushed at every commit. There is one writer
at a time, so no task can be held by somebody else. The consumer's lock is a lock on a file beside the database: the
system drops it with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import apsw

from headrace.errors import SchemaMismatch, UnsafeStore
from headrace.tables import SqliteBlockingTables
from headrace_silver.records.values import Task
from headrace_silver.stores.silver_store import LOCK, present_tables, statements
from headrace_silver.stores.sqlite.batch import SqliteBatch
from headrace_silver.stores.sqlite.statements import spelled_parts, statement

# A file is put in one transaction, and nobody else can write meanwhile.
BUSY_MS = 30_000
# Bars of one day lie far from each other in their key, and SQLite's own two megabytes do not hold it.
CACHE_KB = 16_384
LOOK_S = 0.02
INIT_HINT = "headrace silver init makes the tables"


class SqliteSilverStore(SqliteBlockingTables):
    """See `SilverStore`."""

    def __init__(self, path: str) -> None:
        super().__init__(path, statements(self.dialect), INIT_HINT)
        self._lock: int | None = None
        self._version = 0

    def connected(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(BUSY_MS)
        connection.pragma("cache_size", -CACHE_KB)

    def create(self) -> None:
        self.make(spelled_parts())

    def lock(self) -> bool:
        if self._lock is not None:
            return True
        if not present_tables(self).queue:
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
        with self.translated():
            connection = self.connection()
            connection.execute(statement("consume_revising"))
            connection.execute(statement("consume_indexable"))
            self.begin()
            try:
                self._version = connection.pragma("data_version")
                # Nobody else can write from here on: no task has arrived after this moment.
                now = datetime.now(UTC)
                found = connection.execute(statement("consume_fetch"), {"size": size})
                tasks = [Task(id, kind, text, datetime.fromisoformat(seen)) for id, kind, text, seen in found]
                yield SqliteBatch(connection, tasks, now)
            finally:
                self.roll_back()

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self.translated():
            while self.connection().pragma("data_version") == self._version:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return
                time.sleep(min(LOOK_S, left_s))

    def close(self) -> None:
        self.unlock()
        super().close()
