"""Parquet files that a notebook reads back as they stand in the tables."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest
from silver_desk import article, bar, consume, put

from headrace.errors import CallerError, OperatorError
from headrace_silver.quality import parquet_export
from headrace_silver.quality.parquet_export import TABLES, Table, batches, export
from headrace_silver.records.values import SA_ARTICLE
from headrace_silver.stores.silver_store import SilverStore, open_store

ODD = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1 / 3, 23.45]


def fill(store: SilverStore) -> SilverStore:
    """Bars of three years with awkward numbers, a revision, letters, articles with and without everything."""
    chance = random.Random(5)
    bars = []
    for number, day in enumerate(["2023-12-29", "2024-01-02", "2024-12-31", "2025-01-02"]):
        for symbol in ("AAA", "BBB", "CCC"):
            price = ODD[(number + ord(symbol[0])) % len(ODD)]
            odd = dict.fromkeys(("open", "high", "low", "close"), price)
            bars.append(bar(symbol, day, **odd, vwap=chance.random(), volume=chance.choice([0, 2**63 - 1])))
    put(store, bars)
    consume(store)
    put(store, [{**bars[0], "volume": 7}, bar("x", "2024-01-02"), bar("DDD", "2024-01-02", volume=-1)])
    full = {
        "language": "vi",
        "symbols": ["AAA", "BBB"],
        "topic_tags": ["Ngân hàng"],
        "author": "Nguyễn Văn Ả",
        "hype_raw": 0.1,
        "account_weights_applied": False,
    }
    put(store, [article(1, **full), article(2, title="👩\u200d💻 é", symbols=[])], SA_ARTICLE)
    put(store, [article(3, title=None)], SA_ARTICLE)
    consume(store)
    return store


@pytest.fixture
def store(silver_store: SilverStore) -> SilverStore:
    return fill(silver_store)


@pytest.fixture
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SilverStore]:
    """For what does not depend on the kind of store."""
    with closing(open_store(f"sqlite:///{tmp_path_factory.mktemp('export') / 'silver.db'}")) as store:
        store.create()
        yield fill(store)


def stored(store: SilverStore, table: Table) -> list[tuple[Any, ...]]:
    return [row for rows in batches(store, table) for row in rows]


def read_back(path: Path, table: Table) -> list[tuple[Any, ...]]:
    """As a notebook would: the whole folder or the file, in the order of the key."""
    found = dataset.dataset(path, format="parquet", partitioning="hive").to_table()
    names = [name for name, _ in table.columns]
    rows = [tuple(row[name] for name in names) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: [row[place] for place in table.key.values()])


def test_what_is_read_back_is_what_is_stored(store: SilverStore, tmp_path: Path) -> None:
    written = export(store, tmp_path / "out")
    for name, table in TABLES.items():
        path = tmp_path / "out" / (name if table.by_year is not None else f"{name}.parquet")
        rows = stored(store, table)
        assert rows
        assert read_back(path, table) == rows, name
        assert sum(entry.rows for entry in written if entry.table == name) == len(rows)
    assert not list(tmp_path.rglob("*.partial"))


def test_bars_lie_in_folders_by_year(embedded: SilverStore, tmp_path: Path) -> None:
    written = export(embedded, tmp_path, ["bars"])
    assert [(str(entry.path.relative_to(tmp_path)), entry.rows) for entry in written] == [
        ("bars/year=2023/bars.parquet", 3),
        ("bars/year=2024/bars.parquet", 6),
        ("bars/year=2025/bars.parquet", 3),
    ]
    found = dataset.dataset(tmp_path / "bars", partitioning="hive").to_table(filter=dataset.field("year") == 2024)
    assert {day.year for day in found["trade_date"].to_pylist()} == {2024}


def test_floats_come_back_bit_by_bit(store: SilverStore, tmp_path: Path) -> None:
    export(store, tmp_path, ["bars"])
    found = dataset.dataset(tmp_path / "bars").to_table()["open"].to_pylist()
    assert set(found) == set(ODD)


def test_the_columns_have_the_types_that_are_documented(store: SilverStore, tmp_path: Path) -> None:
    export(store, tmp_path)
    bars = parquet.read_schema(tmp_path / "bars" / "year=2024" / "bars.parquet")
    assert bars.field("trade_date").type == arrow.date32()
    assert bars.field("volume").type == arrow.int64()
    assert bars.field("close").type == arrow.float64()
    assert bars.field("ingest_time").type == arrow.timestamp("us", tz="UTC")
    articles = parquet.read_schema(tmp_path / "articles.parquet")
    assert articles.field("symbols").type == arrow.list_(arrow.string())
    assert articles.field("account_weights_applied").type == arrow.bool_()
    assert "payload" in parquet.read_schema(tmp_path / "letters.parquet").names


def test_the_payload_of_a_letter_is_json(store: SilverStore, tmp_path: Path) -> None:
    export(store, tmp_path, ["letters"])
    rows = parquet.read_table(tmp_path / "letters.parquet").to_pylist()
    assert [(row["rule_id"], json.loads(row["payload"])["symbol"]) for row in rows] == [
        ("ta_symbol", "x"),
        ("ta_volume", "DDD"),
    ]


def test_a_table_is_read_in_batches_without_losing_or_doubling_a_row(store: SilverStore) -> None:
    table = TABLES["bars"]
    small = Table(table.statement, table.columns, table.key, table.start, 5, table.by_year)
    found = list(batches(store, small))
    assert [len(rows) for rows in found] == [5, 5, 2]
    assert [row for rows in found for row in rows] == stored(store, table)


def test_a_second_export_replaces_the_first_and_removes_years_that_are_gone(
    embedded: SilverStore, tmp_path: Path
) -> None:
    stale = tmp_path / "bars" / "year=1999" / "bars.parquet"
    mine = tmp_path / "bars" / "year=1998" / "notes.txt"
    for path in (stale, mine):
        path.parent.mkdir(parents=True)
        path.write_text("old")
    export(embedded, tmp_path, ["bars"])
    first = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    export(embedded, tmp_path, ["bars"])
    assert not stale.parent.exists()
    assert mine.read_text() == "old"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")} == first


def test_empty_tables_give_files_without_rows(silver_store: SilverStore, tmp_path: Path) -> None:
    written = export(silver_store, tmp_path)
    assert [(entry.table, entry.rows) for entry in written] == [("articles", 0), ("revisions", 0), ("letters", 0)]
    assert parquet.read_table(tmp_path / "articles.parquet").num_rows == 0


def test_an_export_that_fails_leaves_the_earlier_files_and_nothing_half_written(
    embedded: SilverStore, tmp_path: Path
) -> None:
    def gone(table: str, rows: int) -> None:
        raise OperatorError(f"gone after {rows} rows")

    export(embedded, tmp_path, ["bars"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(OperatorError, match="gone after 12 rows"):
        export(embedded, tmp_path, ["bars"], gone)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_written_is_the_operators_matter(embedded: SilverStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot be written"):
        export(embedded, tmp_path / "file", ["bars"])


def test_an_unknown_table_is_refused_by_name(embedded: SilverStore, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="'prices' is not a table"):
        export(embedded, tmp_path, ["prices"])


def test_without_pyarrow_the_line_that_installs_it_is_named() -> None:
    """In a process of its own, where a finder in front of all others says that there is no such module."""
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'pyarrow':\n"
        "            raise ModuleNotFoundError(name='pyarrow')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from headrace_silver.quality import parquet_export\n"
        "from headrace.errors import MissingExtra\n"
        "try:\n"
        "    parquet_export.export(None, None)\n"
        "except MissingExtra as error:\n"
        "    print(error.hint)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "pip install headrace-silver"


def test_progress_is_told_by_rows(embedded: SilverStore, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    parquet_export.export(embedded, tmp_path, ["bars"], lambda table, rows: told.append((table, rows)))
    assert told == [("bars", 12)]
