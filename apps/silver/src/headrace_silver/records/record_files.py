"""Files of bars and articles, read as tasks: JSON lines, CSV with a header, Parquet; `.gz` is unpacked.

A line of JSON is the payload itself, or `{"task_type": …, "payload": …, "priority": …}`. In CSV and Parquet the columns
are the fields; an empty cell states nothing. Text is UTF-8. A file is read row by row, however large it is.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from headrace.errors import CallerError, MissingExtra
from headrace_silver.records.kinds import kind_of
from headrace_silver.records.shown_text import shown

STDIN = "-"
PARQUET_ROWS = 4_096
PROGRESS_ROWS = 1_000
CELL_CHARS_MAX = 2**30
FORMATS = ("jsonl", "csv", "parquet")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
FLOATS = (
    *("open", "high", "low", "close", "vwap", "adj_close", "price_multiplier"),
    *("hype_raw", "hype_crowd", "hype_elitist"),
)
_LISTS = ("symbols", "topic_tags")
# What spreadsheets write where a comma is the decimal sign, and what is copied from them.
_FOREIGN_SEPARATORS = (";", "\t")
_FLAGS = {"true": True, "false": False}
# These columns stay text whatever stands in them: a symbol or a hash may look like a number.
_NUMBERS = frozenset(("volume", *FLOATS))
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
# PostgreSQL's jsonb cannot hold the character 0; an escaped backslash before it is harmless.
_ZERO = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class BrokenLine(CallerError):
    """A row that cannot become a task; the message says where it is."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A task to be: its payload as JSON text, and its priority if the file states one."""

    kind: str
    payload: str
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class FileReading:
    """How to read: what all rows are (None: as their fields say), and who hears of the bytes read so far."""

    kind: str | None = None
    format: str | None = None
    progress: Callable[[int], None] = lambda _: None


def format_of(path: str, stated: str | None = None) -> str:
    """The format by the name of a file; stdin is JSON lines unless stated otherwise."""
    if stated is not None:
        return stated
    if path == STDIN:
        return "jsonl"
    ending = Path(path.removesuffix(".gz")).suffix.lower()
    if ending not in _ENDINGS:
        raise CallerError(f"{path}: its name does not say what it is", f"--format {'|'.join(FORMATS)}")
    return _ENDINGS[ending]


def read_tasks(path: str, reading: FileReading) -> Iterator[Incoming]:
    """The tasks of a file in order. Raises `BrokenLine` at the first row that cannot be one."""
    rows_of = {"jsonl": _json_rows, "csv": _csv_rows, "parquet": _parquet_rows}[format_of(path, reading.format)]
    place = 0
    with _bytes(path) as (raw, plain):
        try:
            for count, (place, task) in enumerate(rows_of(plain, reading)):
                if not isinstance(task, Incoming):
                    raise BrokenLine(f"{path}, line {place}: {task}")
                if count % PROGRESS_ROWS == 0 and raw.seekable():
                    reading.progress(raw.tell())
                yield task
        except (ValueError, csv.Error, OSError, EOFError) as error:
            raise BrokenLine(f"{path}, after line {place}: {error}") from error


# A row is a task, or the words that say why it is none.
Row = tuple[int, Incoming | str]


def _json_rows(file: IO[bytes], reading: FileReading) -> Iterator[Row]:
    for place, line in enumerate(file, 1):
        text = line.strip() if place > 1 else line.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        try:
            value = _decode(text)
            words = text.decode()
        except (ValueError, RecursionError) as error:
            yield place, f"it cannot be read as JSON: {error}"
            return
        yield place, _from_json(value, words, reading.kind)


def _from_json(value: Any, text: str, kind: str | None) -> Incoming | str:
    priority = None
    if isinstance(value, dict) and "payload" in value and isinstance(value.get("task_type", 0), str | None):
        kind, priority = value["task_type"] or kind, value.get("priority")
        if priority is not None and type(priority) is not int:
            return f"the priority {shown(priority)} is not a whole number"
        value = value["payload"]
        text = _encode(value).decode()
    if kind is None and not isinstance(value, dict):
        return "it is no JSON object: a line holds one record"
    return _checked(kind or kind_of(value), text, priority)


def _checked(kind: str | None, text: str, priority: int | None = None) -> Incoming | str:
    if kind is None:
        return "its fields do not say whether it is a bar or an article; --kind does"
    if "\\u0000" in text and _ZERO.search(text):
        return "it contains the character 0, which a database cannot hold"
    return Incoming(kind, text, priority)


def _csv_rows(file: IO[bytes], reading: FileReading) -> Iterator[Row]:
    csv.field_size_limit(CELL_CHARS_MAX)
    # A line that ends inside a quoted cell is joined with the next by the reader.
    texts = (line.decode("utf-8" if place else "utf-8-sig") for place, line in enumerate(file))
    lines = csv.reader(texts, strict=True)
    header = next(lines, [])
    separator = next((mark for mark in _FOREIGN_SEPARATORS if len(header) == 1 and mark in header[0]), None)
    if separator is not None:
        # Stated by --kind, such lines would all be put, and all be rejected.
        yield 1, f"its columns are separated by {separator!r}; here a comma does it"
        return
    kind = reading.kind or kind_of(header)
    if kind is None:
        yield 1, "the header does not say whether these are bars or articles; --kind does"
        return
    for cells in lines:
        if not cells:
            continue
        if len(cells) != len(header):
            yield lines.line_num, f"{len(cells)} cells under {len(header)} columns"
            return
        stated = {name: _cell(name, cell) for name, cell in zip(header, cells, strict=True) if cell != ""}
        yield lines.line_num, _checked(kind, _encode(stated).decode())


def _cell(name: str, cell: str) -> Any:
    if name in _NUMBERS and _JSON_NUMBER(cell):
        # As it is written: nothing is rounded on the way.
        return msgspec.Raw(cell.encode())
    if name in _LISTS:
        return _decode(cell) if cell.startswith("[") else cell.split("|")
    if name == "account_weights_applied":
        return _FLAGS.get(cell.lower(), cell)
    return cell


def _parquet_rows(file: IO[bytes], reading: FileReading) -> Iterator[Row]:
    parquet = parquet_module()
    source = file if file.seekable() else io.BytesIO(file.read())
    opened = parquet.ParquetFile(source)
    kind = reading.kind or kind_of(opened.schema_arrow.names)
    place = 0
    for batch in opened.iter_batches(batch_size=PARQUET_ROWS):
        for row in batch.to_pylist():
            place += 1
            stated = {name: value for name, value in row.items() if value is not None}
            yield place, _checked(kind, _encode(stated).decode())


def parquet_module() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet needs pyarrow", "pip install headrace-silver") from error


@contextmanager
def _bytes(path: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file as it lies, and what is in it."""
    if path == STDIN:
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    try:
        raw = open(path, "rb")  # noqa: SIM115 - closed below; only opening it is the caller's fault
    except OSError as error:
        raise CallerError(f"{path}: {error.strerror}", "name a file that can be read, or - for stdin") from error
    with raw:
        if path.endswith(".gz"):
            with gzip.open(raw) as plain:
                yield raw, plain  # type: ignore[misc]
        else:
            yield raw, raw
