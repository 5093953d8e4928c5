"""Parquet files for notebooks: the bars by year, the articles, the revisions of bars, the dead letters.

Rows come by key, some thousands at a time, so memory does not grow with the tables. Each file is written beside its
place and moved there when it is whole; a reader never meets half a file. A row that changes while the export runs is
in it once, as it was or as it is.
"""

from __future__ import annotations

import importlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, MissingExtra, writing_to
from headrace_silver.stores.silver_store import SilverStore

COMPRESSION = "zstd"
_PARTIAL = ".partial"

# Column and type as Arrow names it; every time is in UTC with microseconds.
_TIME = "timestamp[us, UTC]"
_BAR = (
    ("symbol", "string"),
    ("trade_date", "date32"),
    *((name, "double") for name in ("open", "high", "low", "close")),
    ("volume", "int64"),
    *((name, "double") for name in ("vwap", "adj_close")),
    ("currency", "string"),
    ("price_multiplier", "double"),
    ("source", "string"),
    ("first_seen_time", _TIME),
    ("ingest_time", _TIME),
    ("content_hash", "string"),
)
_ARTICLE = (
    ("url_canonical", "string"),
    ("source_domain", "string"),
    ("publisher_time", _TIME),
    ("first_seen_time", _TIME),
    *((name, "string") for name in ("language", "title", "text_normalized", "content_hash")),
    ("symbols", "list<string>"),
    ("author", "string"),
    ("topic_tags", "list<string>"),
    *((name, "double") for name in ("hype_raw", "hype_crowd", "hype_elitist")),
    ("account_weights_applied", "bool"),
    ("ingest_time", _TIME),
)
_LETTER = (
    ("id", "int64"),
    ("task_id", "int64"),
    *((name, "string") for name in ("reason", "rule_id", "payload", "error_msg")),
    ("created_at", _TIME),
)


@dataclass(frozen=True, slots=True)
class Table:
    """What is exported under one name. `key` names the values that the statement goes on from, and their columns."""

    statement: str
    columns: Sequence[tuple[str, str]]
    key: Mapping[str, int]
    start: Sequence[object]
    batch: int
    by_year: int | None = None


# Texts and payloads are large: their batches are small.
TABLES = {
    "bars": Table("export_bars", _BAR, {"symbol": 0, "day": 1}, ("", date.min), 20_000, by_year=1),
    "articles": Table("export_articles", _ARTICLE, {"url": 0}, ("",), 500),
    "revisions": Table("export_revisions", (("id", "int64"), *_BAR, ("replaced_at", _TIME)), {"id": 0}, (0,), 20_000),
    "letters": Table("export_letters", _LETTER, {"id": 0}, (0,), 500),
}


@dataclass(frozen=True, slots=True)
class Exported:
    """One file and how many rows it has."""

    table: str
    path: Path
    rows: int


def _silent(table: str, rows: int) -> None:
    """Nobody wants to see how far it is."""


def export(
    store: SilverStore,
    folder: Path,
    tables: Sequence[str] = tuple(TABLES),
    progress: Callable[[str, int], None] = _silent,
) -> list[Exported]:
    """Write the tables into the folder; files of an earlier export are replaced, years that are gone are removed."""
    for name in tables:
        if name not in TABLES:
            raise CallerError(f"{name!r} is not a table of the export", f"any of {', '.join(TABLES)}")
    arrow = _arrow()
    written = []
    for name in tables:
        with writing_to(folder, "name another folder"), _Files(folder, name, TABLES[name], arrow) as files:
            for rows in batches(store, TABLES[name]):
                files.write(rows)
                progress(name, len(rows))
            written += files.finish()
    return written


def batches(store: SilverStore, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """All rows of a table in the order of its key."""
    after = table.start
    while rows := store.rows(table.statement, {**dict(zip(table.key, after, strict=True)), "most": table.batch}):
        yield rows
        after = [rows[-1][place] for place in table.key.values()]


def _arrow() -> Any:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet needs pyarrow", "pip install headrace-silver") from error


def schema(table: Table, arrow: Any) -> Any:
    """The columns of a file as Arrow knows them."""
    types = {
        "string": arrow.string(),
        "date32": arrow.date32(),
        "double": arrow.float64(),
        "int64": arrow.int64(),
        "bool": arrow.bool_(),
        _TIME: arrow.timestamp("us", tz="UTC"),
        "list<string>": arrow.list_(arrow.string()),
    }
    return arrow.schema([(name, types[kind]) for name, kind in table.columns])


@dataclass(slots=True)
class _Files:
    """The files of one table while they are written: one, or one per year."""

    folder: Path
    name: str
    table: Table
    arrow: Any
    _writers: dict[Path, Any] = field(default_factory=dict)
    _rows: dict[Path, int] = field(default_factory=lambda: defaultdict(int))

    def __enter__(self) -> _Files:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for path, writer in self._writers.items():
            with suppress(Exception):
                # After a failure the file is thrown away, whatever closing it has to say.
                writer.close()
            _partial(path).unlink(missing_ok=True)

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        parts: defaultdict[Path, list[tuple[Any, ...]]] = defaultdict(list)
        for row in rows:
            parts[self._path(row)].append(row)
        for path, part in parts.items():
            self._write(path, part)

    def finish(self) -> list[Exported]:
        """Close all files and move them to their places."""
        if not self._writers and self.table.by_year is None:
            self._write(self.folder / f"{self.name}.parquet", [])
        for path, writer in self._writers.items():
            writer.close()
            with _partial(path).open("rb") as file:
                os.fsync(file.fileno())
        written = []
        for path in sorted(self._writers):
            _partial(path).replace(path)
            written.append(Exported(self.name, path, self._rows[path]))
        if self.table.by_year is not None:
            self._remove_years(set(self._writers))
        self._writers.clear()
        return written

    def _path(self, row: tuple[Any, ...]) -> Path:
        if self.table.by_year is None:
            return self.folder / f"{self.name}.parquet"
        return self.folder / self.name / f"year={row[self.table.by_year].year}" / f"{self.name}.parquet"

    def _write(self, path: Path, rows: Sequence[tuple[Any, ...]]) -> None:
        shape = schema(self.table, self.arrow)
        if path not in self._writers:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writers[path] = self.arrow.parquet.ParquetWriter(_partial(path), shape, compression=COMPRESSION)
        columns = zip(*rows, strict=True) if rows else ([] for _ in shape)
        arrays = [self.arrow.array(list(column), type=entry.type) for column, entry in zip(columns, shape, strict=True)]
        self._writers[path].write_table(self.arrow.Table.from_arrays(arrays, schema=shape))
        self._rows[path] += len(rows)

    def _remove_years(self, kept: set[Path]) -> None:
        for path in (self.folder / self.name).glob(f"year=*/{self.name}.parquet"):
            if path not in kept:
                path.unlink()
                with suppress(OSError):
                    # Somebody keeps files of their own in it.
                    path.parent.rmdir()


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}{_PARTIAL}")
