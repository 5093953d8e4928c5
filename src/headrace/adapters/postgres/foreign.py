"""Statements that are the application's own, run inside transactions of ours.

One is sent as a prepared statement, so the server takes exactly one command, and its first word tells which. It may
change the application's tables; it may not touch ours, the transaction or the session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from headrace.adapters.postgres.calls import one
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.values import stored_values
from headrace.core.claims import Refused
from headrace.core.errors import CallerError
from headrace.core.placeholders import pyformat
from headrace.core.table_statements import TablePart, TableStatement

Row = tuple[Any, ...]
ALLOWED = frozenset({"insert", "update", "delete", "merge", "select", "with", "values", "call"})
_WORDLESS = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_MAKES_TABLE = re.compile(r"CREATE\s+TABLE\b", re.IGNORECASE)
_OURS = re.compile(r'\bheadrace_(?:effect|revoked)\b|\bheadrace"?\s*\.', re.IGNORECASE)


def check_statement(statement: str) -> None:
    """Refuse what is not a change of the application's own tables."""
    bare = _WORDLESS.sub(" ", statement).strip("( \t\r\n;")
    verb = bare.split(None, 1)[0].strip("(;").lower() if bare else ""
    if verb not in ALLOWED and not _MAKES_TABLE.match(bare):
        raise Refused(f"{verb.upper() or 'nothing'} has no place in a transaction that is not yours")
    if found := _OURS.search(bare):
        raise Refused(f"{found.group().rstrip(' .')} belongs to headrace")


def execute(
    connection: Connection, statement: str, values: Mapping[str, Any] | Sequence[Any]
) -> psycopg.Cursor[tuple[object, ...]]:
    """Run one statement; an error of the driver passes as it is."""
    check_statement(statement)
    translated = pyformat(statement)
    translated.check(values)
    return connection.execute(translated.text.encode(), values, prepare=True)


def run(
    connection: Connection,
    statement: TableStatement,
    values: Mapping[str, object],
    prepare: bool | None = None,
    binary: bool = False,
) -> psycopg.Cursor[tuple[object, ...]]:
    """Run a named statement; an error of the server passes as it is, values that are none for it are the caller's."""
    text = pyformat(statement.text).text.encode()
    try:
        return connection.execute(text, stored_values(values), prepare=prepare, binary=binary)
    except (TypeError, ValueError, OverflowError, psycopg.DataError, psycopg.ProgrammingError) as error:
        if isinstance(error, psycopg.Error) and error.sqlstate:
            raise
        raise CallerError(f"{statement.name}: {error}") from error


def make(connection: Connection, part: TablePart) -> None:
    """Make a part of an application's tables, unless somebody has."""
    if not part.creates or not one(connection, "relation_exists", (part.creates,))[0]:
        connection.execute(part.text.encode(), prepare=False)


def dump_answer(cursor: psycopg.Cursor[tuple[object, ...]]) -> str:
    """The rows of a result in the server's own words, with their types."""
    result = cursor.pgresult
    if result is None or not result.nfields:
        return ""
    types = [result.ftype(column) for column in range(result.nfields)]
    rows = [[_text(result.get_value(row, column)) for column in range(result.nfields)] for row in range(result.ntuples)]
    return json.dumps([types, rows], ensure_ascii=False, separators=(",", ":"))


def load_answer(connection: Connection, answer: str | None) -> tuple[Row, ...]:
    """The rows as the driver gives them, today as on the first day."""
    if not answer:
        return ()
    types, rows = json.loads(answer)
    transformer = Transformer(connection)
    loaders = [transformer.get_loader(oid, pq.Format.TEXT) for oid in types]
    return tuple(
        tuple(None if text is None else loader.load(text.encode()) for loader, text in zip(loaders, row, strict=True))
        for row in rows
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
