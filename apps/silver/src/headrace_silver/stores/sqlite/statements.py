"""Our statements in SQLite's words.

What PostgreSQL has a type for is spelled out where a column is declared: `{now}` is the time of a default, and
`{is_time(column)}` and `{has_no_escaped_nul(column)}` are conditions of a CHECK.
"""

from __future__ import annotations

import re

from headrace.ports import TablePart
from headrace_silver.stores.silver_store import parts, statements

_NOW = "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')"
# Only whole seconds are checked as a moment: SQLite rounds to milliseconds and would carry 59.9999 to the next minute.
_IS_TIME = (
    r"strftime('%Y-%m-%dT%H:%M:%S', substr(\1, 1, 19)) || substr(\1, 20) IS \1 AND \1 >= '0001' AND "
    r"substr(\1, 20) GLOB '.[0-9][0-9][0-9][0-9][0-9][0-9]+00:00'"
)
# An escaped backslash before u0000 makes it plain text: with all pairs gone, the backslash that is left escapes.
_HAS_NO_ESCAPED_NUL = r"(instr(\1, '\\u0000') = 0 OR instr(replace(\1, '\\\\', ''), '\\u0000') = 0)"
_WORDS = ((r"{now}", _NOW), (r"{is_time\((\w+)\)}", _IS_TIME), (r"{has_no_escaped_nul\((\w+)\)}", _HAS_NO_ESCAPED_NUL))


def statement(name: str) -> str:
    """A statement by its name."""
    return statements("sqlite")[name].text


def spelled_parts() -> list[TablePart]:
    """What makes the tables."""
    found = []
    for part in parts("sqlite"):
        text = part.text
        for pattern, meaning in _WORDS:
            text = re.sub(pattern, meaning, text)
        found.append(TablePart(part.creates, text))
    return found
