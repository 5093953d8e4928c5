"""An application's own tables beside the account: named statements, migrations, and one unit of work.

    shop = headrace.tables.Statements("shop")
    async with headrace.connect(url, tables=shop) as engine, engine.transaction() as tx: ...

For an application with connections of its own there are the texts of statements, and Python's values as SQLite holds
them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.core.sqlite_values import python_rows as python_rows
from headrace.core.sqlite_values import stored as stored
from headrace.core.sqlite_values import stored_values as stored_values
from headrace.core.sqlite_values import time_text as time_text
from headrace.core.units import Row as Row
from headrace.runtime.unit_of_work import Opened as Opened
from headrace.runtime.unit_of_work import Ran as Ran
from headrace.runtime.unit_of_work import UnitOfWork as UnitOfWork
from headrace.tables.statements import Statements as Statements
from headrace.tables.statements import driver_text as driver_text
from headrace.tables.statements import named_statements as named_statements

if TYPE_CHECKING:
    from headrace.tables.request_keys import REQUEST_KEYS as REQUEST_KEYS
    from headrace.tables.request_keys import RequestKeys as RequestKeys

__all__ = [
    "REQUEST_KEYS",
    "RequestKeys",
    "Statements",
    "UnitOfWork",
    "Ran",
    "Opened",
    "Row",
    "named_statements",
    "driver_text",
    "stored",
    "stored_values",
    "time_text",
    "python_rows",
]


def __getattr__(name: str) -> Any:
    # They need the HTTP kit, which is an extra.
    if name in ("REQUEST_KEYS", "RequestKeys"):
        return getattr(importlib.import_module("headrace.tables.request_keys"), name)
    raise AttributeError(f"module 'headrace.tables' has no attribute {name!r}")
