"""Tables that an application keeps in PostgreSQL or SQLite: named statements, and the values that pass through them."""

from __future__ import annotations

from headrace.tables.sqlite_values import Row as Row
from headrace.tables.sqlite_values import python_rows as python_rows
from headrace.tables.sqlite_values import stored as stored
from headrace.tables.sqlite_values import stored_values as stored_values
from headrace.tables.sqlite_values import time_text as time_text
from headrace.tables.statements import driver_text as driver_text
from headrace.tables.statements import named_statements as named_statements

__all__ = ["named_statements", "driver_text", "Row", "stored", "stored_values", "time_text", "python_rows"]
