"""Recorded statements: what handlers of transactional stages want done in the transaction that settles them.

They are the application's own, on the application's own tables in the same database. The fence is checked first and the
tallies come last. A bad item is found by halving, with savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import psycopg

from headrace.adapters.postgres.calls import Row, rows
from headrace.adapters.postgres.connections import Connection, is_again, is_broken
from headrace.adapters.postgres.foreign import execute
from headrace.core.claims import ERROR_CHARS_MAX, Refused, Settled, Settlement, Statement

Group = tuple[int, tuple[Statement, ...]]
Settle = Callable[[Connection, Sequence[Settlement]], Row]


class _Rollback(Exception):
    """Undo what this settlement did; others of the same call stand."""


def settle_recorded(
    connection: Connection, settlements: Sequence[Settlement], settle: Settle
) -> tuple[list[Settled], bool]:
    """Settle in order, in one transaction; each settlement whole with its statements, or not at all."""
    answers: list[Settled] = []
    rang = False
    with connection.transaction():
        rows(connection, "lock_claims", ([settlement.fence for settlement in settlements],))
        for settlement in settlements:
            try:
                with connection.transaction():
                    answer, rung = _settle_one(connection, settlement, settle)
                    rang = rang or rung
            except _Rollback as undone:
                (answer,) = undone.args
            answers.append(answer)
    return answers, rang


def _settle_one(connection: Connection, settlement: Settlement, settle: Settle) -> tuple[Settled, bool]:
    refusal = _refusal(connection, settlement)
    if refusal is not None:
        return Settled(settlement.fence, not refusal, refusal), False
    ordered = sorted(settlement.statements, key=lambda statement: statement.index)
    faults = _apply(connection, [(i, tuple(own)) for i, own in groupby(ordered, key=lambda statement: statement.index)])
    if faults:
        raise _Rollback(Settled(settlement.fence, False, "statements", tuple(faults)))
    (reason,), rang = settle(connection, [settlement])
    if reason:
        raise _Rollback(Settled(settlement.fence, False, reason))
    return Settled(settlement.fence, True), rang


def _refusal(connection: Connection, settlement: Settlement) -> str | None:
    found = rows(connection, "refusal", (settlement.step, settlement.fence))
    return found[0][0] if found else "lost"


def _apply(connection: Connection, groups: Sequence[Group]) -> list[tuple[int, str]]:
    """Apply them all, or say which items' statements fail."""
    try:
        with connection.transaction():
            for _, statements in groups:
                for statement in statements:
                    execute(connection, statement.sql, statement.values)
            return []
    except (psycopg.Error, Refused, TypeError, ValueError, OverflowError) as error:
        if _is_surroundings(connection, error):
            raise
        if len(groups) == 1:
            return [(groups[0][0], f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX])]
    middle = len(groups) // 2
    return _apply(connection, groups[:middle]) + _apply(connection, groups[middle:])


def _is_surroundings(connection: Connection, error: Exception) -> bool:
    """Not the item's fault: the connection, the disk, or a fight over rows that the whole transaction repeats. A
    statement that the server gave up may take as long the next time, so whoever waited might wait for ever."""
    if isinstance(error, psycopg.errors.QueryCanceled):
        return False
    return is_again(error) or is_broken(connection, error) or isinstance(error, psycopg.OperationalError)
