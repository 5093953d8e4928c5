"""Dictionaries as CSV files, one for each table, with a heading that names its columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, NotFound, writing_to
from headrace_pm.counters.dictionary import DictionaryRows

COLUMNS = {
    "ne": ("id", "name"),
    "counter_cat": ("counter_id", "object_level", "group_code"),
    "extra_field_column": ("code", "level_id"),
    "node_function": ("name", "rat_type"),
}


def write_dictionary(folder: Path, rows: DictionaryRows) -> None:
    """Write the four files."""
    with writing_to(folder, "name another directory"):
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, "ne", ((number, name) for name, number in rows.ne.items()))
        _write(folder, "counter_cat", ((*key, group) for key, group in rows.counter_cat.items()))
        _write(folder, "extra_field_column", rows.extra_field_column.items())
        _write(folder, "node_function", rows.node_function.items())


def read_dictionary(folder: Path) -> DictionaryRows:
    """Read the four files. A row that cannot be one is `CallerError`, with the file and the line."""
    return DictionaryRows(
        {name: whole_number(number, where) for where, (number, name) in _read(folder, "ne")},
        {
            (whole_number(counter, where), level): group
            for where, (counter, level, group) in _read(folder, "counter_cat")
        },
        {code: level for _, (code, level) in _read(folder, "extra_field_column")},
        {name: rat_type for _, (name, rat_type) in _read(folder, "node_function")},
    )


def _write(folder: Path, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS[table])
        writer.writerows(rows)


def _read(folder: Path, table: str) -> Iterator[tuple[str, list[str]]]:
    return csv_rows(folder / f"{table}.csv", COLUMNS[table])


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The rows of a file, each with the words that say where it stands. Columns may come in any order, and more."""
    try:
        file = path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from None
    with file:
        reader = csv.DictReader(file)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise CallerError(f"{path} has no column {', '.join(missing)}")
        for row in reader:
            found = [row[column] for column in columns]
            where = f"{path}, line {reader.line_num}"
            if None in found:
                raise CallerError(f"{where}: fewer values than columns")
            yield where, found


def whole_number(text: str, where: str) -> int:
    """The number that a cell holds."""
    try:
        return int(text)
    except ValueError:
        raise CallerError(f"{where}: {text!r} is no whole number") from None
