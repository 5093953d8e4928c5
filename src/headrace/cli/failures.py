"""How a command fails: an exit code a script can read, and words a person can act on."""

from __future__ import annotations

import sys
import traceback
from enum import IntEnum

from headrace.cli.output import print_json
from headrace.core.errors import (
    Busy,
    CallerError,
    Conflict,
    HeadraceError,
    NotFound,
    StoreReplaced,
    Unknown,
    Unreachable,
)


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    TIMED_OUT = 6
    REPLACED = 7
    INTERRUPTED = 130


_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (NotFound, Exit.NOT_FOUND),
    (Conflict, Exit.CONFLICT),
    (CallerError, Exit.USAGE),
    (StoreReplaced, Exit.REPLACED),
    (Unreachable, Exit.UNREACHABLE),
    (Unknown, Exit.UNREACHABLE),
    (Busy, Exit.UNREACHABLE),
    (TimeoutError, Exit.TIMED_OUT),
    (KeyboardInterrupt, Exit.INTERRUPTED),
)


def code_of(error: BaseException) -> Exit:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return Exit.FAILED


def tell(error: BaseException, as_json: bool, debug: bool) -> Exit:
    """Say what happened and what to do about it; the traceback only for those who ask."""
    code = code_of(error)
    if debug and not isinstance(error, KeyboardInterrupt):
        traceback.print_exception(error, file=sys.stderr)
    message = _message(error)
    hint = error.hint if isinstance(error, HeadraceError) else ""
    if as_json:
        print_json({"error": {"kind": type(error).__name__, "message": message, "hint": hint, "exit_code": int(code)}})
    print(f"headrace: {message}", file=sys.stderr)
    if hint:
        print(f"  → {hint}", file=sys.stderr)
    elif code is Exit.FAILED and not debug and not isinstance(error, HeadraceError):
        print("  → the same command with --debug shows where", file=sys.stderr)
    return code


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, HeadraceError) or str(error):
        return str(error) if isinstance(error, HeadraceError | TimeoutError) else f"{type(error).__name__}: {error}"
    return type(error).__name__
