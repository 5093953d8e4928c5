"""An application's tables in a PostgreSQL database, on one connection of its own that blocks.

If the answer to a COMMIT is lost, the server is asked what became of the transaction: only where it cannot be asked is
the end unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from headrace.adapters.postgres.calls import one
from headrace.adapters.postgres.connections import Connection, connect_apart, is_broken, translate
from headrace.adapters.postgres.foreign import make, run
from headrace.core.catalogue import Catalogue
from headrace.core.errors import CallerError, HeadraceError, SchemaMismatch, Unknown, Unreachable
from headrace.core.table_statements import Row, TablePart, TableStatement

OUTCOME_LOOK_S = 0.05


class PostgresBlockingTables:
    """`ports.blocking_tables.BlockingTables` in one database. `conninfo` is what libpq takes; if it is empty, libpq's
    own variables say where. `missing_hint` says what makes the tables, `unknown_hint` where one sees what was done."""

    dialect = "postgres"
    program = "headrace"
    """How the server names the connection, unless the operator does."""
    outcome_s_max = 10.0
    """For how long a server is asked what became of a COMMIT that it did not answer: it may be starting again."""

    def __init__(
        self,
        conninfo: str,
        statements: Mapping[str, TableStatement],
        missing_hint: str = "",
        unknown_hint: str = "look before you do it again",
    ) -> None:
        self._conninfo, self._catalogue = conninfo, Catalogue(statements)
        self._missing_hint, self._unknown_hint = missing_hint, unknown_hint
        self._opened: Connection | None = None
        self._in_block = False

    @property
    def is_open(self) -> bool:
        return self._opened is not None and not self._opened.closed

    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The driver's own, for what statements by their names are not quick enough for."""
        if self._opened is not None and not self._opened.closed:
            return self._opened
        if self._in_block:
            raise Unreachable("the connection was lost in the middle of a transaction", "do all of it again")
        connection = connect_apart(self._conninfo, self.program)
        try:
            self.connected(connection)
        except BaseException:
            connection.close()
            raise
        self._opened = connection
        return connection

    def connected(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """A new connection, before anything runs on it: for classes that have more to say to it."""

    def rows(self, name: str, values: Mapping[str, object] | None = None) -> list[Row]:
        step = self._catalogue.step(name, (values or {},))
        with self.translated(write=not (step.statement.reads or self._in_transaction())):
            found = run(self.connection(), step.statement, step.values[0], binary=True)
            return found.fetchall() if found.description else []

    def load(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        text = self._catalogue.statement(name).text
        with (
            self.translated(write=not self._in_transaction()),
            self.connection().cursor() as cursor,
            cursor.copy(text.encode()) as copy,
        ):
            for row in rows:
                try:
                    copy.write_row(row)
                except (TypeError, ValueError, OverflowError) as error:
                    raise CallerError(f"{name}: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        mark, is_outermost = "", not self._in_transaction()
        try:
            with self.translated(), self.connection().transaction(), self._on_one_connection():
                yield
                if is_outermost:
                    mark = self._value("SELECT pg_current_xact_id()::text")
        except Unreachable:
            if not mark or not self._has_committed(mark):
                raise

    @contextmanager
    def _on_one_connection(self) -> Iterator[None]:
        """What follows an error that was caught in the block is no part of the transaction if its connection is gone:
        on a new one it would be committed by itself, and the driver ends a transaction without a line in silence."""
        before, self._in_block = self._in_block, True
        try:
            yield
        finally:
            self._in_block = before

    def make(self, parts: Sequence[TablePart]) -> None:
        with self.transaction():
            # Two that made the same table at once would meet in the catalogue.
            one(self.connection(), "table_lock", ("",))
            for part in parts:
                make(self.connection(), part)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def roll_back(self) -> None:
        """Leave a transaction that was begun on the driver's connection; one that is gone has done it by itself."""
        if self._in_transaction():
            with suppress(psycopg.Error):
                self.connection().execute("ROLLBACK")

    @contextmanager
    def translated(self, write: bool = False) -> Iterator[None]:
        """Errors of the driver leave as ours. `write`: what is sent may commit, so a lost answer says nothing."""
        try:
            yield
        except psycopg.Error as error:
            broken = self._opened is None or is_broken(self._opened, error)
            found = translate(self._conninfo, error, broken, write)
            if isinstance(found, SchemaMismatch):
                found = SchemaMismatch(str(found), self._missing_hint)
            raise found from error

    def _in_transaction(self) -> bool:
        connection = self._opened
        return connection is not None and connection.info.transaction_status not in (
            TransactionStatus.IDLE,
            TransactionStatus.UNKNOWN,
        )

    def _value(self, query: str, *values: object) -> Any:
        return self.connection().execute(query.encode(), values).fetchall()[0][0]

    def _has_committed(self, mark: str) -> bool:
        """How a transaction ended whose end nobody told us."""
        deadline = time.monotonic() + self.outcome_s_max
        state = "in progress"
        while state == "in progress" and time.monotonic() < deadline:
            time.sleep(OUTCOME_LOOK_S)
            with suppress(HeadraceError, psycopg.Error):
                state = self._value("SELECT pg_xact_status(%s::xid8)", mark)
        if state not in ("committed", "aborted"):
            raise Unknown(
                "the connection broke at COMMIT, and PostgreSQL cannot be asked what became of it", self._unknown_hint
            )
        return state == "committed"
