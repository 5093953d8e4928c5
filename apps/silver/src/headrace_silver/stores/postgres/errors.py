"""What a PostgreSQL error means: the record is at fault, the operator must act, or the same again will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from headrace.errors import Busy, HeadraceError, OperatorError, SchemaMismatch, StoreFull, Unreachable
from headrace_silver.queue.isolation import RecordFault

# By class of SQLSTATE: bad data, a constraint, a view's condition, a size limit, an exception raised by a trigger.
_RECORD = ("22", "23", "44", "54", "P0")
# Connection exceptions, and the server's own shutdown, crash and start.
_GONE = ("08", "57P")
# Serialization failure and deadlock, lack of resources, a lock that cannot be had, a cancelled statement.
_BUSY = ("40", "53", "55P03", "57014")
_DISK_FULL = "53100"
_UNDEFINED_TABLE = "42P01"


def meaning(error: psycopg.Error) -> HeadraceError:
    """The error as everybody else knows it."""
    state, message = error.sqlstate or "", str(error).strip()
    if state.startswith(_GONE) or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)):
        return Unreachable(f"PostgreSQL does not answer: {message}", "is it running, and does PG_DSN lead to it?")
    if state == _DISK_FULL:
        return StoreFull(message, "make room on the disk of the database")
    if state.startswith(_BUSY):
        return Busy(message)
    if state == _UNDEFINED_TABLE:
        return SchemaMismatch(message, 'psql "$PG_DSN" -f apps/silver/db/init.sql, or headrace silver init')
    return OperatorError(message)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the driver leave as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise meaning(error) from error


@contextmanager
def about_records() -> Iterator[None]:
    """While records are written: what is their own fault leaves as `RecordFault`."""
    try:
        yield
    except ValueError as error:
        raise RecordFault(str(error)) from error
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(_RECORD):
            raise
        raise RecordFault(str(error).strip()) from error
