"""Connections: how they are opened, what breaks, and what that means to a caller.

Nothing was sent if there was no connection, and nothing was done if it broke before the COMMIT: `Unreachable`. Once a
COMMIT is on its way the server may have done it: `Unknown`, and only the same write again can tell.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysql import converters
from pymysql.constants import CLIENT, FIELD_TYPE

from headrace.adapters.mysql.options import MysqlOptions, Tls
from headrace.adapters.mysql.statements import own_statements
from headrace.adapters.mysql.wire import MysqlConnection, RefusedLogin
from headrace.core.errors import (
    Busy,
    CallerError,
    HeadraceError,
    OperatorError,
    SchemaMismatch,
    StoreFull,
    TooLarge,
    Unknown,
    Unreachable,
)

# Half-open connections are noticed within half a minute.
_TRANSPORT = {
    socket.TCP_NODELAY: 1,
    socket.TCP_KEEPIDLE: 10,
    socket.TCP_KEEPINTVL: 5,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 20_000,
}
# Bad values are errors, not warnings. Text is quoted as in standard SQL, so that one reading of a statement's
# placeholders is right for every dialect, and no backslash in a value means anything.
SQL_MODE = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,"
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"
)
# A deadlock (also one that a cluster finds at the COMMIT), and a row that changed since it was read.
_AGAIN = {1213, 1020}
# The driver's own for a line that broke, and the server's last words on one: killed, shut down, cannot read or write.
_LOST = {0, 2003, 2006, 2013, 2014, 2055, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031}
_FULL = {1021, 1026, 1114, 1041, 1878, 3675}
_MISSING = {1049, 1054, 1146, 1305, 1091, 1176, 1072}
_NOT_ALLOWED = {1044, 1045, 1142, 1143, 1227, 1290, 1370, 1698, 1792, 1836, 1950, 3889}
# Waited for a lock too long, no room for locks, killed statement, over its time, too many of everything.
_BUSY = {1040, 1099, 1203, 1205, 1206, 1226, 1317, 1614, 1637, 1907, 1969, 3024, 3572}
_TOO_LARGE = {1153, 1301, 2020}
_FAILED_IN_COMMIT = 1180
_UNKNOWN_USER = {1045, 1698}
_UNKNOWN_DATABASE = {1044, 1049}


def connect(options: MysqlOptions, flags: int = CLIENT.FOUND_ROWS) -> MysqlConnection:
    """A connection in autocommit with the session that statements expect. By FOUND_ROWS an UPDATE to equal values has
    found its row; without, it counts as none. Statements of a unit go together, and the server stops at the first that
    fails: MULTI_STATEMENTS."""
    connection = MysqlConnection(
        wants_bulk=options.bulk,
        host=options.host,
        port=options.port,
        user=options.user,
        password=options.password.encode(),
        database=options.database,
        charset="utf8mb4",
        client_flag=flags | CLIENT.MULTI_STATEMENTS,
        autocommit=True,
        local_infile=False,
        conv=_conversions(),
        read_timeout=options.connect_s,
        write_timeout=options.connect_s,
        program_name="headrace",
        auth_plugin_map={} if _is_verified(options) else {"mysql_clear_password": RefusedLogin},
        defer_connect=True,
        **_tls(options),
    )
    try:
        connection.connect(_socket(options))
        _prepare(connection, options)
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        close(connection)
        raise unreachable(options, error) from error
    connection.wait_for_answers(options.answer_s)
    return connection


def close(connection: MysqlConnection) -> None:
    with contextlib.suppress(pymysql.MySQLError, OSError):
        if connection.open:
            connection.close()


def _socket(options: MysqlOptions) -> socket.socket:
    line = socket.create_connection((options.host, options.port), options.connect_s)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TRANSPORT.items():
        line.setsockopt(socket.IPPROTO_TCP, name, value)
    return line


def _prepare(connection: MysqlConnection, options: MysqlOptions) -> None:
    with connection.cursor() as cursor:
        cursor.execute(own_statements()["session"], (SQL_MODE, max(1, round(options.lock_wait_s))))
        cursor.execute(own_statements()["session_isolation"])
        cursor.execute(own_statements()["session_found"])
        ((limit, found),) = cursor.fetchall()
    # Whatever the name says, a packet must be shorter.
    connection.max_allowed_packet = limit - 1
    if not set(SQL_MODE.split(",")) <= set(found.split(",")):
        raise pymysql.OperationalError(1231, f"the session has not the mode it was given but {found}")


def _is_verified(options: MysqlOptions) -> bool:
    return options.tls in (Tls.VERIFY_CA, Tls.VERIFY_IDENTITY)


def _tls(options: MysqlOptions) -> dict[str, Any]:
    """Everything but `preferred` is a context of our own: the driver takes a wish without files for a preference."""
    if options.tls is Tls.DISABLED:
        return {"ssl_disabled": True}
    if options.tls is Tls.PREFERRED and not options.tls_cert:
        return {}
    try:
        context = ssl.create_default_context(cafile=options.tls_ca or None)
        context.check_hostname = options.tls is Tls.VERIFY_IDENTITY
        context.verify_mode = ssl.CERT_REQUIRED if _is_verified(options) else ssl.CERT_NONE
        if options.tls_cert:
            context.load_cert_chain(options.tls_cert, options.tls_key or None)
    except OSError as error:
        raise OperatorError(
            f"the TLS files of {options.where} cannot be used: {error}", "tls_ca, tls_cert, tls_key"
        ) from None
    return {"ssl": context}


def _conversions() -> dict[Any, Any]:
    """As the driver does, but a time is aware: every session is in UTC."""
    found: dict[Any, Any] = dict(converters.conversions)
    return {**found, FIELD_TYPE.DATETIME: _moment, FIELD_TYPE.TIMESTAMP: _moment}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def unreachable(options: MysqlOptions, error: BaseException) -> HeadraceError:
    number = _number(error)
    if number in _UNKNOWN_USER:
        hint = "check the user and the password in the URL"
    elif number in _UNKNOWN_DATABASE:
        hint = "create it first, and grant it to the user: CREATE DATABASE"
    else:
        hint = "is the server running, and are host and port right?"
    return Unreachable(f"the database {options.where} does not answer: {_reason(options, error)}", hint)


def is_again(error: BaseException) -> bool:
    """Whether the whole transaction is simply to be run again: the server has rolled it back."""
    return _number(error) in _AGAIN


def is_broken(connection: MysqlConnection, error: BaseException) -> bool:
    """After words that do not fit together nobody knows what comes next on the line."""
    return not connection.open or _number(error) in _LOST | _TOO_LARGE or isinstance(error, pymysql.InternalError)


def translate(options: MysqlOptions, connection: MysqlConnection, error: BaseException) -> HeadraceError:
    """A driver's error in the words of the tree."""
    is_lost = is_broken(connection, error) and _number(error) not in _TOO_LARGE
    if connection.committing and (is_lost or _number(error) == _FAILED_IN_COMMIT):
        return Unknown(
            f"a COMMIT was sent to {options.where}, and what became of it is not known: {_reason(options, error)}",
            "the same call again tells",
        )
    if is_lost:
        return unreachable(options, error)
    return meaning(_number(error), _reason(options, error), options.where)


def meaning(number: int, reason: str, place: str) -> HeadraceError:
    """A server's error number in the words of the tree: the only such map. Whatever is not known is the statement's own
    fault."""
    if number in _FULL:
        return StoreFull(f"the database {place} has no room: {reason}", "free space on its disk")
    if number in _MISSING:
        return SchemaMismatch(f"the database {place} lacks a part: {reason}", "apply its migrations")
    if number in _NOT_ALLOWED:
        return OperatorError(f"the database {place} forbids it: {reason}", "grant it to the user, and name no replica")
    if number in _BUSY:
        return Busy(f"the database {place} is occupied: {reason}")
    if number in _TOO_LARGE:
        return TooLarge(f"the database {place} takes no packet of that size: {reason}")
    return CallerError(f"the database {place} refused: {reason}")


def _number(error: BaseException) -> int:
    given = error.args[0] if error.args else None
    return given if isinstance(given, int) and isinstance(error, pymysql.MySQLError) else -1


def _reason(options: MysqlOptions, error: BaseException) -> str:
    said = error.args[-1] if error.args else ""
    text = (str(said).strip() or type(error).__name__).splitlines()[0]
    return text.replace(options.password, "***") if options.password else text
