"""The tables in the engine's store: the embedded form, with the write times that Cassandra keeps by itself."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import headrace
from headrace.tables import REQUEST_KEYS, Row, Statements
from headrace_scheduler.tables.job_tables import Write

STATEMENTS = Statements("headrace_scheduler", repeatable=True)
TABLES = (STATEMENTS, REQUEST_KEYS)


class EmbeddedJobTables:
    """`JobTables` on an engine; each call is a transaction of its own."""

    def __init__(self, engine: headrace.Engine) -> None:
        self._engine = engine

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        async with self._engine.transaction() as tx:
            ran = tx.run_many(name, (_plain(values),))
        return ran.rows

    async def together(self, *writes: Write) -> None:
        async with self._engine.transaction() as tx:
            for name, values in writes:
                tx.run_many(name, (_plain(values),))


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {key: str(value) if isinstance(value, UUID) else value for key, value in values.items()}
