"""An application's tables in a MySQL or MariaDB database, which is no store.

A unit is one transaction of one connection: its mark, its steps in order, COMMIT. A deadlock runs all of it again. A
lock that was not had in time undoes a statement only, so what was done before is rolled back here. If the answer to the
COMMIT is lost, the same unit again meets its mark or waits for the transaction that holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pymysql
from pymysql.constants import ER

from headrace.adapters.connection_lanes import ConnectionLanes
from headrace.adapters.mysql.driver import MysqlDriver
from headrace.adapters.mysql.migrations import migrate_alone, missing_alone
from headrace.adapters.mysql.options import MysqlOptions
from headrace.adapters.mysql.runs import StatementPacket, one, run
from headrace.adapters.mysql.statements import check_statement, own_statements
from headrace.adapters.mysql.values import literal
from headrace.adapters.mysql.wire import MysqlConnection
from headrace.core.claims import Refused
from headrace.core.errors import CallerError, HeadraceError
from headrace.core.table_statements import Row, Step, TableMigration, TableStatement, insist_on, refused
from headrace.core.units import StepDone, Unit, UnitDone
from headrace.ports.tables import TableFeatures

# A unit is sent again for a minute or two; a day is for those who were frozen.
MARKS_KEPT_S = 86_400
# Marks that are let go at a time, each thousandth unit: a transaction of milliseconds.
MARKS_PIECE, UNITS_BETWEEN = 2_000, 1_000
COMMIT = b"COMMIT"


class MysqlTables:
    """`ports.tables.Tables` in one database. Its connections are made when they are first needed."""

    dialect = "mysql"
    features = TableFeatures(account=False, returning=False, transactional_ddl=False)
    driver: type[MysqlDriver] = MysqlDriver
    units_between = UNITS_BETWEEN

    def __init__(self, options: MysqlOptions) -> None:
        self._options = options
        self._opened: ConnectionLanes[MysqlConnection] | None = None
        self._checked: set[str] = set()
        self._units = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[MysqlTables]:
        """For as long as the block runs; nothing is asked of the server before it is needed."""
        tables = cls(MysqlOptions.of(url))
        try:
            yield tables
        finally:
            await asyncio.to_thread(tables.close)

    @property
    def _lanes(self) -> ConnectionLanes[MysqlConnection]:
        if self._opened is None:
            self._opened = ConnectionLanes(self.driver(self._options), "mysql", self._options.lanes)
        return self._opened

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        self._check(statement)
        return await self._lanes.read(lambda connection: one(connection, statement, values)[1])

    async def apply(self, unit: Unit) -> UnitDone:
        if unit.accounts:
            raise CallerError(
                "jobs and events need a store, and mysql is none", "tables only; open the store beside it"
            )
        for step in unit.steps:
            self._check(step.statement)
        if unit.reads:
            return await self._lanes.read(lambda connection: _applied(connection, unit))
        done = await self._lanes.write(lambda connection: apply(connection, unit))
        if not unit.repeatable:
            await self._forget_some()
        return done

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await asyncio.to_thread(migrate_alone, self._options, owner, migrations)

    async def missing(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await asyncio.to_thread(missing_alone, self._options, owner, migrations)

    def close(self) -> None:
        """Give the connections back. Idempotent."""
        if self._opened is not None:
            self._opened.close()

    async def _forget_some(self) -> None:
        """The unit was applied, whatever becomes of this."""
        self._units += 1
        if self._units % self.units_between == 0:
            with contextlib.suppress(HeadraceError):
                await self._lanes.write(forget_marks)

    def _check(self, statement: TableStatement) -> None:
        if statement.text not in self._checked:
            try:
                check_statement(statement.text)
            except Refused as error:
                raise refused(statement.name, str(error)) from None
            self._checked.add(statement.text)


def apply(connection: MysqlConnection, unit: Unit) -> UnitDone:
    """All of it in one transaction. None for the steps of a unit that was applied before.

    What needs no decision in between is one packet: BEGIN, the mark, and every step that is run once. The COMMIT is in
    it too if nothing has to be looked at before, and a repeat is right whatever became of it.
    """
    connection.committing = False
    is_sure = unit.repeatable and all(step.expect is None for step in unit.steps)
    packet = StatementPacket(connection)
    packet.add(b"BEGIN")
    if not unit.repeatable:
        packet.add(own_statements()["unit_insert"].encode() % literal(unit.unit_id).encode())
    try:
        done = _run(connection, packet, unit.steps)
        if not is_sure or not packet.has_room_for(COMMIT):
            done += packet.send()
        packet.add(COMMIT)
        connection.committing = True
        done += packet.send()
    except BaseException as error:
        with contextlib.suppress(pymysql.MySQLError):
            if connection.open:
                connection.rollback()
        if not unit.repeatable and packet.answered == 1 and _is_duplicate(error):
            # One of a transaction that was not over yet was waited for.
            return UnitDone(None, ())
        raise
    connection.committing = False
    return UnitDone(tuple(done), ())


def _run(connection: MysqlConnection, packet: StatementPacket, steps: Sequence[Step]) -> list[StepDone]:
    """The steps in order; the last of them may wait in the packet."""
    done: list[StepDone] = []
    for step in steps:
        if packet.takes(step):
            done += packet.add_step(step)
        else:
            done += packet.send()
            done.append(_step(connection, step))
    return done


def _is_duplicate(error: BaseException) -> bool:
    return isinstance(error, pymysql.IntegrityError) and error.args[0] == ER.DUP_ENTRY


def forget_marks(connection: MysqlConnection) -> None:
    """Let marks go that nobody asks for any more."""
    with connection.cursor() as cursor:
        cursor.execute(own_statements()["units_forget"], (MARKS_KEPT_S, MARKS_PIECE))


def _applied(connection: MysqlConnection, unit: Unit) -> UnitDone:
    connection.committing = False
    packet = StatementPacket(connection)
    done = _run(connection, packet, unit.steps)
    return UnitDone((*done, *packet.send()), ())


def _step(connection: MysqlConnection, step: Step) -> StepDone:
    done = run(connection, step)
    insist_on(step, done.count)
    return done
