"""Statements that are the application's own, on tables of its own: values go in and come out as Python has them."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from headrace.adapters.sqlite.statements import load_statements
from headrace.core.errors import CallerError
from headrace.core.sqlite_values import Row, python_rows, stored_values
from headrace.core.table_statements import TablePart, TableStatement


def rows(connection: apsw.Connection, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
    """Run a statement; an error of the database passes as it is, values that are none for it are the caller's fault."""
    try:
        cursor = connection.execute(statement.text, stored_values(values))
        try:
            description = cursor.get_description()
        except apsw.ExecutionCompleteError:
            return []
        return python_rows(description, cursor.fetchall())
    except (TypeError, ValueError, OverflowError) as error:
        raise CallerError(f"{statement.name}: {error}") from error


def make(connection: apsw.Connection, part: TablePart) -> None:
    """Make a part of an application's tables, unless somebody has."""
    found = part.creates and connection.execute(load_statements()["relation_exists"], {"name": part.creates}).fetchall()
    if not found:
        connection.execute(part.text).fetchall()
