"""The silver layer in PostgreSQL 15 or later.

One connection, two round trips per batch: BEGIN with the tasks, then everything else up to COMMIT (`batch`). While full
batches follow each other, the first one also brings the tasks of the next (`look_ahead`). The lock belongs to the
session: it survives rollbacks, and the server drops it with the connection.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import psycopg

from headrace.errors import SchemaMismatch, Unreachable
from headrace.ports import TablePart
from headrace.tables import PostgresBlockingTables, Row
from headrace_silver.records.values import Task
from headrace_silver.stores.postgres import binary_arrays
from headrace_silver.stores.postgres.batch import PostgresBatch
from headrace_silver.stores.postgres.look_ahead import Ahead, Coming
from headrace_silver.stores.postgres.statements import statement
from headrace_silver.stores.silver_store import CHANNEL, LOCK, init_script, parts, present_tables, statements

Values = Mapping[str, object]

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
INIT_HINT = 'psql "$PG_DSN" -f apps/silver/db/init.sql, or headrace silver init'
LOCK_LOST = "the connection was lost, and the lock with it"
UNKNOWN_HINT = "look before you do it again: headrace silver flag --count, headrace silver dead counts"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class PostgresSilverStore(PostgresBlockingTables):
    """See `SilverStore`. What an operator should know is told through `tell`, once."""

    program = "headrace silver"

    def __init__(self, url: str, tell: Callable[[str], None] = say) -> None:
        super().__init__(url, statements(self.dialect), INIT_HINT, UNKNOWN_HINT)
        self._tell = tell
        self._told: set[str] = set()
        self._backend: int | None = None
        self._lock_lost = False
        self._listening = False
        self._keeps = False
        self._ahead = Ahead()
        self._coming: Coming | None = None

    def connected(self, connection: psycopg.Connection[Row]) -> None:
        # Whatever opened it, a new connection does not hold what the old one held: no batch until it is locked again.
        self._lock_lost = self._lock_lost or self._backend is not None
        self._backend, self._listening = None, False
        binary_arrays.register(connection)

    def create(self) -> None:
        self.make([TablePart("", init_script()), *parts(self.dialect)])

    def lock(self) -> bool:
        with self.translated():
            connection = self.connection()
            if self._backend is not None:
                return True
            row = connection.execute(statement("consume_lock"), {"name": LOCK}).fetchone()
            assert row is not None, "a SELECT without FROM has one row"
            if not row[0]:
                return False
            self._backend, self._lock_lost = row[1], False
            if connection.info.backend_pid != self._backend:
                # A pooler gives a number of its own. It may also hand us another session, which has not prepared ours.
                connection.prepare_threshold = None
                self._tell_once("a pooler stands before PostgreSQL: the lock holds only if it pools whole sessions")
            self._look_around()
            if self._backend is None:
                # The answer to the making of tables was asked for on another connection.
                raise Unreachable(LOCK_LOST, "is PostgreSQL running?")
        return True

    def unlock(self) -> None:
        held, self._backend, self._lock_lost = self._backend is not None and self.is_open, None, False
        if not held:
            return
        self._forget()
        with self.translated():
            self.connection().execute(statement("consume_unlock"), {"name": LOCK})

    def holder(self) -> str | None:
        found = self.rows("consume_holder", {"name": LOCK})
        return "process {} of {} from {} ({}), connected since {} UTC".format(*found[0]) if found else None

    @contextmanager
    def batch(self, size: int) -> Iterator[PostgresBatch]:
        settled = False
        try:
            with self.translated():
                batch = self._take(size)
            with self.translated(write=True):
                yield batch
                settled = batch.settled
        finally:
            if not settled:
                self._forget()
            self.roll_back()

    def _take(self, size: int) -> PostgresBatch:
        """Begin, and hold the next tasks: those that were read ahead, or else by a search from the front."""
        if self._lock_lost or (self._backend is not None and not self.is_open):
            raise Unreachable(LOCK_LOST, "is PostgreSQL running?")
        this = self._coming or self._read(self._ahead.next(size, self._search))
        if this is not None and len(this.tasks) == size:
            following = self._ahead.next(size, self._search, this.tasks)
            now, rows = self._begin("consume_known", this.values(), following)
            if rows == [(size,)]:
                return PostgresBatch(self.connection(), this.tasks, now, self._keeps, this.draft, self._coming)
            self.roll_back()
        self._forget()
        now, rows = self._begin("consume_fetch", {"size": size})
        self._ahead.taken(size, len(rows))
        return PostgresBatch(self.connection(), [Task(*row) for row in rows], now, self._keeps)

    def _begin(self, name: str, values: Values, following: Sequence[int] = ()) -> tuple[datetime, list[Row]]:
        """Hold tasks by a statement, and read those that follow; the time, and the statement's rows."""
        connection, read = self.connection(), None
        with connection.pipeline():
            connection.execute(BEGIN, prepare=False)
            clock = connection.execute(statement("consume_begin"), binary=True)
            found = connection.execute(statement(name), values, binary=True)
            if following:
                ids = {"ids": binary_arrays.integers(following)}
                read = connection.execute(statement("consume_coming"), ids, binary=True)
        ((now, backend, *_),) = clock.fetchall()
        if self._backend not in (None, backend):
            self._tell_once("PG_DSN leads through transaction pooling: the lock does not hold, use sessions")
        self._coming = None if read is None else Coming.of(read.fetchall())
        return now, found.fetchall()

    def _read(self, ids: Sequence[int]) -> Coming | None:
        return Coming.of(self._alone("consume_coming", {"ids": binary_arrays.integers(ids)})) if ids else None

    def _search(self, count: int) -> list[int]:
        ids: list[int] = self._alone("consume_ahead", {"count": count})[0][0]
        return ids

    def _alone(self, name: str, values: Values) -> list[Row]:
        """The rows of a statement outside of a batch, planned as in one."""
        connection = self.connection()
        with connection.pipeline():
            connection.execute(BEGIN, prepare=False)
            connection.execute(statement("consume_begin"))
            found = connection.execute(statement(name), values, binary=True)
            connection.execute("COMMIT", prepare=False)
        return found.fetchall()

    def _forget(self) -> None:
        self._ahead.forget()
        self._coming = None

    def wait(self, timeout_s: float) -> None:
        with self.translated():
            connection = self.connection()
            if not self._listening:
                connection.execute(f"LISTEN {CHANNEL}")
                self._listening = True
            ready, _, _ = select.select([connection.fileno()], [], [], timeout_s)
            if ready:
                # Also how a connection that was closed from the other side is found out.
                for _ in connection.notifies(timeout=0):
                    pass

    def _look_around(self) -> None:
        """Whether the queue is there, and whether the tables of our own can be used."""
        found = present_tables(self)
        if not found.queue:
            raise SchemaMismatch("there is no table task_q in this database", INIT_HINT)
        if found.may_create and not (found.usable and found.whole):
            self.make(parts(self.dialect))
            found = present_tables(self)
        self._keeps = found.usable
        if not found.usable:
            self._tell_once(
                "this role can neither use nor create the tables silver_revision and silver_reject_day: "
                "consuming goes on without a history of bars (headrace silver init as the owner makes them)"
            )

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(f"silver: {text}")
