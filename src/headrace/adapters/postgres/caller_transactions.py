"""Submits inside a transaction that the caller opened: the job exists if and only if the caller commits.

A connection may be psycopg's, SQLAlchemy's or Django's. It is told apart by what it offers, so that nothing is imported
that the caller does not use. SQLAlchemy and Django keep an account of their own of whether a transaction is open, and
commit only what they know of: the statement goes through them and never past them to the driver below.

Nothing here commits, and a refusal that can be found without the server is found before anything is sent: an error of
the server ends the caller's transaction.
"""

from __future__ import annotations

import inspect
import itertools
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from headrace.adapters.postgres import schema, submissions
from headrace.adapters.postgres.connections import meaning, sqlstate_of
from headrace.adapters.postgres.statements import statements
from headrace.core.errors import CallerError, HeadraceError, SchemaMismatch
from headrace.core.jobs import Submission, Submitted

Row = tuple[Any, ...]
WHERE = "of the connection"
_FORMS = "a psycopg, SQLAlchemy or Django connection, or a SQLAlchemy session"
_BEGIN_FIRST = "open a transaction first: with connection.transaction(): …, connection.begin() or transaction.atomic()"


class Call(NamedTuple):
    """One statement, with `%s` for its values."""

    statement: str
    values: tuple[object, ...]

    def numbered(self) -> Call:
        """With `$1`, `$2`, … for drivers that count."""
        pieces = self.statement.split("%s")
        numbers = (f"${number}" for number in range(1, len(pieces)))
        whole = "".join(piece + number for piece, number in itertools.zip_longest(pieces, numbers, fillvalue=""))
        return Call(whole, self.values)


def submit_in(connection: Any, submission: Submission, notify: bool) -> Submitted:
    """For a connection that blocks."""
    call = _call(submission, notify)
    with _Mapped():
        if isinstance(connection, psycopg.Connection):
            _check_psycopg(connection)
            row = psycopg.Cursor(connection, row_factory=tuple_row).execute(call.statement.encode(), call.values)
            return _submitted(submission, row.fetchone())
        if _is_django(connection):
            return _submitted(submission, _through_django(connection, call))
        if _is_sqlalchemy(connection):
            if _awaits(connection):
                raise CallerError("this connection is to be awaited", "await engine.submit(…, connection=connection)")
            found = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
            _check_sqlalchemy(found, found)
            return _submitted(submission, found.exec_driver_sql(*_spoken(found, call)).fetchone())
    if isinstance(connection, psycopg.AsyncConnection):
        raise CallerError("this connection is to be awaited", "await engine.submit(…, connection=connection)")
    raise _not_accepted(connection)


async def submit_in_async(connection: Any, submission: Submission, notify: bool) -> Submitted:
    """For a connection that is awaited."""
    call = _call(submission, notify)
    with _Mapped():
        if isinstance(connection, psycopg.AsyncConnection):
            _check_psycopg(connection)
            cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
            await cursor.execute(call.statement.encode(), call.values)
            return _submitted(submission, await cursor.fetchone())
        if _is_sqlalchemy(connection) and _awaits(connection):
            found = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
            _check_sqlalchemy(found, found.sync_connection)
            return _submitted(submission, (await found.exec_driver_sql(*_spoken(found, call))).fetchone())
    if isinstance(connection, psycopg.Connection) or _is_sqlalchemy(connection) or _is_django(connection):
        raise CallerError("this connection would block the event loop", "headrace.submit_in(connection, …)")
    raise _not_accepted(connection)


def _call(submission: Submission, notify: bool) -> Call:
    body, cargo = submissions.body_of(submission)
    return Call(statements()["submit_in"], (schema.newest(), notify, body, cargo.payloads, cargo.ends))


def _submitted(submission: Submission, row: Any) -> Submitted:
    version, job, created, digest = row
    if version != schema.newest():
        raise SchemaMismatch(
            f"the store {WHERE} has schema {version}, this headrace needs {schema.newest()}", "headrace migrate up"
        )
    return submissions.judged(submission, (job, created, digest))


def _check_psycopg(connection: Any) -> None:
    status = connection.info.transaction_status
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise CallerError("this connection commits every statement by itself, and no transaction is open", _BEGIN_FIRST)
    if status == TransactionStatus.INERROR:
        raise CallerError("the transaction of this connection has failed before", "roll it back first")


def _is_sqlalchemy(connection: Any) -> bool:
    """A connection, or a session that has one."""
    return hasattr(connection, "exec_driver_sql") or (hasattr(connection, "get_bind") and hasattr(connection, "begin"))


def _awaits(connection: Any) -> bool:
    return inspect.iscoroutinefunction(getattr(connection, "exec_driver_sql", None) or connection.connection)


def _check_sqlalchemy(connection: Any, blocking: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise _elsewhere(connection.dialect.name)
    if getattr(blocking.connection.dbapi_connection, "autocommit", False):
        raise CallerError("this connection has the isolation level AUTOCOMMIT", "use one that has transactions")


def _spoken(connection: Any, call: Call) -> Call:
    """In the notation of the driver that SQLAlchemy has below."""
    return call.numbered() if connection.dialect.paramstyle == "numeric_dollar" else call


def _is_django(connection: Any) -> bool:
    return hasattr(connection, "in_atomic_block") and hasattr(connection, "vendor")


def _through_django(connection: Any, call: Call) -> Row:
    if connection.vendor != "postgresql":
        raise _elsewhere(connection.vendor)
    if not connection.in_atomic_block and connection.get_autocommit():
        raise CallerError("this connection commits every statement by itself, and no transaction is open", _BEGIN_FIRST)
    with connection.cursor() as cursor:
        cursor.execute(call.statement, call.values)
        row: Row = cursor.fetchone()
        return row


def _not_accepted(connection: Any) -> CallerError:
    module = type(connection).__module__.partition(".")[0]
    if module in ("sqlite3", "apsw", "aiosqlite"):
        return _elsewhere("sqlite")
    return CallerError(f"a {module}.{type(connection).__name__} is no connection to submit in", f"give {_FORMS}")


def _elsewhere(service: str) -> CallerError:
    return CallerError(
        f"only a transaction of PostgreSQL can take a job along, and this connection leads to {service}",
        "on a store in SQLite: async with engine.transaction() as tx: tx.submit(…)",
    )


class _Mapped:
    """What the driver raises, in the words of the tree; the driver's own error is the cause."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, HeadraceError) or not isinstance(error, Exception):
            return
        state = sqlstate_of(error)
        if state is not None:
            # The commit is the caller's, so there is no unknown outcome: what broke here was not committed.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise meaning(state, reason, WHERE, write=False) from error
