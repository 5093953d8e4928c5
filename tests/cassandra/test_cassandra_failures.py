"""Errors of the driver by what they mean: refused, not begun, unknown."""

from __future__ import annotations

import cassandra
import pytest
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.protocol import OverloadedErrorMessage, ServerError

from headrace.adapters.cassandra.failures import connect_failure, failure
from headrace.adapters.cassandra.statements import CqlStatement
from headrace.core.errors import (
    Busy,
    CallerError,
    HeadraceError,
    OperatorError,
    SchemaMismatch,
    Unknown,
    Unreachable,
)

READ = CqlStatement.of("look", "SELECT a FROM t")
WRITE = CqlStatement.of("put", "UPDATE t SET a = 1 WHERE b = 2")
CONDITIONAL = CqlStatement.of("swap", "UPDATE t SET a = 1 WHERE b = 2 IF a = 0")
TIMED_OUT = cassandra.OperationTimedOut()
UNAVAILABLE = cassandra.Unavailable("too few replicas")


@pytest.mark.parametrize(
    ("error", "read", "write", "conditional"),
    [
        (TIMED_OUT, Unreachable, Unknown, Unknown),
        (ConnectionShutdown("gone"), Unreachable, Unknown, Unknown),
        (cassandra.WriteTimeout("late", write_type=cassandra.WriteType.CAS), Unreachable, Unknown, Unknown),
        (cassandra.WriteFailure("no", write_type=cassandra.WriteType.CAS), Unreachable, Unknown, Unknown),
        (cassandra.ReadTimeout("late"), Unreachable, Unknown, Unknown),
        (ServerError(0, "oh", None), Unreachable, Unknown, Unknown),
        (RuntimeError("nobody knows"), Unreachable, Unknown, Unknown),
        (UNAVAILABLE, Unreachable, Unreachable, Unknown),
        (NoHostAvailable("none", {}), Unreachable, Unreachable, Unreachable),
        (OverloadedErrorMessage(0x1001, "busy", None), Busy, Busy, Busy),
        (cassandra.InvalidRequest("unconfigured table t"), SchemaMismatch, SchemaMismatch, SchemaMismatch),
        (cassandra.InvalidRequest("no viable alternative"), CallerError, CallerError, CallerError),
        (cassandra.Unauthorized("who are you"), OperatorError, OperatorError, OperatorError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_means_one_thing_for_each_kind_of_statement(
    error: Exception, read: type[HeadraceError], write: type[HeadraceError], conditional: type[HeadraceError]
) -> None:
    found = [type(failure(error, statement)) for statement in (READ, WRITE, CONDITIONAL)]
    assert found == [read, write, conditional]


def test_a_wrong_password_is_for_the_operator_and_does_not_heal() -> None:
    denied = NoHostAvailable("none", {"host": cassandra.AuthenticationFailed("bad credentials")})
    found = connect_failure(denied, "host:9042")
    assert (type(found), found.heals) == (OperatorError, False)
    assert connect_failure(NoHostAvailable("none", {"host": OSError("refused")}), "host:9042").heals
