"""Files into the queue: every form, whole or not at all."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow
import pyarrow.parquet
import pytest
from silver_desk import article, ask, bar, consume, lines

from headrace.errors import CallerError
from headrace_silver.queue.producer import put_file, put_tasks
from headrace_silver.records.record_files import BrokenLine, FileReading, Incoming, format_of, read_tasks
from headrace_silver.records.values import SA_ARTICLE, TA_BAR
from headrace_silver.stores.silver_store import SilverStore, open_store

QUEUE = "SELECT task_type, priority, status FROM task_q ORDER BY id"


def read(path: Path, **how: Any) -> list[tuple[str, Any]]:
    return [(task.kind, json.loads(task.payload)) for task in read_tasks(str(path), FileReading(**how))]


def test_lines_of_both_kinds_find_their_type(silver_store: SilverStore, silver_url: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "mixed.jsonl", [bar(), article(), bar("FPT")])
    done = put_file(silver_store, str(path), FileReading(), priority=7)
    assert (done.error, dict(done.kinds)) == (None, {TA_BAR: 2, SA_ARTICLE: 1})
    assert ask(silver_url, QUEUE) == [(TA_BAR, 7, "ready"), (SA_ARTICLE, 7, "ready"), (TA_BAR, 7, "ready")]
    consumed = consume(silver_store)
    assert (consumed.bars, consumed.articles, consumed.rejects) == (2, 1, 0)


def test_a_payload_is_put_as_it_is_written(silver_store: SilverStore, silver_url: str, tmp_path: Path) -> None:
    path = tmp_path / "bars.jsonl"
    path.write_text(
        '\ufeff{"symbol": "VNM", "close": 66500.10, "tên": "sữa 🐮", "n": 9223372036854775808}\r\n\n', "utf-8"
    )
    assert put_file(silver_store, str(path), FileReading()).count == 1
    ((text,),) = ask(silver_url, "SELECT CAST(payload AS TEXT) FROM task_q")
    assert json.loads(text) == {"symbol": "VNM", "close": 66500.1, "tên": "sữa 🐮", "n": 9223372036854775808}


def test_a_broken_line_is_named_and_nothing_of_its_file_is_put(
    silver_store: SilverStore, silver_url: str, tmp_path: Path
) -> None:
    whole = lines(tmp_path / "whole.jsonl", [bar()])
    broken = lines(tmp_path / "broken.jsonl", [bar("FPT")] * 5_000)
    broken.write_text(broken.read_text("utf-8") + '{"symbol": \n', "utf-8")
    results = [put_file(silver_store, str(path), FileReading()) for path in (whole, broken, whole)]
    assert [result.count for result in results] == [1, 0, 1]
    assert "broken.jsonl, line 5001" in (results[1].error or "")
    assert ask(silver_url, "SELECT count(*) FROM task_q") == [(2,)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"symbol": "VNM"}\n{"nobody": 1}', "line 2: its fields do not say"),
        ('{"symbol": NaN}', "line 1: it cannot be read as JSON"),
        ('{"symbol": "VNM"} {}', "line 1: it cannot be read as JSON"),
        ('\n\n{"symbol": "a\\u0000b"}', "line 3: it contains the character 0"),
        ('{"symbol": "\\ud800"}', "line 1: it cannot be read as JSON"),
        ('{"task_type": "ta.bar", "payload": {}, "priority": "high"}', "line 1: the priority 'high'"),
        ("[1, 2]", "line 1: it is no JSON object: a line holds one record"),
    ],
)
def test_what_cannot_be_a_task_is_told(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(BrokenLine, match=words):
        read(path)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"symbol": "Đ"}\n'.encode() + '{"symbol": "é"}\n'.encode("latin-1"))
    with pytest.raises(BrokenLine, match="line 2"):
        read(path)
    path = tmp_path / "latin.csv"
    path.write_bytes("symbol,close\nVNM,1\né,2\n".encode("latin-1"))
    with pytest.raises(BrokenLine, match=r"latin\.csv, after line 2"):
        read(path)


def test_an_escaped_backslash_is_not_the_character_0(tmp_path: Path) -> None:
    path = lines(tmp_path / "bars.jsonl", [bar(source="C:\\u0000")])
    assert read(path)[0][1]["source"] == "C:\\u0000"


def test_a_line_may_state_its_type_and_priority(silver_store: SilverStore, silver_url: str, tmp_path: Path) -> None:
    wrapped = [
        {"task_type": "ta.tick", "payload": bar(), "priority": 1},
        {"task_type": "ta.bar", "payload": [1]},
        {"task_type": None, "payload": article(), "reason": "sanity_fail"},
    ]
    assert put_file(silver_store, str(lines(tmp_path / "wrapped.jsonl", wrapped)), FileReading()).count == 3
    assert ask(silver_url, QUEUE) == [("ta.tick", 1, "ready"), (TA_BAR, 100, "ready"), (SA_ARTICLE, 100, "ready")]


def test_a_stated_kind_holds_for_every_line(tmp_path: Path) -> None:
    path = lines(tmp_path / "odd.jsonl", [{"nobody": 1}, "text", article()])
    assert [kind for kind, _ in read(path, kind=TA_BAR)] == [TA_BAR] * 3


def test_cells_become_what_their_column_is(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(
        "symbol,trade_date,open,high,low,close,volume,vwap,content_hash,source\n"
        'VNM,2024-01-02,66000,67000.10,65500,66500,9007199254740993,,0012,"a, ""b""\nc"\n',
        "utf-8-sig",
    )
    ((kind, payload),) = read(path)
    assert kind == TA_BAR
    assert payload == {
        **bar(open=66000, high=67000.1, low=65500, close=66500, volume=9007199254740993),
        "content_hash": "0012",
        "source": 'a, "b"\nc',
    }


def test_lists_in_cells_are_json_or_divided_by_a_bar(tmp_path: Path) -> None:
    path = tmp_path / "articles.csv"
    path.write_text('url_canonical,symbols,topic_tags,account_weights_applied\nu,VNM|FPT,"[""thép, tôn""]",True\n')
    assert read(path) == [
        (
            SA_ARTICLE,
            {
                "url_canonical": "u",
                "symbols": ["VNM", "FPT"],
                "topic_tags": ["thép, tôn"],
                "account_weights_applied": True,
            },
        )
    ]


@pytest.mark.parametrize("kind", [None, "ta.bar"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_columns_that_no_comma_separates_are_told(tmp_path: Path, separator: str, kind: str | None) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(separator.join(["symbol", "trade_date", "open"]) + "\n" + separator.join("VNM") + "\n", "utf-8")
    with pytest.raises(BrokenLine, match="line 1: its columns are separated by"):
        read(path, kind=kind)


def test_a_row_with_too_few_cells_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text("symbol,trade_date\nVNM,2024-01-02\nFPT\n")
    with pytest.raises(BrokenLine, match="line 3: 1 cells under 2 columns"):
        read(path)


def test_an_article_of_a_megabyte_fits_into_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "articles.csv"
    path.write_text("url_canonical,text_normalized\nu," + "ă" * 1_000_000 + "\n", "utf-8")
    assert len(read(path)[0][1]["text_normalized"]) == 1_000_000


def test_parquet_keeps_days_times_and_lists(tmp_path: Path) -> None:
    from datetime import UTC, date, datetime

    table = {
        "url_canonical": ["https://tin.example/1"],
        "publisher_time": [datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)],
        "symbols": [["VNM", "FPT"]],
        "title": [None],
    }
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "articles.parquet")
    ((kind, payload),) = read(tmp_path / "articles.parquet")
    assert (kind, payload["symbols"], "title" in payload) == (SA_ARTICLE, ["VNM", "FPT"], False)
    assert datetime.fromisoformat(payload["publisher_time"]) == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    bars = pyarrow.table({"symbol": ["VNM"], "trade_date": [date(2024, 1, 2)], "close": [66_500.5]})
    pyarrow.parquet.write_table(bars, tmp_path / "bars.parquet")
    assert read(tmp_path / "bars.parquet") == [
        (TA_BAR, {"symbol": "VNM", "trade_date": "2024-01-02", "close": 66_500.5})
    ]


def test_a_packed_file_is_unpacked_and_a_cut_one_is_told(tmp_path: Path) -> None:
    plain = lines(tmp_path / "bars.jsonl", [bar()] * 1_000)
    packed = tmp_path / "bars.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read(packed)) == 1_000
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(BrokenLine, match=r"bars\.jsonl\.gz, after line"):
        read(packed)


def test_a_name_says_the_form_or_somebody_else_must() -> None:
    names = {
        "a.jsonl": "jsonl",
        "a.ndjson": "jsonl",
        "A.CSV": "csv",
        "a.csv.gz": "csv",
        "a.parquet": "parquet",
        "-": "jsonl",
    }
    assert {name: format_of(name) for name in names} == names
    assert format_of("anything", "csv") == "csv"
    with pytest.raises(CallerError) as refused:
        format_of("bars.xlsx")
    assert "--format" in refused.value.hint


def test_how_far_it_is_can_be_seen(tmp_path: Path) -> None:
    path = lines(tmp_path / "bars.jsonl", [bar()] * 3_000)
    seen: list[int] = []
    list(read_tasks(str(path), FileReading(progress=seen.append)))
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= path.stat().st_size


def test_a_priority_beyond_an_integer_is_refused(silver_store: SilverStore, silver_url: str) -> None:
    with pytest.raises(CallerError, match="priority"):
        put_tasks(silver_store, [Incoming(TA_BAR, "{}"), Incoming(TA_BAR, "{}", 2**31)])
    assert ask(silver_url, "SELECT count(*) FROM task_q") == [(0,)]


def test_a_follower_is_told_when_tasks_are_put(postgres_database: str) -> None:
    store = open_store(postgres_database)
    store.create()
    with psycopg.connect(postgres_database, autocommit=True) as listener:
        listener.execute("LISTEN silver_task")
        put_tasks(store, [Incoming(TA_BAR, "{}")])
        assert [note.channel for note in listener.notifies(timeout=60, stop_after=1)] == ["silver_task"]
    store.close()


def test_putting_costs_little_more_than_copy_itself(postgres_database: str, tmp_path: Path) -> None:
    """The limit is generous because the machine is shared; the figures are printed for those who look."""
    count = 20_000
    path = lines(tmp_path / "bars.jsonl", (bar(source=f"line {number}") for number in range(count)))
    store = open_store(postgres_database)
    store.create()
    with psycopg.connect(postgres_database, autocommit=True) as raw:
        raw_s = min(_copied(raw, path) for _ in range(2))
    put_s = min(_timed(store, path) for _ in range(2))
    store.close()
    print(f"put {count / put_s:,.0f} rows/s, COPY alone {count / raw_s:,.0f} rows/s")
    assert put_s < 5 * raw_s


def _copied(connection: psycopg.Connection[Any], path: Path) -> float:
    rows: Iterator[bytes] = (b"ta.bar\t" + line.replace(b"\\", b"\\\\") for line in path.read_bytes().splitlines(True))
    began = time.perf_counter()
    with connection.cursor() as cursor, cursor.copy("COPY task_q (task_type, payload) FROM STDIN") as copy:
        for row in rows:
            copy.write(row)
    return time.perf_counter() - began


def _timed(store: SilverStore, path: Path) -> float:
    began = time.perf_counter()
    assert put_file(store, str(path), FileReading()).error is None
    return time.perf_counter() - began
