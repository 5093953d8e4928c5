"""The sample as files: `bars` and `articles`, as JSON lines, CSV or Parquet; or as JSON lines on stdout."""

from __future__ import annotations

import csv
import importlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import msgspec

from headrace_silver.records.kinds import kind_of
from headrace_silver.records.record_files import FLOATS, Incoming, parquet_module
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Article, Bar
from headrace_silver.sample.faults import LABEL, UNKNOWN_KINDS
from headrace_silver.sample.generator import Sample

STEMS = {TA_BAR: "bars", SA_ARTICLE: "articles"}
COLUMNS = {
    TA_BAR: [*(each.name for each in fields(Bar)), LABEL],
    SA_ARTICLE: [*(each.name for each in fields(Article)), LABEL],
}
_FAMILY = {**dict(zip(STEMS, STEMS, strict=True)), **{unknown: kind for kind, unknown in UNKNOWN_KINDS.items()}}
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class SampleTally:
    """What was made: rows by kind, bad ones by label, and the files they are in."""

    kinds: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)

    def counting(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        for each in samples:
            self.kinds[each.kind] += 1
            if each.breaks is not None:
                self.bad[each.breaks] += 1
            yield each


def incoming(samples: Iterable[Sample]) -> Iterator[Incoming]:
    """As `put` takes them."""
    return (Incoming(each.kind, _encode(each.payload).decode()) for each in samples)


def write_lines(samples: Iterable[Sample], file: IO[bytes]) -> None:
    """JSON lines: the payload itself, or with its type where the payload does not tell it."""
    for each in samples:
        named = isinstance(each.payload, dict) and kind_of(each.payload) == each.kind
        file.write(_encode(each.payload if named else {"task_type": each.kind, "payload": each.payload}) + b"\n")


def write_folder(samples: Iterable[Sample], folder: Path, form: str) -> list[str]:
    """One file per kind; their names."""
    if form == "parquet":
        parquet_module()
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    # A sample has all its bars first.
    for kind, group in groupby(samples, lambda each: _FAMILY[each.kind]):
        path = folder / f"{STEMS[kind]}.{form}"
        if form == "parquet":
            _write_parquet(kind, [each.payload for each in group], path)
        else:
            with path.open("wb") as file:
                if form == "jsonl":
                    write_lines(group, file)
                else:
                    _write_csv(kind, group, file)
        names.append(str(path))
    return names


def _write_csv(kind: str, samples: Iterable[Sample], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    lines = csv.writer(text)
    columns = COLUMNS[kind]
    lines.writerow(columns)
    lines.writerows([_cell(each.payload.get(name)) for name in columns] for each in samples)
    text.detach()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return _encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else value


def _write_parquet(kind: str, payloads: Sequence[dict[str, Any]], path: Path) -> None:
    parquet = parquet_module()
    pyarrow = importlib.import_module("pyarrow")
    times = pyarrow.timestamp("us", tz="UTC")
    lists = pyarrow.list_(pyarrow.string())
    types = {
        "trade_date": (pyarrow.date32(), date.fromisoformat),
        "publisher_time": (times, datetime.fromisoformat),
        "first_seen_time": (times, datetime.fromisoformat),
        "volume": (pyarrow.int64(), None),
        "symbols": (lists, None),
        "topic_tags": (lists, None),
        "account_weights_applied": (pyarrow.bool_(), None),
    }
    types |= {name: (pyarrow.float64(), None) for name in FLOATS}
    arrays = {}
    for name in COLUMNS[kind]:
        form, read = types.get(name, (pyarrow.string(), None))
        values = (payload.get(name) for payload in payloads)
        arrays[name] = pyarrow.array([read(value) if read and value is not None else value for value in values], form)
    parquet.write_table(pyarrow.table(arrays), path)
