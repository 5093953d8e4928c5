"""An application's tables in the same file as the account.

Reads have a snapshot each. A unit is one piece of the writer's work: it shares a commit with whatever else is queued,
behind a savepoint of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headrace.adapters.sqlite import operations, submissions
from headrace.adapters.sqlite.foreign import make, rows
from headrace.adapters.sqlite.outbox import add_event
from headrace.adapters.sqlite.recorded_statements import check_script
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.claims import Refused
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
from headrace.core.units import UNITS, StepDone, Unit, UnitDone
from headrace.ports.tables import TableFeatures

_OURS = re.compile(r"\bheadrace_\w+", re.IGNORECASE)


class SqliteTables:
    """`ports.tables.Tables` on one file."""

    dialect = "sqlite"
    features = TableFeatures()

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        return await self._transactions.read(lambda tx: _rows(tx, statement, values))

    async def apply(self, unit: Unit) -> UnitDone:
        run = self._transactions.read if unit.reads else self._transactions.write
        return await run(lambda tx: apply(tx, unit))

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._transactions.write(lambda tx: _migrate(tx, owner, migrations))

    async def missing(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        found = await self._transactions.read(lambda tx: _missing(tx, owner, migrations))
        return [migration.name for migration in found]


def apply(tx: Transaction, unit: Unit) -> UnitDone:
    """All of it in the transaction that is open; what is raised undoes all of it."""
    marked = unit.repeatable or tx.value("inbox_insert", subscription=UNITS, event_id=unit.unit_id, now=tx.wall())
    steps = tuple(_run(tx, step) for step in unit.steps) if marked else None
    submitted = tuple(submissions.submit(tx, submission) for submission in unit.submissions)
    for close in unit.closes:
        operations.close_external(tx, close.job, close.stage, close.event_id)
    for event in unit.events:
        add_event(tx, event)
    return UnitDone(steps, submitted)


def _run(tx: Transaction, step: Step) -> StepDone:
    returned: list[Row] = []
    count = 0
    for values in step.values:
        found = _rows(tx, step.statement, values)
        returned += found
        count += len(found) if step.statement.reads else tx.connection.changes()
    insist_on(step, count)
    return StepDone(tuple(returned), count)


def _rows(tx: Transaction, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
    try:
        check_script(tx.connection, statement.text, tx.memory.approved)
    except Refused as error:
        raise refused(statement.name, str(error)) from None
    return rows(tx.connection, statement, values)


def _migrate(tx: Transaction, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    missing = _missing(tx, owner, migrations)
    for migration in missing:
        for part in migration.parts:
            _make(tx, migration, part)
        tx.run("table_migrated", owner=owner, number=migration.number, name=migration.name, now=tx.wall())
    return [migration.name for migration in missing]


def _missing(tx: Transaction, owner: str, migrations: Sequence[TableMigration]) -> list[TableMigration]:
    return pending(owner, migrations, [number for (number,) in tx.all("table_migrations", owner=owner)])


def _make(tx: Transaction, migration: TableMigration, part: TablePart) -> None:
    if found := _OURS.search(part.text):
        raise refused(migration.name, f"{found[0]} belongs to headrace")
    make(tx.connection, part)
