"""A value from a payload as an error message may hold it: one line, short, no control characters."""

from __future__ import annotations

from typing import Any

TEXT_CHARS_MAX = 80
NUMBER_CHARS_MAX = 40
ENTRIES_MAX = 5


def shown(value: Any) -> str:
    """Text in quotes, cut and counted if it is long; of a list its first entries; of an object how many keys."""
    if isinstance(value, list):
        entries = [_shown_flat(entry) for entry in value[:ENTRIES_MAX]]
        return f"[{', '.join(entries)}{f', … {len(value)} entries' if len(value) > ENTRIES_MAX else ''}]"
    return _shown_flat(value)


def _shown_flat(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str() if len(value) > TEXT_CHARS_MAX:
            # repr escapes what cannot be printed: a letter must not steer the terminal that shows it.
            return f"{value[:TEXT_CHARS_MAX]!r}… ({len(value)} characters)"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)} keys"
    told = repr(value)
    if isinstance(value, str) or len(told) <= NUMBER_CHARS_MAX:
        return told
    return f"{told[:NUMBER_CHARS_MAX]}… ({len(told)} characters)"
