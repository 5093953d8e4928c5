"""An application's tables in a SQLite file, on one connection of its own that blocks.

Every write begins with the lock, so that no transaction has to give up half-way. Other programs may write to the same
file: who comes second waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import apsw

from headrace.adapters.sqlite import guard
from headrace.adapters.sqlite.connections import configure, plain, translated
from headrace.adapters.sqlite.file_watch import FileWatch, close_watched
from headrace.adapters.sqlite.foreign import make, rows
from headrace.core.catalogue import Catalogue
from headrace.core.errors import CallerError, SchemaMismatch, Unreachable
from headrace.core.sqlite_values import stored
from headrace.core.table_statements import Row, TablePart, TableStatement


class SqliteBlockingTables:
    """`ports.blocking_tables.BlockingTables` in one file. `missing_hint` says what makes the file and its tables."""

    dialect = "sqlite"

    def __init__(self, path: str, statements: Mapping[str, TableStatement], missing_hint: str = "") -> None:
        self._path, self._catalogue, self._missing_hint = os.path.realpath(path), Catalogue(statements), missing_hint
        self._opened: apsw.Connection | None = None
        self._files = FileWatch()

    def connection(self) -> apsw.Connection:
        """The driver's own, for what statements by their names are not quick enough for."""
        if self._opened is None and not os.path.exists(self._path):
            raise Unreachable(f"there is no file {self._path}", self._missing_hint)
        return self._opened or self._open()

    def connected(self, connection: apsw.Connection) -> None:
        """A new connection, before anything runs on it: for classes that have more to say to it."""

    def rows(self, name: str, values: Mapping[str, object] | None = None) -> list[Row]:
        step = self._catalogue.step(name, (values or {},))
        with self.translated():
            connection = self.connection()
            self._files.check()
            return rows(connection, step.statement, step.values[0])

    def load(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        text = self._catalogue.statement(name).text
        with self.transaction():
            cursor = self.connection().cursor()
            for row in rows:
                try:
                    cursor.execute(text, [stored(value) for value in row])
                except (TypeError, ValueError, OverflowError) as error:
                    raise CallerError(f"{name}: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.translated():
            if self.connection().in_transaction:
                with self.connection():
                    yield
                return
            self.begin()
            try:
                yield
                self.connection().execute("COMMIT")
            finally:
                self.roll_back()

    def make(self, parts: Sequence[TablePart]) -> None:
        with self.translated():
            connection = self._opened or self._open()
        with self.transaction():
            for part in parts:
                make(connection, part)

    def close(self) -> None:
        if self._opened is not None:
            close_watched(self._opened, self._files)
            guard.closed(self._path)
            self._opened = None

    def begin(self) -> None:
        """Begin to write; `StoreReplaced` if the file is not the one that was opened."""
        connection = self.connection()
        self._files.check()
        connection.execute("BEGIN IMMEDIATE")

    def roll_back(self) -> None:
        """Leave a transaction that was not committed; after some errors SQLite has done it by itself."""
        if self._opened is not None and self._opened.in_transaction:
            with suppress(apsw.Error):
                self._opened.execute("ROLLBACK")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of SQLite leave as ours."""
        try:
            yield
        except apsw.Error as error:
            found = translated(error, self._path)
            if isinstance(found, SchemaMismatch):
                found = SchemaMismatch(str(found), self._missing_hint)
            raise found from error

    def _open(self) -> apsw.Connection:
        guard.check_place(self._path)
        connection = plain(self._path)
        try:
            configure(connection, self._path)
            self.connected(connection)
        except BaseException:
            connection.close()
            raise
        guard.opened(self._path)
        self._opened, self._files = connection, FileWatch(self._path, f"{self._path}-wal")
        return connection
