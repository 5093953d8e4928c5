"""Tables of an application: what a unit of work may hold together. In a store also with the account, which is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.core.table_statements import Row, TableMigration, TableStatement
from headrace.core.units import Unit, UnitDone


@dataclass(frozen=True, slots=True)
class TableFeatures:
    """What an adapter cannot do is said here, and the contract suite deselects by it.

    `account`: jobs and events may be part of a unit, because the database is a store. `returning`: a change returns
    its rows. `transactional_ddl`: what migrations make is undone with them; elsewhere a migration that failed goes on
    where it stopped.
    """

    account: bool = True
    returning: bool = True
    transactional_ddl: bool = True


class Tables(Protocol):
    """Values are Python's: aware times, dates, booleans, bytes, numbers, text; a list or dictionary is JSON, a tuple
    an array (JSON where there are none). Any number of calls may run at once."""

    @property
    def dialect(self) -> str:
        """Which statements it takes: the name of their folder."""

    @property
    def features(self) -> TableFeatures: ...

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        """The rows of one statement that only reads, as of one instant."""

    async def apply(self, unit: Unit) -> UnitDone:
        """Apply a unit in one transaction: steps in order, then jobs, then events.

        A step that changes another number of rows than it expects is a `Conflict`, a statement that the database
        refuses or that touches the account a `CallerError`, and nothing of the unit remains. Sent again after `Unknown`
        it is applied once: a unit that is not repeatable by its id, a repeatable one because that is what it says.
        """

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        """Apply those that are missing, each once, in one transaction where there are such (`transactional_ddl`); their
        names. Several may do so at once. Nothing is asked of a role for what is there. `SchemaMismatch` if the tables
        are newer than the last migration."""

    async def missing(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        """The names of those that `migrate` would apply. Nothing is changed."""
