"""What is in a sink, against what must be there: row for row, in every column."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headrace_pm.network.truth import CounterKey, TrueRow

_COLUMNS = "ne_id, record_time, duration, counter_id, rat_type, obj_hash, counter_value, group_code, cell_index"
_ROWS = f"SELECT {_COLUMNS}, extra_field FROM pm_counter_data"
_UNSIGNED = (1 << 64) - 1


class SinkRow(NamedTuple):
    """A row as a sink has it; `extra_field` is its JSON text."""

    key: CounterKey
    counter_value: float | None
    group_code: str
    cell_index: int
    extra_field: str


@dataclass(frozen=True, slots=True)
class SinkComparison:
    """How many rows a sink has, and how many of them are wrong: a row that is there twice is one too many."""

    rows: int
    missing: int
    extra: int
    different: int

    @property
    def is_equal(self) -> bool:
        return self.missing == self.extra == self.different == 0


def compared(found: Iterable[SinkRow], truth: dict[CounterKey, TrueRow]) -> SinkComparison:
    """Every row of a sink against the truth."""
    seen: set[CounterKey] = set()
    rows = extra = different = 0
    for row in found:
        rows += 1
        meant = truth.get(row.key)
        if meant is None or row.key in seen:
            extra += 1
        elif not _same(row, meant):
            different += 1
        seen.add(row.key)
    return SinkComparison(rows, len(truth.keys() - seen), extra, different)


def _same(row: SinkRow, meant: TrueRow) -> bool:
    fixed = (row.counter_value, row.group_code, row.cell_index)
    if fixed != (meant.counter_value, meant.group_code, meant.cell_index):
        return False
    return _pairs(row.extra_field) == meant.extra_field


@cache
def _pairs(text: str) -> dict[str, str]:
    """Most rows have the pairs of the row before."""
    found: dict[str, str] = msgspec.json.decode(text)
    return found


def table_rows(database: Path) -> Iterator[SinkRow]:
    """All rows of the table in SQLite."""
    with closing(sqlite3.connect(database)) as opened:
        for row in opened.execute(_ROWS):
            yield sink_row(*row)


def parquet_rows(folder: Path) -> Iterator[SinkRow]:
    """Of the Parquet files the newest row of every key."""
    from headrace_pm.parquet.newest import newest_rows

    names = (*_COLUMNS.split(", "), "extra_field")
    for piece in newest_rows(folder).select(names).to_batches(max_chunksize=10_000):
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            yield sink_row(*row)


def sink_row(*row: Any) -> SinkRow:
    """A row with its key as the truth has it: moments in ms, the hash in hexadecimal digits and without a sign."""
    ne_id, record_time, duration, counter_id, rat_type, obj_hash, *rest = row
    key = CounterKey(ne_id, _ms(record_time), duration, counter_id, rat_type, f"{obj_hash & _UNSIGNED:016x}")
    return SinkRow(key, *rest)


@cache
def _ms(moment: Any) -> int:
    """A moment of a table, in ms since 1970: as it is in SQLite, a text, or as Arrow has it."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1_000)
    return int(moment)
