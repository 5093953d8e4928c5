"""What an error of SQLite means: the record is at fault, the operator must act, or the same again will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from headrace.errors import (
    Busy,
    HeadraceError,
    OperatorError,
    SchemaMismatch,
    StoreFull,
    Unknown,
    Unreachable,
    UnsafeStore,
)
from headrace_silver.queue.isolation import RecordFault

INIT_HINT = "headrace silver init makes the tables"


def meaning(error: apsw.Error, path: str) -> HeadraceError:
    """The error as everybody else knows it."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path} is in use by another program")
        case apsw.FullError():
            return StoreFull(f"no room left for {path}", "make room on its disk")
        case apsw.CantOpenError():
            return Unreachable(f"{path} cannot be opened: {error}", INIT_HINT)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return UnsafeStore(f"{path} cannot be written: {error}", "check its owner and its permissions")
        case apsw.NotADBError() | apsw.CorruptError():
            return UnsafeStore(f"{path} is no sound SQLite database: {error}", "restore it from a backup")
        case apsw.IOError():
            return Unknown(f"the disk failed under {path}: {error}")
        case apsw.SQLError() if "no such table" in str(error):
            return SchemaMismatch(f"{path}: {error}", INIT_HINT)
    return OperatorError(f"{path}: {error}")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of SQLite leave as ours."""
    try:
        yield
    except apsw.Error as error:
        raise meaning(error, path) from error


@contextmanager
def about_records() -> Iterator[None]:
    """While records are written: what is their own fault leaves as `RecordFault`.

    Text that is no Unicode and numbers that are too large are found before SQLite sees them.
    """
    try:
        yield
    except (ValueError, OverflowError, apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError) as error:
        raise RecordFault(str(error)) from error
