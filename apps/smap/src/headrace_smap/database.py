"""Where smap keeps what must not be lost: tables of its own in the engine's store, PostgreSQL or a SQLite file.

Who reads or writes asks for a statement by its name, which exists in both dialects. Every statement can be sent again
after a lost answer: that is how an unknown outcome is resolved. Tables that others made are left as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import headrace
from headrace.ports import Event
from headrace.tables import REQUEST_KEYS, Statements
from headrace.tables import Row as Row

Step = tuple[str, Mapping[str, object]]
"""The name of a statement and its values."""
STATEMENTS = Statements(__package__, repeatable=True)
TABLES = (STATEMENTS, REQUEST_KEYS)
DATABASE_FILE = "smap.db"


class Database:
    """smap's statements on an engine. Any number of calls may run at once."""

    def __init__(self, engine: headrace.Engine) -> None:
        self._engine = engine

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """One named statement in a transaction of its own."""
        return (await self.transact((name, values)))[0]

    async def transact(self, *steps: Step) -> list[list[Row]]:
        """Named statements in one transaction, all or nothing; the rows of each. One whose answer was lost is sent
        again, so rows of `RETURNING` may be missing for what the first time had written."""
        async with self._engine.transaction() as tx:
            ran = [tx.run_many(name, (values,)) for name, values in steps]
        return [each.rows for each in ran]

    async def commit(self, *steps: Step, events: Sequence[Event], insist: str = "") -> None:
        """Named statements and events for the outbox in one transaction, all or nothing. `Conflict`: the statement
        `insist` found no row, and nothing was done."""
        async with self._engine.transaction() as tx:
            for name, values in steps:
                tx.run_many(name, (values,), expect=1 if name == insist else None)
            tx.publish(*events)


@asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Database]:
    """The database alone, with its tables, for as long as the block runs."""
    async with headrace.connect(url, tables=TABLES) as engine:
        yield Database(engine)
