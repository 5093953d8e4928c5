"""Python's values as PostgreSQL takes them, and its errors as everybody else knows them."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
from psycopg.types.array import ListDumper
from psycopg.types.json import JsonbDumper

from headrace.errors import Busy, CallerError, HeadraceError, OperatorError, SchemaMismatch, StoreFull, Unreachable

# Connection exceptions, and the server's own shutdown, crash and start.
_GONE = ("08", "57P")
# Serialization failure and deadlock, lack of resources, a lock that cannot be had, a cancelled statement.
_BUSY = ("40", "53", "55P03", "57014")
# Bad data, a constraint, a size limit.
_DATA = ("22", "23", "54")
_DISK_FULL = "53100"
_UNDEFINED = ("42P01", "42703")


class DocumentDumper(JsonbDumper):
    """A list or a dictionary is a JSON document."""

    _dumps = staticmethod(msgspec.json.encode)


class ArrayDumper(ListDumper):
    """A tuple is an array."""


def adapt(connection: psycopg.AsyncConnection[Any]) -> None:
    """Let a connection take our values."""
    connection.adapters.register_dumper(list, DocumentDumper)
    connection.adapters.register_dumper(dict, DocumentDumper)
    connection.adapters.register_dumper(tuple, ArrayDumper)


def is_lost(error: psycopg.Error) -> bool:
    """The connection is gone, or the server is: what was sent may have been done."""
    state = error.sqlstate or ""
    unnamed = not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return unnamed or state.startswith(_GONE)


def meaning(error: psycopg.Error) -> HeadraceError:
    """The error by who must act."""
    state, message = error.sqlstate or "", str(error).strip()
    if is_lost(error):
        return Unreachable(f"PostgreSQL does not answer: {message}", "is it running, and does SMAP_PG_DSN lead to it?")
    if state == _DISK_FULL:
        return StoreFull(message, "make room on the disk of the database")
    if state.startswith(_BUSY):
        return Busy(message)
    if state in _UNDEFINED:
        return SchemaMismatch(message, "start a service of smap once with a role that may create tables")
    if state.startswith(_DATA):
        return CallerError(message)
    return OperatorError(message)
