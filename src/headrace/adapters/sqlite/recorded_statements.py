"""Recorded statements: what handlers of transactional stages want done in the transaction that settles them.

They are the application's own, on the application's own tables in the same file. A statement is looked at once before
it first runs: it must be a single one, and it may not touch the account, the transaction or the connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby

import apsw
import apsw.ext

from headrace.adapters.sqlite.connections import SURROUNDINGS
from headrace.adapters.sqlite.statements import migrations
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.claims import ERROR_CHARS_MAX, Refused, Statement

APPROVED_MAX = 1_000
FORBIDDEN = {"SQLITE_TRANSACTION", "SQLITE_SAVEPOINT", "SQLITE_PRAGMA", "SQLITE_ATTACH", "SQLITE_DETACH"}
WRITES = {"SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE", "SQLITE_DROP_TABLE", "SQLITE_ALTER_TABLE"}
ROLLS_BACK = re.compile(r"\bOR\s+ROLLBACK\b", re.IGNORECASE)

Group = tuple[int, tuple[Statement, ...]]


# A value that cannot be bound, or that the statement names and nobody gave, is a fault of the item as well.
WRONG = (apsw.Error, Refused, TypeError, ValueError, OverflowError, LookupError)


def apply_recorded(tx: Transaction, statements: Sequence[Statement]) -> tuple[tuple[int, str], ...]:
    """Apply them all, or none: then the answer is which items' statements fail, found by halving."""
    if not statements:
        return ()
    ordered = sorted(statements, key=lambda statement: statement.index)
    groups = [(index, tuple(own)) for index, own in groupby(ordered, key=lambda statement: statement.index)]
    connection = tx.connection
    connection.execute("SAVEPOINT recorded")
    faults = _apply(tx, groups)
    if faults:
        connection.execute("ROLLBACK TO recorded")
    connection.execute("RELEASE recorded")
    return tuple(faults)


def _apply(tx: Transaction, groups: Sequence[Group]) -> list[tuple[int, str]]:
    connection = tx.connection
    connection.execute("SAVEPOINT half")
    try:
        for _, statements in groups:
            for statement in statements:
                check_statement(connection, statement.sql, tx.memory.approved, own_tables())
                connection.execute(statement.sql, statement.values).fetchall()
        connection.execute("RELEASE half")
        return []
    except SURROUNDINGS:
        raise
    except WRONG as error:
        connection.execute("ROLLBACK TO half")
        connection.execute("RELEASE half")
        if len(groups) == 1:
            return [(groups[0][0], f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX])]
    middle = len(groups) // 2
    return _apply(tx, groups[:middle]) + _apply(tx, groups[middle:])


def check_statement(connection: apsw.Connection, sql: str, approved: set[str], own_tables: frozenset[str]) -> None:
    """Refuse a statement that is not one of the application's own changes; what is approved is not looked at again."""
    if sql in approved:
        return
    if _inspect(connection, sql, own_tables):
        raise Refused("one statement at a time")
    if len(approved) < APPROVED_MAX:
        approved.add(sql)


def check_script(connection: apsw.Connection, sql: str, approved: set[str]) -> None:
    """The same for a text that may be several statements."""
    if sql in approved:
        return
    rest = sql
    while rest:
        rest = _inspect(connection, rest, own_tables()).strip()
    approved.add(sql)


def _inspect(connection: apsw.Connection, sql: str, own_tables: frozenset[str]) -> str:
    """Look at the first statement of a text; what is left of the text."""
    try:
        details = apsw.ext.query_info(connection, sql, actions=True)
    except TypeError:
        # It cannot describe a statement that makes an index, a key of a new table included.
        raise Refused("tables and indexes are made before, not by items") from None
    if ROLLS_BACK.search(sql):
        raise Refused("OR ROLLBACK would undo what others do in the same transaction")
    for action in details.actions or ():
        if action.action_name in FORBIDDEN:
            raise Refused(
                f"{action.action_name.removeprefix('SQLITE_')} has no place in a transaction that is not yours"
            )
        if action.action_name in WRITES and action.table_name in own_tables:
            raise Refused(f"the table {action.table_name} belongs to headrace")
    return details.query_remaining or ""


@cache
def own_tables() -> frozenset[str]:
    found = (re.findall(r"CREATE TABLE (\w+)", text) for _, _, text in migrations())
    return frozenset(name for names in found for name in names)
