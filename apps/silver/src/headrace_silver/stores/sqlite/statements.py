"""Our statements in SQLite's words.

What PostgreSQL has a type for is spelled out where a column is declared: `{now}` is the time of a default, and
`{is_time(column)}` and `{has_no_escaped_nul(column)}` are conditions of a CHECK.
"""

from __future__ import annotations

import re
from functools import cache

from headrace_silver.stores.silver_store import statements

_NOW = "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')"
# Only whole seconds are checked as a moment: SQLite rounds to milliseconds and would carry 59.9999 to the next minute.
_IS_TIME = (
    r"strftime('%Y-%m-%dT%H:%M:%S', substr(\1, 1, 19)) || substr(\1, 20) IS \1 AND \1 >= '0001' AND "
    r"substr(\1, 20) GLOB '.[0-9][0-9][0-9][0-9][0-9][0-9]+00:00'"
)
# An escaped backslash before u0000 makes it plain text: with all pairs gone, the backslash that is left escapes.
_HAS_NO_ESCAPED_NUL = r"(instr(\1, '\\u0000') = 0 OR instr(replace(\1, '\\\\', ''), '\\u0000') = 0)"
_WORDS = ((r"{now}", _NOW), (r"{is_time\((\w+)\)}", _IS_TIME), (r"{has_no_escaped_nul\((\w+)\)}", _HAS_NO_ESCAPED_NUL))


@cache
def statement(name: str) -> str:
    """A statement by its name."""
    text = statements("sqlite")[name]
    for pattern, meaning in _WORDS:
        text = re.sub(pattern, meaning, text)
    return text


@cache
def creating() -> str:
    """Everything that makes a table or an index, each only where it is missing."""
    return ";\n".join(statement(name).rstrip(";") for name in statements("sqlite") if name.startswith("create_"))
