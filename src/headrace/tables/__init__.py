"""An application's own tables beside the account: named statements, migrations, and one unit of work.

    shop = headrace.tables.Statements("shop")
    async with headrace.connect(url, tables=shop) as engine, engine.transaction() as tx: ...

`open_tables(url, shop)` opens them alone, in a store or in a MySQL or MariaDB database, which is none; `Columns` are
rows by the thousand for one statement. On Cassandra `CassandraTables` has the statements of a package and the leases of
a keyspace, which `apply_schema` makes.
`RequestKeys` keeps requests with an Idempotency-Key there. For code that blocks, and for databases that are no stores,
`PostgresBlockingTables` and `SqliteBlockingTables` run the same statements on one connection of their own. Names are
loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.adapters.cassandra.options import CassandraOptions as CassandraOptions
    from headrace.adapters.cassandra.schema import KeyspacePart as KeyspacePart
    from headrace.adapters.cassandra.schema import Replication as Replication
    from headrace.adapters.cassandra.schema import Strategy as Strategy
    from headrace.adapters.cassandra.schema import apply_schema as apply_schema
    from headrace.adapters.cassandra.tables import CassandraTables as CassandraTables
    from headrace.adapters.postgres.blocking_tables import PostgresBlockingTables as PostgresBlockingTables
    from headrace.adapters.sqlite.blocking_tables import SqliteBlockingTables as SqliteBlockingTables
    from headrace.core.sqlite_values import time_text as time_text
    from headrace.core.table_columns import Coded as Coded
    from headrace.core.table_columns import Columns as Columns
    from headrace.core.table_statements import Row as Row
    from headrace.runtime.open_tables import OpenTables as OpenTables
    from headrace.runtime.unit_of_work import Opened as Opened
    from headrace.runtime.unit_of_work import Ran as Ran
    from headrace.runtime.unit_of_work import UnitOfWork as UnitOfWork
    from headrace.tables.request_keys import REQUEST_KEYS as REQUEST_KEYS
    from headrace.tables.request_keys import RequestKeys as RequestKeys
    from headrace.tables.statements import Statements as Statements
    from headrace.tables.statements import driver_text as driver_text
    from headrace.wiring import open_tables as open_tables

_NAMES = {
    "headrace.tables.statements": ("Statements", "driver_text"),
    "headrace.runtime.unit_of_work": ("UnitOfWork", "Ran", "Opened"),
    "headrace.core.table_statements": ("Row",),
    "headrace.core.sqlite_values": ("time_text",),
    "headrace.core.table_columns": ("Coded", "Columns"),
    "headrace.runtime.open_tables": ("OpenTables",),
    "headrace.wiring": ("open_tables",),
    "headrace.adapters.cassandra.options": ("CassandraOptions",),
    "headrace.adapters.cassandra.schema": ("KeyspacePart", "Replication", "Strategy", "apply_schema"),
    "headrace.adapters.cassandra.tables": ("CassandraTables",),
    "headrace.adapters.postgres.blocking_tables": ("PostgresBlockingTables",),
    "headrace.adapters.sqlite.blocking_tables": ("SqliteBlockingTables",),
    "headrace.tables.request_keys": ("RequestKeys", "REQUEST_KEYS"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.tables' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
