"""The driver's errors as headrace's: refused, unknown and unreachable apart.

*Refused*: the server took the statement for wrong, and nothing was done. *Unreachable* or *busy*: it was not begun, or
only read. *Unknown*: a write was sent, and whether it is applied is for a serial read to say. What is not recognised
counts as unknown where something may have been written.
"""

from __future__ import annotations

import re

import cassandra
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import (
    BadCredentials,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    SyntaxException,
)

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

_ABSENT = re.compile(r"unconfigured table|does not exist|unconfigured columnfamily|undefined column", re.IGNORECASE)
_DENIED = (cassandra.AuthenticationFailed, cassandra.Unauthorized, BadCredentials)
_NOT_BEGUN = (OverloadedErrorMessage, IsBootstrappingErrorMessage)
SCHEMA_HINT = "apply the schema to the keyspace, e.g. headrace scheduler schema"


def failure(error: Exception, statement: CqlStatement) -> HeadraceError:
    """What an error of a statement means for its caller."""
    said = f"{statement.name}: {error}"
    refused = refusal(error, said)
    if refused is not None:
        return refused
    if isinstance(error, NoHostAvailable):
        return Unreachable(f"no Cassandra node takes {said}")
    if isinstance(error, _NOT_BEGUN):
        return Busy(said)
    # A conditional write can run out of replicas between its proposal and its commit.
    if isinstance(error, cassandra.Unavailable) and not statement.conditional:
        return Unreachable(said)
    return Unreachable(said) if statement.reads else Unknown(said)


def refusal(error: Exception, said: str) -> HeadraceError | None:
    """The error of a statement that the server surely did not execute; None: it may have."""
    if isinstance(error, _DENIED):
        return OperatorError(said, "user and password stand in the URL")
    if isinstance(error, cassandra.InvalidRequest | SyntaxException | cassandra.ConfigurationException):
        return SchemaMismatch(said, SCHEMA_HINT) if _ABSENT.search(str(error)) else CallerError(said)
    if isinstance(error, TypeError | ValueError):
        return CallerError(said)
    return None


def connect_failure(error: Exception, where: str) -> HeadraceError:
    """Why there is no session."""
    said = f"{where}: {error}"
    refused = refusal(error, said)
    if refused is not None:
        return refused
    inner = error.errors.values() if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict) else ()
    denied = next((each for each in inner if isinstance(each, _DENIED)), None)
    if denied is not None:
        return OperatorError(f"{where}: {denied}", "user and password stand in the URL")
    return Unreachable(f"no Cassandra node answers at {said}")
