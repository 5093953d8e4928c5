"""Handles on the tables of one MariaDB database."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.adapters.mysql.options import MysqlOptions
from headrace.adapters.mysql.tables import MysqlTables
from headrace.runtime.open_tables import OpenTables
from headrace.testing.contracts.shelf import shelf_of, tables_on


@dataclass(frozen=True, slots=True)
class Handle:
    """Where a contract expects a store, its tables are all there is."""

    tables: MysqlTables


def handle_on(url: str, **options: object) -> Handle:
    return Handle(MysqlTables(replace(MysqlOptions.of(url), **options)))  # type: ignore[arg-type]


async def shelf_on(tables: MysqlTables) -> OpenTables:
    """The contract's tables, made."""
    await tables.migrate("contract", [shelf_of("mysql")])
    return tables_on(tables)
