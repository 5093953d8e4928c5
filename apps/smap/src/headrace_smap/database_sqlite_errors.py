"""What an error of SQLite means, by who must act."""

from __future__ import annotations

import apsw

from headrace.errors import (
    Busy,
    CallerError,
    HeadraceError,
    OperatorError,
    SchemaMismatch,
    StoreFull,
    Unknown,
    Unreachable,
    UnsafeStore,
)

SURROUNDINGS = (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.NoMemError, apsw.BusyError)
"""Not the fault of one statement: everything that shares the commit fails with it."""


def meaning(error: BaseException, path: str) -> BaseException:
    """The error as everybody else knows it; what is none of SQLite's stays as it is."""
    return _meaning(error, path) if isinstance(error, apsw.Error) else error


def _meaning(error: apsw.Error, path: str) -> HeadraceError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path} is in use by another program")
        case apsw.FullError():
            return StoreFull(f"no room left for {path}", "make room on its disk")
        case apsw.CantOpenError():
            return Unreachable(f"{path} cannot be opened: {error}", "is SMAP_HOME a directory to write to?")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return UnsafeStore(f"{path} cannot be written: {error}", "check its owner and its permissions")
        case apsw.NotADBError() | apsw.CorruptError():
            return UnsafeStore(f"{path} is no sound SQLite database: {error}", "restore it from a backup")
        case apsw.IOError():
            return Unknown(f"the disk failed under {path}: {error}")
        case apsw.ConstraintError() | apsw.MismatchError() | apsw.TooBigError():
            return CallerError(f"{path}: {error}")
        case apsw.SQLError() if "no such table" in str(error) or "no such column" in str(error):
            return SchemaMismatch(f"{path}: {error}", "start a service of smap once: it makes the tables")
    return OperatorError(f"{path}: {error}")
