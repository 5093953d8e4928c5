"""Connections: how they are opened, what breaks, and what that means to a caller.

Nothing was sent if there was no connection: `Unreachable`. Once a write has been handed to a connection that then
broke, the server may have committed it: `Unknown`, and only the same write again can tell.
"""

from __future__ import annotations

import psycopg
from psycopg import conninfo, errors, pq

from headrace.core.errors import (
    Busy,
    CallerError,
    HeadraceError,
    OperatorError,
    SchemaMismatch,
    StoreFull,
    Unknown,
    Unreachable,
)

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
_SESSION = "SET default_transaction_isolation = 'read committed'; SET TIME ZONE 'UTC'"
# What libpq reads from its own variables unless it is stated.
_LIBPQ_STATES = ("connect_timeout", "options")
# A transaction that lost a deadlock or a race.
_LOST_RACE = "40001"
_AGAIN = ("40P01", _LOST_RACE)
# SQLSTATE, whole or by its class. Connection exceptions, and the server's own shutdown, crash and start.
_LOST = ("08", "57P")
_FULL = ("53100", "53200")
_MISSING = ("3F000", "42P01", "42883", "42703")
# A privilege that the role lacks, and a server that takes no writes: a standby.
_NOT_ALLOWED = ("42501", "25006")
# A fight over rows, lack of resources, a lock that cannot be had, a cancelled statement, trouble of the system itself.
_BUSY = ("40", "53", "55", "57", "58")
_CONNECTION_FAILURE = "08006"
# What a call meets while `migrate up` puts another function in the place of one that it uses. The server has one state
# for all that goes wrong inside of it; these words are never translated. A server that counts calls (`track_functions`)
# notices before, in its own language: there the place in its code tells.
_INTERNAL, _REMADE = "XX000", "cache lookup failed for function"
_UNDEFINED, _COUNTS_CALLS = "42883", "pgstat_init_function_usage"


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


def connect_apart(url: str, program: str) -> Connection:
    """A connection to a database that need not be a store. It logs in without options, because a pooler refuses those
    that it cannot keep track of."""
    settings = {**_stated(url), "client_encoding": "utf8", "fallback_application_name": program}
    try:
        connection = psycopg.connect(autocommit=True, **settings)  # type: ignore[arg-type]
        connection.execute(_SESSION)
    except psycopg.Error as error:
        raise unreachable(url, error, program) from None
    return connection


def _settings(url: str, options: str = "") -> dict[str, object]:
    settings = _stated(url)
    settings["options"] = " ".join(filter(None, (str(settings.get("options") or ""), _OPTIONS, options)))
    return settings


def _stated(url: str) -> dict[str, object]:
    """What the URL or libpq's own variables say, and ours where they say nothing."""
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise CallerError(
            f"the store URL is not one that PostgreSQL understands: {where(url)}",
            "postgresql://user:password@host:5432/database",
        ) from None
    own = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
    from_libpq = {name: value.decode() for name in _LIBPQ_STATES if (value := own.get(name))}
    ours = {**_TRANSPORT, "connect_timeout": CONNECT_S_MAX, "fallback_application_name": "headrace"}
    return {**ours, **from_libpq, **given}


def unreachable(url: str, error: BaseException, program: str = "headrace") -> Unreachable:
    """`program` is the one whose `doctor` knows this database."""
    reason = _first_line(url, error)
    if "authentication failed" in reason or "no password supplied" in reason:
        hint = "check the user and the password in the store URL"
    elif "does not exist" in reason:
        hint = "create it first: createdb"
    else:
        hint = f"is the server running, and are host and port right? {program} doctor"
    return Unreachable(f"the store {where(url)} does not answer: {reason}", hint)


def is_again(error: BaseException) -> bool:
    """Whether the whole transaction is simply to be run again."""
    return isinstance(error, psycopg.Error) and _state(error) in _AGAIN


def _state(error: object) -> str:
    """The SQLSTATE of a driver's error, if it has one. A call whose functions were made anew has lost a race."""
    state = str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
    if state == _INTERNAL and _REMADE in str(error):
        return _LOST_RACE
    if state == _UNDEFINED and getattr(getattr(error, "diag", None), "source_function", None) == _COUNTS_CALLS:
        return _LOST_RACE
    return state


def is_broken(connection: Connection | AsyncConnection, error: BaseException) -> bool:
    return connection.closed or connection.broken or isinstance(error, errors.AdminShutdown | errors.CrashShutdown)


def translate(url: str, error: psycopg.Error, broken: bool, write: bool) -> HeadraceError:
    """A driver's error in the words of the tree."""
    if broken and not write:
        return unreachable(url, error)
    return meaning(_CONNECTION_FAILURE if broken else _state(error), _first_line(url, error), where(url), write)


def meaning(state: str, reason: str, place: str, write: bool) -> HeadraceError:
    """A SQLSTATE in the words of the tree: the only such map. Whatever is not known is the statement's own fault."""
    if state.startswith(_LOST) and write:
        return Unknown(
            f"the connection to {place} broke while a write was under way: {reason}", "the same call again tells"
        )
    if state.startswith(_LOST):
        return Unreachable(f"the store {place} does not answer: {reason}", "is the server running?")
    if state in _FULL:
        return StoreFull(f"the store {place} has no room: {reason}", "free space on its disk")
    if state in _MISSING:
        return SchemaMismatch(f"the store {place} lacks a part: {reason}", "headrace migrate up")
    if state in _NOT_ALLOWED:
        return OperatorError(
            f"the store {place} forbids it: {reason}", "grant the role what docs/postgres.md lists, and name no standby"
        )
    if state.startswith(_BUSY):
        return Busy(f"the store {place} is occupied: {reason}")
    return CallerError(f"the store {place} refused: {reason}")


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE of a driver's error, also behind the face that a library gave it. None: it is no driver's error."""
    for found in (error, getattr(error, "orig", None), error.__cause__):
        if state := _state(found):
            return state
        if isinstance(found, psycopg.OperationalError | psycopg.InterfaceError):
            return _CONNECTION_FAILURE
        if isinstance(found, psycopg.Error):
            return ""
    return None


def _first_line(url: str, error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    try:
        password = conninfo.conninfo_to_dict(url).get("password")
    except psycopg.ProgrammingError:
        password = None
    return text.replace(str(password), "***") if password else text
