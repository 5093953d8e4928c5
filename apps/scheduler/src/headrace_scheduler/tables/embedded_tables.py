"""The tables in the engine's store: the embedded form, with the write times that Cassandra keeps by itself."""

from __future__ import annotations

from uuid import UUID

import headrace
from headrace.tables import REQUEST_KEYS, Row, Statements

STATEMENTS = Statements("headrace_scheduler", repeatable=True)
TABLES = (STATEMENTS, REQUEST_KEYS)


class EmbeddedJobTables:
    """`JobTables` on an engine; each statement is a transaction of its own."""

    def __init__(self, engine: headrace.Engine) -> None:
        self._engine = engine

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        plain = {key: str(value) if isinstance(value, UUID) else value for key, value in values.items()}
        async with self._engine.transaction() as tx:
            ran = tx.run_many(name, (plain,))
        return ran.rows
