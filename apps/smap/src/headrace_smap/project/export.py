"""Results as files: CSV, XLSX, Parquet. Rows come by path, some hundreds at a time, and memory does not grow with them.

CSV flows to the client as it is read. XLSX and Parquet have their table of contents at the end; they are written to a
temporary file first, which has no name and goes with the process. A text that a spreadsheet would run as a formula is
told so that it stays a text. Times are in UTC and say so; a spreadsheet has no zones, so there they are what clocks
show in the zone of the row.
"""

from __future__ import annotations

import asyncio
import csv
import importlib
import io
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Protocol
from zoneinfo import ZoneInfo

import msgspec

from headrace.errors import CallerError
from headrace_smap.database import Database, Row
from headrace_smap.days import clock_in, zone_named
from headrace_smap.project.workbook import Workbook
from headrace_smap.spreadsheet import guarded

ROOM = 500
PIECE_BYTES = 262_144
# Column and type as Arrow names it.
COLUMNS = (
    *((name, "string") for name in ("minio_path", "post_id", "platform", "keyword", "language")),
    *((name, "string") for name in ("author_id", "author_name")),
    *((name, "int64") for name in ("followers", "likes", "comments", "shares", "views")),
    ("published_at", "time"),
    ("day", "date32"),
    ("url", "string"),
    ("text", "string"),
    ("hashtags", "json"),
    ("intent", "string"),
    ("intent_score", "double"),
    ("is_spam", "bool"),
    ("spam_score", "double"),
    *((name, "json") for name in ("spam_reasons", "keywords", "phrases", "aspects")),
    ("sentiment", "string"),
    ("sentiment_score", "double"),
    ("aspect_sentiments", "json"),
    *((name, "int64") for name in ("reach", "engagement")),
    *((name, "double") for name in ("engagement_rate", "impact")),
    *((name, "string") for name in ("risk", "crawled_at")),
    ("analyzed_at", "time"),
    ("model_version", "string"),
    ("risk_score", "double"),
    ("missing", "json"),
    ("simulated", "bool"),
    ("uncertain", "json"),
    ("timezone", "string"),
)
NAMES = tuple(name for name, _ in COLUMNS)


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of file."""

    media_type: str
    pieces: Callable[[Database, str], AsyncGenerator[bytes, None]]


class _Book(Protocol):
    """A file that is written page by page and whole when it is closed."""

    def add(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


async def pages(database: Database, project: str) -> AsyncGenerator[list[Row], None]:
    """All results of a project, each once, a page at a time."""
    after = ""
    while rows := await database.rows("project_results", project=project, after=after, room=ROOM):
        yield rows
        after = rows[-1][0]


async def csv_pieces(database: Database, project: str) -> AsyncGenerator[bytes, None]:
    """UTF-8 with the mark by which spreadsheets know it."""
    yield b"\xef\xbb\xbf" + _csv([NAMES])
    async for rows in pages(database, project):
        yield await asyncio.to_thread(_csv, [[_plain(value) for value in row] for row in rows])


async def xlsx_pieces(database: Database, project: str) -> AsyncGenerator[bytes, None]:
    async for piece in _through_file(_Sheets, database, project):
        yield piece


async def parquet_pieces(database: Database, project: str) -> AsyncGenerator[bytes, None]:
    async for piece in _through_file(_Parquet, database, project):
        yield piece


FORMS = {
    "csv": Form("text/csv; charset=utf-8", csv_pieces),
    "xlsx": Form("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", xlsx_pieces),
    "parquet": Form("application/vnd.apache.parquet", parquet_pieces),
}


def form_of(name: str) -> Form:
    if name not in FORMS:
        raise CallerError(f"there is no export as {name[:20]!r}", f"one of {', '.join(FORMS)}")
    return FORMS[name]


async def _through_file(
    opened: Callable[[IO[bytes]], _Book], database: Database, project: str
) -> AsyncGenerator[bytes, None]:
    with tempfile.TemporaryFile() as file:
        book = await asyncio.to_thread(opened, file)
        async for rows in pages(database, project):
            await asyncio.to_thread(book.add, rows)
        await asyncio.to_thread(book.close)
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


class _Sheets:
    """XLSX. A sheet has its limit, so there may be several."""

    def __init__(self, file: IO[bytes]) -> None:
        self._book = Workbook(file, NAMES)

    def add(self, rows: Sequence[Row]) -> None:
        self._book.add([[_celled(value, _zone(row[-1])) for value in row] for row in rows])

    def close(self) -> None:
        self._book.close()


class _Parquet:
    """One group of rows per page."""

    def __init__(self, file: IO[bytes]) -> None:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        self._arrow = pyarrow
        kinds = {"time": pyarrow.timestamp("us", "UTC"), "json": pyarrow.string(), "double": pyarrow.float64()}
        kinds |= {"date32": pyarrow.date32(), "string": pyarrow.string(), "int64": pyarrow.int64()}
        kinds |= {"bool": pyarrow.bool_()}
        self._schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS])
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")

    def add(self, rows: Sequence[Row]) -> None:
        columns = [
            [_json(value) if kind == "json" and value is not None else value for value in values]
            for (_, kind), values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
        ]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list | dict):
        return _json(value)
    if isinstance(value, str):
        return guarded(value)
    return value


def _celled(value: Any, zone: ZoneInfo) -> Any:
    if isinstance(value, datetime):
        return clock_in(zone, value)
    return _json(value) if isinstance(value, list | dict) else value


def _zone(name: str) -> ZoneInfo:
    """Anybody may have written the row."""
    try:
        return zone_named(name)
    except ValueError:
        return ZoneInfo("UTC")


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
