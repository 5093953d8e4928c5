"""Opening a store file, and what SQLite's errors mean for the caller."""

from __future__ import annotations

import re
import time

import apsw

from headrace.adapters.sqlite import guard
from headrace.adapters.sqlite.migrations import check, migrate_up, schema_of
from headrace.core.errors import (
    Busy,
    CallerError,
    HeadraceError,
    OperatorError,
    SchemaMismatch,
    StoreFull,
    Unknown,
    UnsafeStore,
)

MEMORY = ":memory:"
BUSY_MS = 10_000
# Turning a file takes about a millisecond.
TURN_S = 0.005
PAGE_BYTES = 8_192
CHECKPOINT_PAGES = 4_000
STATEMENTS_MAX = 500
_MISSING = re.compile(r"no such (table|column)|has no column named")


def connect(path: str, create: bool = False) -> apsw.Connection:
    """A connection with the settings that durability needs. An empty file becomes a store when `create`."""
    if path != MEMORY:
        guard.check_place(path)
    try:
        connection = plain(path)
        configure(connection, path)
        if create and schema_of(connection) == 0:
            migrate_up(connection)
        check(connection, path)
    except apsw.Error as error:
        raise translated(error, path) from error
    return connection


def plain(path: str) -> apsw.Connection:
    """A connection that keeps its compiled statements.

    By default SQLite compiles a statement anew whenever a bound value might change its plan: 60 µs instead of 4.
    """
    connection = apsw.Connection(path, statementcachesize=STATEMENTS_MAX)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def configure(connection: apsw.Connection, path: str) -> None:
    """The settings that durability needs."""
    connection.set_busy_timeout(BUSY_MS)
    if path == MEMORY:
        return
    connection.pragma("page_size", PAGE_BYTES)
    mode = _write_ahead(connection)
    if mode != "wal":
        raise UnsafeStore(f"{path} cannot use a write-ahead log (it is in mode {mode})", "use a local disk")
    connection.pragma("synchronous", "full")
    connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)


def _write_ahead(connection: apsw.Connection) -> str:
    """Ask for the write-ahead log, for as long as a busy file is waited for elsewhere.

    Of several connections that turn a new file at once SQLite refuses some immediately: its busy timeout is not for
    them, since two that read and want to write would wait for each other.
    """
    until = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            mode: str = connection.pragma("journal_mode", "wal")
            return mode
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(TURN_S)


SURROUNDINGS = (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.LockedError, apsw.CorruptError, apsw.NoMemError)
"""Errors that are nobody's own: they end the transaction for all who share it."""


def translated(error: BaseException, path: str) -> BaseException:
    """The error a caller can act on; what is not SQLite's passes as it is."""
    if isinstance(error, HeadraceError) or not isinstance(error, apsw.Error):
        return error
    if isinstance(error, apsw.FullError):
        return StoreFull(f"no room left for {path}: nothing was acknowledged", "free some disk space and go on")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Busy(f"{path} is locked by another program", "headrace doctor")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return UnsafeStore(f"{path} cannot be opened for writing: {error}", "check the file's owner and permissions")
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return UnsafeStore(f"{path} is not a SQLite database: {error}", "restore it from a backup")
    if isinstance(error, apsw.IOError):
        return Unknown(f"the disk failed under {path}: {error}", "headrace doctor")
    if isinstance(error, apsw.ConstraintError | apsw.MismatchError | apsw.TooBigError):
        return CallerError(f"{path} refused: {error}")
    if isinstance(error, apsw.SQLError) and _MISSING.search(str(error)):
        return SchemaMismatch(f"{path} lacks a part: {error}", "migrate it: headrace doctor")
    return OperatorError(f"{path}: {error}")
