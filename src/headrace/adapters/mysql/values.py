"""Python's values as MySQL takes them in a statement, and what comes back as Python has it.

A time is UTC with microseconds, a list or dictionary is JSON, a boolean is 1 or 0; a number that is none (NaN, an
infinity) is refused, because MySQL has none. The session reads text as standard SQL does, so a quote is doubled and
nothing else means anything. A column whose type the server does not tell is named behind its alias: `AS "tags [json]"`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from headrace.core.sqlite_values import alias_types
from headrace.core.table_statements import Row

INT64 = range(-(2**63), 2**63)
UINT64_MAX = 2**64
_FROM_STORED: dict[str, Callable[[Any], Any]] = {"json": json.loads, "list": json.loads, "bool": bool}


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_part)


def _json_part(value: object) -> str:
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no value")


def utc(moment: datetime) -> datetime:
    """Without its zone, which is UTC; `ValueError` if nobody said which it was."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return moment.astimezone(UTC).replace(tzinfo=None)


def moment_text(moment: datetime) -> str:
    return utc(moment).isoformat(" ", "microseconds")


def checked_number(value: int | float) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number that MySQL can hold")
    if isinstance(value, int) and not INT64.start <= value < UINT64_MAX:
        raise OverflowError(f"{value} does not fit into 64 bits")
    return value


def literal(value: object) -> str:
    """A value as text of a statement."""
    write = _LITERALS.get(type(value))
    if write is None:
        raise TypeError(f"{type(value).__name__} is no value")
    return write(value)


def _text(value: str) -> str:
    # What is no text at all is found when the statement is encoded.
    return "'" + value.replace("'", "''") + "'"


def _number(value: int | float) -> str:
    return repr(checked_number(value))


def _bytes(value: bytes | bytearray | memoryview) -> str:
    return f"x'{bytes(value).hex()}'"


def _decimal(value: Decimal) -> str:
    return str(value) if value.is_finite() else _number(float(value))


_LITERALS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "NULL",
    bool: lambda value: "1" if value else "0",
    int: _number,
    float: _number,
    str: _text,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    datetime: lambda value: f"'{moment_text(value)}'",
    date: lambda value: f"'{value.isoformat()}'",
    Decimal: _decimal,
    list: lambda value: _text(json_text(value)),
    dict: lambda value: _text(json_text(value)),
    tuple: lambda value: _text(json_text(value)),
}


def python_rows(description: Sequence[Sequence[Any]], rows: Sequence[Row]) -> list[Row]:
    """Rows with the types that the aliases name; what the server tells of a type is there already."""
    kinds = {place: _FROM_STORED.get(kind) for place, kind in alias_types([each[0] for each in description]).items()}
    readers = {place: reader for place, reader in kinds.items() if reader is not None}
    if not readers:
        return list(rows)
    return [
        tuple(readers[at](value) if at in readers and value is not None else value for at, value in enumerate(row))
        for row in rows
    ]
