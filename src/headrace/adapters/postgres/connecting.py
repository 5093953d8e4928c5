"""Connections: how they are opened, what breaks, and what that means to a caller.

Nothing was sent if there was no connection: `Unreachable`. Once a write has been handed to a connection that then
broke, the server may have committed it: `Unknown`, and only the same write again can tell.
"""

from __future__ import annotations

import psycopg
from psycopg import conninfo, errors

from headrace.core.errors import Busy, CallerError, HeadraceError, SchemaMismatch, StoreFull, Unknown, Unreachable

Connection = psycopg.Connection[tuple[object, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[object, ...]]
CONNECT_S_MAX = 5

# Half-open connections are noticed within half a minute.
_TRANSPORT: dict[str, object] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_OPTIONS = "-c default_transaction_isolation=read\\ committed -c timezone=UTC"
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure)
_FULL = (errors.DiskFull, errors.OutOfMemory)
_GONE = (errors.InvalidSchemaName, errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn)


def where(url: str) -> str:
    """The store's name for people: never with its password."""
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "postgresql://…"
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{parts.get('host') or 'localhost'}{port}/{parts.get('dbname') or ''}"


def connect(url: str, options: str = "") -> Connection:
    """A connection in autocommit: every verb of the account is one statement."""
    settings = _settings(url, options)
    try:
        return psycopg.connect(autocommit=True, prepare_threshold=0, **settings)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise unreachable(url, error) from None


async def connect_async(url: str) -> AsyncConnection:
    """The same for the event loop. Nothing is prepared: handlers may deallocate what they find."""
    settings = _settings(url)
    try:
        return await psycopg.AsyncConnection.connect(autocommit=True, prepare_threshold=None, **settings)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise unreachable(url, error) from None


def _settings(url: str, options: str = "") -> dict[str, object]:
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise CallerError(
            f"the store URL is not one that PostgreSQL understands: {where(url)}",
            "postgresql://user:password@host:5432/database",
        ) from None
    settings = {**_TRANSPORT, "connect_timeout": CONNECT_S_MAX, "application_name": "headrace", **given}
    settings["options"] = " ".join(filter(None, (str(given.get("options") or ""), _OPTIONS, options)))
    return settings


def unreachable(url: str, error: BaseException) -> Unreachable:
    reason = _first_line(url, error)
    if "authentication failed" in reason or "no password supplied" in reason:
        hint = "check the user and the password in the store URL"
    elif "does not exist" in reason:
        hint = "create it first: createdb"
    else:
        hint = "is the server running, and are host and port right? headrace doctor"
    return Unreachable(f"the store {where(url)} does not answer: {reason}", hint)


def is_again(error: BaseException) -> bool:
    """Whether the whole transaction is simply to be run again."""
    return isinstance(error, _AGAIN)


def is_broken(connection: Connection | AsyncConnection, error: BaseException) -> bool:
    return connection.closed or connection.broken or isinstance(error, errors.AdminShutdown | errors.CrashShutdown)


def translate(url: str, error: psycopg.Error, broken: bool, write: bool) -> HeadraceError:
    """A driver's error in the words of the tree."""
    if broken and write:
        return Unknown(
            f"the connection to {where(url)} broke while a write was under way: {_first_line(url, error)}",
            "the same call again tells",
        )
    if broken:
        return unreachable(url, error)
    if isinstance(error, _FULL):
        return StoreFull(f"the store {where(url)} has no room: {_first_line(url, error)}", "free space on its disk")
    if isinstance(error, _GONE):
        return SchemaMismatch(f"the store {where(url)} lacks a part: {_first_line(url, error)}", "headrace migrate up")
    if isinstance(error, psycopg.OperationalError):
        return Busy(f"the store {where(url)} is occupied: {_first_line(url, error)}")
    return CallerError(f"the store {where(url)} refused: {_first_line(url, error)}")


def _first_line(url: str, error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    try:
        password = conninfo.conninfo_to_dict(url).get("password")
    except psycopg.ProgrammingError:
        password = None
    return text.replace(str(password), "***") if password else text
