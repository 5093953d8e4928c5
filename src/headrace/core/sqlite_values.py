"""Python's values as SQLite holds them, and back, for applications that keep tables of their own in a SQLite file.

A time is text in UTC with microseconds, a date is text, a list or dictionary is JSON, a boolean is 0 or 1. A statement
names the type of a column that is none of SQLite's own behind its alias: `AS "seen [time]"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

Row = tuple[Any, ...]

_ALIAS = re.compile(r"\[(\w+)\]$")
_FROM_STORED: dict[str, Callable[[Any], Any]] = {
    "time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "list": json.loads,
    "json": json.loads,
    "bool": bool,
}


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def stored(value: Any) -> Any:
    """A parameter as SQLite takes it; what it takes anyway stays."""
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=stored)
    return value


def stored_values(values: Mapping[str, object] | None) -> dict[str, Any]:
    return {name: stored(value) for name, value in (values or {}).items()}


def python_rows(description: Sequence[tuple[Any, ...]], rows: list[Row]) -> list[Row]:
    """Rows with the types that the aliases name."""
    readers = _readers(tuple([column[0] for column in description])) if rows else {}
    if not readers:
        return rows
    return [
        tuple(
            [
                readers[place](value) if place in readers and value is not None else value
                for place, value in enumerate(row)
            ]
        )
        for row in rows
    ]


@lru_cache(maxsize=1_000)
def _readers(columns: tuple[str, ...]) -> dict[int, Callable[[Any], Any]]:
    return {place: _FROM_STORED[kind] for place, kind in alias_types(columns).items()}


def alias_types(columns: Sequence[str]) -> dict[int, str]:
    """The types that aliases name, by the places of their columns."""
    typed = [(place, _ALIAS.search(column)) for place, column in enumerate(columns)]
    return {place: found[1] for place, found in typed if found}
