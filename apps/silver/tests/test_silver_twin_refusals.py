"""The embedded store refuses what PostgreSQL refuses, and one bad record dies alone."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import apsw
import pytest
from silver_account import article, bar

from headrace.errors import HeadraceError, StoreFull
from headrace_silver.records.values import Article, Bar, Judged
from headrace_silver.stores.sqlite.store import SqliteSilverStore

SEEN = datetime(2024, 3, 1, 12, tzinfo=UTC)


def put(store: SqliteSilverStore, *tasks: tuple[str, Any]) -> None:
    with store.transaction():
        store.load("put_tasks", ((kind, json.dumps(payload), 100) for kind, payload in tasks))


def a_bar(**changes: Any) -> Bar:
    known = {"open": 1.0, "high": 1.0, "low": 1.0, "close": 1.0, "volume": 1, "first_seen_time": SEEN}
    stated = {"symbol": "VNM", "trade_date": date(2024, 2, 29), **known, **changes}
    return Bar(**{name: stated.get(name) for name in Bar.__slots__})  # type: ignore[arg-type]


def an_article(**changes: Any) -> Article:
    known = {"publisher_time": SEEN, "first_seen_time": SEEN, "text_normalized": "x" * 120, "content_hash": "a1"}
    stated = {"url_canonical": "https://tin.vn/1", "source_domain": "tin.vn", **known, **changes}
    return Article(**{name: stated.get(name) for name in Article.__slots__})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"volume": 2**63},
        {"symbol": "V\0M"},
        {"symbol": "V\ud800M"},
        {"symbol": "V" * 2_689},
        {"source": "a\0"},
        {"open": None},
        {"open": float("nan")},
        {"open": "many"},
        {"volume": 1.5},
    ],
    ids=repr,
)
def test_a_bar_that_no_column_holds_dies_alone(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection, changes: dict[str, Any]
) -> None:
    put(embedded_store, *[("ta.bar", bar())] * 3)
    with embedded_store.batch(10) as batch:
        bars = [(1, a_bar(symbol="FPT")), (2, a_bar(**changes)), (3, a_bar(symbol="HPG"))]
        settled = batch.settle(Judged(bars), None)
    assert [(each.task_id, each.reason, each.rule_id) for each in settled.rejects] == [(2, "exception", None)]
    assert settled.bars == 2
    assert embedded_other.execute("SELECT symbol FROM ta_silver ORDER BY 1").fetchall() == [("FPT",), ("HPG",)]
    assert embedded_other.execute("SELECT id, status FROM task_q").fetchall() == [(2, "dlq")]
    assert embedded_other.execute("SELECT task_id, error_msg <> '' FROM task_q_dlq").fetchall() == [(2, 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "a\0"},
        {"title": "\udfff"},
        {"topic_tags": ["a", "b\0"]},
        {"symbols": ["\ud800"]},
        {"url_canonical": "https://tin.vn/" + "x" * 2_678},
        {"content_hash": "x" * 2_683},
        {"account_weights_applied": 7},
    ],
    ids=lambda changes: repr(changes)[:30],
)
def test_an_article_that_no_column_holds_dies_alone(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection, changes: dict[str, Any]
) -> None:
    put(embedded_store, *[("sa.article", article())] * 2)
    with embedded_store.batch(10) as batch:
        articles = [(1, an_article(**changes)), (2, an_article(url_canonical="https://tin.vn/2"))]
        settled = batch.settle(Judged([], articles), None)
    assert [each.task_id for each in settled.rejects] == [1]
    assert embedded_other.execute("SELECT url_canonical FROM sa_silver").fetchall() == [("https://tin.vn/2",)]


def test_trying_the_tasks_behind_one_key_leaves_no_trace(embedded_store: SqliteSilverStore) -> None:
    put(embedded_store, *[("ta.bar", bar())] * 4)
    with embedded_store.batch(1) as batch:
        batch.settle(Judged([(1, a_bar())]), None)
    with embedded_store.batch(3) as batch:
        closes = [(2, a_bar(close=2.0)), (3, a_bar(close=3.0)), (4, a_bar(close=4.0, source="a\0"))]
        settled = batch.settle(Judged(closes), None)
    assert ([each.task_id for each in settled.rejects], settled.bars, settled.revisions) == ([4], 2, 1)
    assert embedded_store.rows("revisions_kept", {"symbol": "VNM", "day": None, "most": 9})[0][4] == 1.0


def test_a_fold_does_not_hide_what_no_column_holds(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    put(embedded_store, *[("ta.bar", bar())] * 3)
    with embedded_store.batch(10) as batch:
        bars = [(1, a_bar(close=1.0)), (2, a_bar(volume=2**63)), (3, a_bar(source="hose"))]
        settled = batch.settle(Judged(bars), None)
    assert [each.task_id for each in settled.rejects] == [2]
    assert embedded_other.execute("SELECT source, volume FROM ta_silver").fetchall() == [("hose", 1)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload", "{"),
        ("payload", r'{"a": "\u0000"}'),
        ("payload", r'{"\\\u0000": 1}'),
        ("payload", '{"a": "\0"}'),
        ("payload", b"{}"),
        ("payload", None),
        ("first_seen", "2024-03-01 00:00:00"),
        ("first_seen", "2024-02-30T00:00:00.000000+00:00"),
        ("first_seen", "2024-03-01T00:00:00.000000+07:00"),
        ("first_seen", "2024-03-01T00:00:60.000000+00:00"),
        ("first_seen", "0000-03-01T00:00:00.000000+00:00"),
        ("priority", 2**31),
        ("priority", "soon"),
        ("task_type", "ta\0bar"),
    ],
)
def test_the_queue_takes_nothing_that_postgres_would_refuse(
    embedded_other: apsw.Connection, column: str, value: object
) -> None:
    task = {"task_type": "ta.bar", "payload": "{}", "priority": 100, "first_seen": "2024-03-01T00:00:00.000000+00:00"}
    insert = "INSERT INTO task_q (task_type, payload, priority, first_seen) VALUES (?, ?, ?, ?)"
    with pytest.raises((apsw.ConstraintError, apsw.MismatchError)):
        embedded_other.execute(insert, tuple({**task, column: value}.values()))
    embedded_other.execute(insert, tuple(task.values()))


@pytest.mark.parametrize("payload", [r'{"a": "\\u0000"}', r'{"a": "\\\\u0000 \u0001"}', '{"a": 1e400}', '"{"', "null"])
def test_the_queue_takes_what_only_looks_wrong(embedded_other: apsw.Connection, payload: str) -> None:
    embedded_other.execute("INSERT INTO task_q (task_type, payload) VALUES ('ta.bar', ?)", (payload,))
    assert embedded_other.execute("SELECT payload FROM task_q").fetchall() == [(payload,)]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00.000000+00:00", "9999-12-31T23:59:59.999999+00:00"])
def test_the_first_and_the_last_moment_fit(
    embedded_store: SqliteSilverStore, embedded_other: apsw.Connection, moment: str
) -> None:
    embedded_other.execute(
        "INSERT INTO task_q (task_type, payload, first_seen) VALUES ('sa.video', '{}', ?)", (moment,)
    )
    with embedded_store.batch(1) as batch:
        assert batch.tasks[0].first_seen == datetime.fromisoformat(moment)


def test_a_full_disk_rolls_back_and_says_so(
    embedded_path: str, embedded_store: SqliteSilverStore, embedded_other: apsw.Connection
) -> None:
    put(
        embedded_store,
        *[("sa.article", article(url_canonical=f"https://tin.vn/{n}", title="x" * 20_000)) for n in range(20)],
    )
    full: list[apsw.Connection] = []
    apsw.connection_hooks.append(full.append)
    small = SqliteSilverStore(embedded_path)
    assert small.lock()
    apsw.connection_hooks.remove(full.append)
    full[0].pragma("max_page_count", full[0].pragma("page_count"))
    with pytest.raises(StoreFull), small.batch(20) as batch:
        articles = [(n, an_article(url_canonical=f"https://tin.vn/{n}", title="y" * 20_000)) for n in range(1, 21)]
        batch.settle(Judged([], articles), 0)
    small.close()
    assert embedded_other.execute("SELECT count(*) FROM task_q WHERE status = 'ready'").fetchall() == [(20,)]
    assert embedded_other.execute("SELECT count(*) FROM sa_silver").fetchall() == [(0,)]


def test_what_is_not_allowed_is_one_of_our_errors(embedded_store: SqliteSilverStore) -> None:
    with pytest.raises(HeadraceError), embedded_store.transaction():
        embedded_store.load("put_tasks", [("ta.bar", "{", 100)])
