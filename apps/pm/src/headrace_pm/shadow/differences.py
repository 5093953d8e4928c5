"""What two tables of counters do not have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

KEY = ("duration", "rat_type", "obj_hash")
VALUES = ("counter_value", "group_code", "cell_index", "extra_field")


@dataclass(frozen=True, slots=True)
class CounterPlace:
    """One counter of one element at one time."""

    ne_id: int
    record_time: datetime
    counter_id: int


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One row: `production` or `shadow` is None where it is missing. Both have only the columns that differ."""

    key: Mapping[str, Any]
    production: Mapping[str, Any] | None
    shadow: Mapping[str, Any] | None

    @property
    def kind(self) -> str:
        if self.shadow is None:
            return "missing"
        return "extra" if self.production is None else "different"


@dataclass(frozen=True, slots=True)
class CounterDifference:
    """The rows of one counter that differ: missing in the shadow, extra in the shadow, or with other values."""

    place: CounterPlace
    rows: tuple[RowDifference, ...]

    def count(self, kind: str) -> int:
        return sum(row.kind == kind for row in self.rows)


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found. `places_left`: elements and times that differ too and were not looked into, because the
    limit was reached."""

    production_rows: int
    shadow_rows: int
    times: int
    differences: tuple[CounterDifference, ...]
    places_left: int
    seconds: float

    @property
    def equal(self) -> bool:
        return not self.differences and not self.places_left


def row_differences(production: Sequence[Sequence[Any]], shadow: Sequence[Sequence[Any]]) -> tuple[RowDifference, ...]:
    """Rows as `counters_rows` has them: key, the bits of the value, then values. Equal ones are left out; rows with one
    key, which only a table without a primary key has, are told apart by their values."""
    ours, theirs = _by_key(production), _by_key(shadow)
    found = []
    for key in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(key, []), theirs.get(key, [])
        only_left, only_right = _without(left, right), _without(right, left)
        for place in range(max(len(only_left), len(only_right))):
            pair = only_left[place : place + 1], only_right[place : place + 1]
            found.append(_difference(key, *(each[0] if each else None for each in pair)))
    return tuple(found)


def _by_key(rows: Sequence[Sequence[Any]]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(tuple(row[: len(KEY)]), []).append(tuple(row[len(KEY) :]))
    return found


def _without(rows: Sequence[tuple[Any, ...]], others: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    # The bits of the value decide, so 0 and -0 are two values; its digits are the same in both or follow from them.
    left = [_decisive(row) for row in others]
    found = []
    for row in rows:
        if _decisive(row) in left:
            left.remove(_decisive(row))
        else:
            found.append(row)
    return found


def _decisive(row: tuple[Any, ...]) -> tuple[Any, ...]:
    bits, _, *others = row
    return bits, *others


def _difference(
    key: tuple[Any, ...], production: tuple[Any, ...] | None, shadow: tuple[Any, ...] | None
) -> RowDifference:
    named = dict(zip(KEY, key, strict=True))
    if production is None or shadow is None:
        return RowDifference(named, _named(production), _named(shadow))
    differs = [production[0] != shadow[0], *(a != b for a, b in zip(production[2:], shadow[2:], strict=True))]
    columns = [name for name, other in zip(VALUES, differs, strict=True) if other]
    left, right = _named(production) or {}, _named(shadow) or {}
    return RowDifference(named, {name: left[name] for name in columns}, {name: right[name] for name in columns})


def _named(row: tuple[Any, ...] | None) -> Mapping[str, Any] | None:
    return None if row is None else dict(zip(VALUES, row[1:], strict=True))
