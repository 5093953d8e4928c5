"""An application's tables in the same database as the account.

A unit is queued whole, from BEGIN to COMMIT, and its answers are read together: one round trip. Where an answer decides
whether it may be committed (rows that were expected, a key that may belong to another job) the COMMIT is a second one.
Connections are lanes of their own, so that an application's long reads do not hold up claims and settlements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors

from headrace.adapters.postgres import submissions
from headrace.adapters.postgres.calls import rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.foreign import check_statement, make, run
from headrace.adapters.postgres.lanes import Lanes, Owner
from headrace.adapters.postgres.outbox import event_values
from headrace.adapters.postgres.statements import statements
from headrace.adapters.postgres.views import missing
from headrace.core.claims import Refused
from headrace.core.errors import CallerError
from headrace.core.table_statements import (
    Row,
    Step,
    TableMigration,
    TablePart,
    TableStatement,
    insist_on,
    pending,
    refused,
)
from headrace.core.units import UNITS, ExternalEvent, StepDone, Unit, UnitDone
from headrace.ports.tables import TableFeatures

Cursor = psycopg.Cursor[tuple[object, ...]]
TABLE_LANES = 8
# An application has some hundred statements, and each is prepared once.
PREPARED_MAX = 500
ANSWER_S_MAX = 60.0


class PostgresTables:
    """`ports.tables.Tables` in one database. Its connections are made when they are first needed. `ring` wakes those
    who wait for work or events."""

    dialect = "postgres"
    features = TableFeatures()

    def __init__(self, url: str, ring: Callable[[bool], None], answer_s_max: float = ANSWER_S_MAX) -> None:
        self._url, self._ring, self._answer_s_max = url, ring, answer_s_max
        self._opened: Lanes | None = None
        self._checked: set[str] = set()

    @property
    def _lanes(self) -> Lanes:
        if self._opened is None:
            self._opened = Lanes(self._url, TABLE_LANES, _prepare, self._answer_s_max)
        return self._opened

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        self._check(statement)
        return await self._lanes.read(lambda connection: _rows(run(connection, statement, values, prepare=True)))

    async def apply(self, unit: Unit) -> UnitDone:
        for step in unit.steps:
            self._check(step.statement)
        done, rang = await self._lanes.write(lambda connection: apply(connection, unit))
        self._ring(rang)
        return done

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await asyncio.to_thread(_alone, self._url, lambda line: _migrate(line, owner, migrations))

    async def missing(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await asyncio.to_thread(_alone, self._url, lambda line: _missing(line, owner, migrations))

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _check(self, statement: TableStatement) -> None:
        if statement.text not in self._checked:
            try:
                check_statement(statement.text)
            except Refused as error:
                raise refused(statement.name, str(error)) from None
            self._checked.add(statement.text)


def apply(connection: Connection, unit: Unit) -> tuple[UnitDone, bool]:
    """All of it in one transaction; and whether somebody should be woken."""
    try:
        return _sent(connection, unit, unit.steps)
    except errors.UniqueViolation as error:
        if (error.diag.schema_name, error.diag.table_name) != ("headrace", "inbox"):
            raise
    # It was applied before. Jobs and events know a repeat by themselves, and say what became of them.
    done, rang = _sent(connection, unit, None)
    return UnitDone(None, done.submitted), rang


@dataclass(slots=True)
class _Sent:
    """The cursors of a unit's statements, in order."""

    steps: list[list[Cursor]]
    submissions: list[Cursor]
    closes: list[Cursor]
    events: Cursor | None = None


def _sent(connection: Connection, unit: Unit, steps: Sequence[Step] | None) -> tuple[UnitDone, bool]:
    if unit.repeatable and steps is not None and len(steps) == 1 and not unit.accounts:
        (step,) = steps
        if len(step.values) == 1 and step.expect is None:
            return UnitDone((_done(step, [run(connection, step.statement, step.values[0], prepare=True)]),), ()), False
    careful = any(step.expect is not None for step in steps or ()) or any(each.key for each in unit.submissions)
    # Whether a stage could be closed is known when it was tried.
    careful = careful or bool(unit.closes)
    sent = _Sent([], [], [])
    try:
        with connection.pipeline() as pipeline:
            connection.execute(statements()["unit_begin"].encode())
            if careful:
                connection.execute(statements()["unit_guard"].encode())
            _queue(connection, unit, steps, sent)
            if careful:
                pipeline.sync()
                judged = _judge(connection, unit, steps or (), sent)
            connection.execute("COMMIT")
        return judged if careful else _judge(connection, unit, steps or (), sent)
    except BaseException as error:
        if not connection.closed:
            connection.rollback()
        if careful and isinstance(error, psycopg.Error):
            _insist_on_answered(steps or (), sent)
        raise


def _queue(connection: Connection, unit: Unit, steps: Sequence[Step] | None, sent: _Sent) -> None:
    if not unit.repeatable and steps is not None:
        _call(connection, "unit_insert", (UNITS, unit.unit_id))
    for step in steps or ():
        sent.steps.append([run(connection, step.statement, values, prepare=True) for values in step.values])
    for submission in unit.submissions:
        body, cargo = submissions.body_of(submission)
        sent.submissions.append(_call(connection, "submit", (body, cargo.payloads, cargo.ends)))
    sent.closes += [_call(connection, "unit_close", (each.event_id, each.job, each.stage)) for each in unit.closes]
    sent.events = _call(connection, "add_events", event_values(unit.events)) if unit.events else None


def _insist_on_answered(steps: Sequence[Step], sent: _Sent) -> None:
    """A statement was refused. If one before it did not what its author expected, that is told, and not what followed
    from it."""
    for step, cursors in zip(steps, sent.steps, strict=False):
        if any(cursor.rowcount < 0 for cursor in cursors):
            return
        insist_on(step, sum(cursor.rowcount for cursor in cursors))


def _judge(connection: Connection, unit: Unit, steps: Sequence[Step], sent: _Sent) -> tuple[UnitDone, bool]:
    """What the answers mean; `Conflict` if the unit may not be committed."""
    done = tuple(_done(step, cursors) for step, cursors in zip(steps, sent.steps, strict=True))
    submitted, rang = [], False
    for submission, cursor in zip(unit.submissions, sent.submissions, strict=True):
        *found, rung = _first(cursor)
        submitted.append(submissions.judged(submission, found))
        rang = rang or rung
    for close, cursor in zip(unit.closes, sent.closes, strict=True):
        rang = _closed(connection, close, _rows(cursor)) or rang
    if sent.events is not None:
        rang = rang or any(_first(sent.events)[0])
    return UnitDone(done, tuple(submitted)), rang


def _closed(connection: Connection, close: ExternalEvent, found: list[Row]) -> bool:
    """Whether somebody should be woken. A stage that opened at the moment of asking is asked again."""
    while found and found[0][0] is None:
        found = rows(connection, "unit_close", (close.event_id, close.job, close.stage))
    if not found and rows(connection, "job_graph", (close.job,)):
        raise CallerError(f"job {close.job} has no external stage {close.stage!r}")
    if not found:
        raise missing(close.job)
    return bool(found[0][1])


def _done(step: Step, cursors: Sequence[Cursor]) -> StepDone:
    count = sum(max(0, cursor.rowcount) for cursor in cursors)
    insist_on(step, count)
    return StepDone(tuple(row for cursor in cursors for row in _rows(cursor)), count)


def _rows(cursor: Cursor) -> list[Row]:
    return cursor.fetchall() if cursor.description else []


def _first(cursor: Cursor) -> Row:
    return _rows(cursor)[0]


def _call(connection: Connection, name: str, values: Sequence[Any]) -> Cursor:
    return connection.cursor(binary=True).execute(statements()[name].encode(), values)


def _alone(url: str, work: Callable[[Connection], list[str]]) -> list[str]:
    """On a connection of its own, which nobody cuts: an index on a large table takes as long as it takes."""
    own = Owner(url, _prepare)
    try:
        return own.run(work, write=True)
    finally:
        own.close()


def _migrate(connection: Connection, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    if not pending(owner, migrations, _applied(connection, owner)):
        return []
    with connection.transaction():
        rows(connection, "table_lock", (owner,))
        missing = pending(owner, migrations, _applied(connection, owner))
        for migration in missing:
            for part in migration.parts:
                _make(connection, migration, part)
            _call(connection, "table_migrated", (owner, migration.number, migration.name))
    return [migration.name for migration in missing]


def _missing(connection: Connection, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    return [migration.name for migration in pending(owner, migrations, _applied(connection, owner))]


def _applied(connection: Connection, owner: str) -> list[int]:
    return [number for (number,) in rows(connection, "table_migrations", (owner,))]


def _make(connection: Connection, migration: TableMigration, part: TablePart) -> None:
    if "headrace." in part.text:
        raise refused(migration.name, "the schema headrace belongs to headrace")
    make(connection, part)


def _prepare(connection: Connection) -> None:
    connection.prepared_max = PREPARED_MAX
