"""Named statements of an application that keeps its tables in PostgreSQL or SQLite.

They lie in `sql/<dialect>/*.sql` of the application's package. A statement begins with `-- name: some_name` and takes
`:values`; the same name means the same in both dialects.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import LiteralString

from headrace.core.placeholders import pyformat

_NAME = re.compile(r"^-- name: ([a-z_0-9]+)\n", re.MULTILINE)


@cache
def named_statements(package: str, dialect: str) -> dict[str, str]:
    """All statements of a dialect by name, in the order of their files."""
    found: dict[str, str] = {}
    folder = resources.files(package) / "sql" / dialect
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            parts = _NAME.split(file.read_text("utf-8"))
            found.update(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    return found


def driver_text(text: str) -> LiteralString:
    """In psycopg's notation."""
    return pyformat(text).text
