"""The silver layer in PostgreSQL 15 or later.

One connection, two round trips per batch: BEGIN with the tasks, then everything else up to COMMIT (`postgres_batch`).
While full batches follow each other, the first one also brings the tasks of the next (`postgres_ahead`).
The lock belongs to the session: it survives rollbacks, and the server drops it with the connection.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import psycopg

from headrace.errors import CallerError, SchemaMismatch, Unknown, Unreachable
from headrace_silver.records.values import Task
from headrace_silver.stores.postgres import binary_arrays
from headrace_silver.stores.postgres.batch import PostgresBatch
from headrace_silver.stores.postgres.errors import translated
from headrace_silver.stores.postgres.look_ahead import Ahead, Coming
from headrace_silver.stores.postgres.statements import statement
from headrace_silver.stores.silver_store import CHANNEL, LOCK, init_script, statements

Rows = list[tuple[Any, ...]]
Values = Mapping[str, object]

CONNECT_S_MAX = 10
OUTCOME_S_MAX, OUTCOME_LOOK_S = 10.0, 0.05
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class PostgresSilverStore:
    """See `SilverStore`. What an operator should know is told through `tell`, once."""

    dialect = "postgres"

    def __init__(self, url: str, tell: Callable[[str], None] = say) -> None:
        self._url = url
        self._tell = tell
        self._told: set[str] = set()
        self._open: psycopg.Connection[tuple[Any, ...]] | None = None
        self._backend: int | None = None
        self._listening = False
        self._keeps = False
        self._ahead = Ahead()
        self._coming: Coming | None = None

    def create(self) -> None:
        with translated(), self._connection().transaction():
            self._connection().execute(statement("silver_creating"))
            self._connection().execute(init_script().encode())
            self._create_ours()

    def lock(self) -> bool:
        with translated():
            connection = self._connection()
            if self._backend is not None:
                return True
            row = connection.execute(statement("consume_lock"), {"name": LOCK}).fetchone()
            assert row is not None, "a SELECT without FROM has one row"
            if not row[0]:
                return False
            self._backend = row[1]
            if connection.info.backend_pid != self._backend:
                # A pooler gives a number of its own. It may also hand us another session, which has not prepared ours.
                connection.prepare_threshold = None
                self._tell_once("a pooler stands before PostgreSQL: the lock holds only if it pools whole sessions")
            self._look_around()
        return True

    def unlock(self) -> None:
        if self._backend is None or not self._is_open():
            return
        self._backend = None
        self._forget()
        with translated():
            self._connection().execute(statement("consume_unlock"), {"name": LOCK})

    def holder(self) -> str | None:
        found = self.rows("consume_holder", {"name": LOCK})
        return "process {} of {} from {} ({}), connected since {} UTC".format(*found[0]) if found else None

    @contextmanager
    def batch(self, size: int) -> Iterator[PostgresBatch]:
        settled = False
        try:
            with translated():
                batch = self._take(size)
                yield batch
                settled = batch.settled
        finally:
            if not settled:
                self._forget()
            self._roll_back()

    def _take(self, size: int) -> PostgresBatch:
        """Begin, and hold the next tasks: those that were read ahead, or else by a search from the front."""
        if self._backend is not None and not self._is_open():
            raise Unreachable("the connection was lost, and the lock with it", "is PostgreSQL running?")
        this = self._coming or self._read(self._ahead.next(size, self._search))
        if this is not None and len(this.tasks) == size:
            following = self._ahead.next(size, self._search, this.tasks)
            now, rows = self._begin("consume_known", this.values(), following)
            if rows == [(size,)]:
                return PostgresBatch(self._connection(), this.tasks, now, self._keeps, this.draft, self._coming)
            self._roll_back()
        self._forget()
        now, rows = self._begin("consume_fetch", {"size": size})
        self._ahead.taken(size, len(rows))
        return PostgresBatch(self._connection(), [Task(*row) for row in rows], now, self._keeps)

    def _begin(self, name: str, values: Values, following: Sequence[int] = ()) -> tuple[datetime, Rows]:
        """Hold tasks by a statement, and read those that follow; the time, and the statement's rows."""
        connection, read = self._connection(), None
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

    def _alone(self, name: str, values: Values) -> Rows:
        """The rows of a statement outside of a batch, planned as in one."""
        connection = self._connection()
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
        with translated():
            connection = self._connection()
            if not self._listening:
                connection.execute(f"LISTEN {CHANNEL}")
                self._listening = True
            ready, _, _ = select.select([connection.fileno()], [], [], timeout_s)
            if ready:
                # Also how a connection that was closed from the other side is found out.
                for _ in connection.notifies(timeout=0):
                    pass

    def rows(self, name: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        with translated():
            found = self._connection().execute(statement(name), values or {}, binary=True)
            return found.fetchall() if found.description else []

    def load(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        with translated(), self._connection().cursor() as cursor, cursor.copy(statement(name)) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        mark = None
        with translated():
            connection = self._connection()
            is_outermost = connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
            try:
                with connection.transaction():
                    yield
                    if is_outermost:
                        mark = connection.execute("SELECT pg_current_xact_id()::text").fetchall()[0][0]
            except psycopg.OperationalError:
                # Only the answer to COMMIT may be missing; what it would have said is asked for.
                if mark is None or not self._has_committed(mark):
                    raise

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._open is not None and not self._open.closed:
            return self._open
        self._backend, self._listening = None, False
        try:
            given = psycopg.conninfo.conninfo_to_dict(self._url)
        except psycopg.ProgrammingError as error:
            # The text itself may hold a password.
            raise CallerError("PG_DSN is not a connection string", "PG_DSN=postgresql://user@host/database") from error
        limit_s = given.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or CONNECT_S_MAX
        self._open = psycopg.connect(
            self._url,
            autocommit=True,
            client_encoding="utf8",
            connect_timeout=limit_s,
            fallback_application_name="headrace silver",
        )
        binary_arrays.register(self._open)
        self._open.execute("SET TIME ZONE 'UTC'")
        return self._open

    def _has_committed(self, mark: str) -> bool:
        """How a transaction ended whose end nobody told us."""
        deadline = time.monotonic() + OUTCOME_S_MAX
        state: str | None = "in progress"
        with suppress(psycopg.Error):
            while state == "in progress" and time.monotonic() < deadline:
                time.sleep(OUTCOME_LOOK_S)
                state = self._connection().execute("SELECT pg_xact_status(%s::xid8)", [mark]).fetchall()[0][0]
        if state not in ("committed", "aborted"):
            raise Unknown(
                "the connection broke at COMMIT, and PostgreSQL cannot be asked what became of it",
                "look before you do it again: headrace silver flag --count, headrace silver dead counts",
            )
        return state == "committed"

    def _is_open(self) -> bool:
        return self._open is not None and not self._open.closed

    def _look_around(self) -> None:
        """Whether the queue is there, and whether the tables of our own can be used."""
        queue, usable, may_create = self.rows("silver_present")[0]
        if not queue:
            raise SchemaMismatch(
                "there is no table task_q in this database",
                'psql "$PG_DSN" -f apps/silver/db/init.sql, or headrace silver init',
            )
        if not usable and may_create:
            with self._connection().transaction():
                self._connection().execute(statement("silver_creating"))
                self._create_ours()
            usable = self.rows("silver_present")[0][1]
        self._keeps = usable
        if not usable:
            self._tell_once(
                "this role can neither use nor create the tables silver_revision and silver_reject_day: "
                "consuming goes on without a history of bars (headrace silver init as the owner makes them)"
            )

    def _create_ours(self) -> None:
        for name, text in statements("postgres").items():
            if name.startswith("create_"):
                self._connection().execute(text.encode())

    def _roll_back(self) -> None:
        """After a settlement there is nothing to roll back; a connection that is gone has done it by itself."""
        if self._open is None or self._open.closed:
            return
        if self._open.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                self._open.execute("ROLLBACK")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(f"silver: {text}")
