"""Dead letters: counted, shown, written to files, and given another passage exactly once."""

from __future__ import annotations

import csv
import gzip
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from silver_desk import article, ask, bar, consume, put

from headrace.errors import CallerError, NotFound
from headrace_silver.queue.dead_letters import LetterFilter, counts, newest, one, redrive
from headrace_silver.queue.letter_files import write_letters
from headrace_silver.queue.producer import put_file
from headrace_silver.records.record_files import FileReading
from headrace_silver.records.values import SA_ARTICLE
from headrace_silver.stores.silver_store import SilverStore, open_store

EVERY = 1_000_000
WIDE = "^[A-Z0-9]{3,8}$"


def again(store: SilverStore, which: LetterFilter | None = None, limit: int = EVERY) -> int:
    done = redrive(store, which or LetterFilter(), limit)
    assert done.left == []
    return done.ready + done.anew


def test_letters_are_counted_by_reason_and_rule(silver_store: SilverStore) -> None:
    put(silver_store, [bar("vnm"), bar("vn"), bar(volume=-1), bar(vwap="cao")])
    put(silver_store, [bar()], "ta.tick")
    consume(silver_store)
    found = [(each.reason, each.rule_id, each.count) for each in counts(silver_store, LetterFilter())]
    assert found[0] == ("sanity_fail", "ta_symbol", 2)
    assert sorted(found[1:], key=str) == [
        ("exception", None, 1),
        ("sanity_fail", "ta_volume", 1),
        ("unknown_task_type", None, 1),
    ]


def test_a_redrive_after_a_fix_applies_each_task_once(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("CVNM2401", f"2024-01-0{day}") for day in range(1, 6)] + [bar("vnm")])
    assert consume(silver_store).rejects == 6
    assert again(silver_store, LetterFilter(rule="ta_symbol")) == 6
    done = consume(silver_store, WIDE)
    assert (done.bars, done.rejects) == (5, 1)
    assert ask(silver_url, "SELECT count(*) FROM ta_silver WHERE symbol = 'CVNM2401'") == [(5,)]
    assert ask(silver_url, "SELECT count(*) FROM task_q WHERE status = 'ready'") == [(0,)]
    # Of the six only the one that died again is open, by its new letter.
    (left,) = newest(silver_store, LetterFilter())
    assert json.loads(left.payload or "")["symbol"] == "vnm"
    assert len(list(newest(silver_store, LetterFilter(every=True)))) == 7


def test_a_letter_cites_the_pattern_by_which_it_was_judged_also_after_another_is_set(
    silver_store: SilverStore,
) -> None:
    put(silver_store, [bar("PC1")])
    put(silver_store, [article(symbols=["VNM", "PC1"])], SA_ARTICLE)
    consume(silver_store)
    put(silver_store, [bar("vnm")])
    consume(silver_store, WIDE)
    cited = [letter.error_msg or "" for letter in newest(silver_store, LetterFilter())]
    assert [message.partition(" Here: ")[2] for message in cited] == [
        f"symbol='vnm', and the pattern is {WIDE}.",
        "symbols[1]='PC1', and the pattern is ^[A-Z]{3,7}$.",
        "symbol='PC1', and the pattern is ^[A-Z]{3,7}$.",
    ]


def test_a_letter_is_not_redriven_twice(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("vnm")])
    consume(silver_store)
    assert again(silver_store) == 1
    assert again(silver_store) == 0
    assert counts(silver_store, LetterFilter()) == []
    assert ask(silver_url, "SELECT status FROM task_q") == [("ready",)]


def test_two_redrives_at_once_share_the_letters(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("vnm", f"2024-01-{day:02}") for day in range(1, 29)])
    consume(silver_store)
    start, done = threading.Barrier(2), []

    def one_of_two() -> None:
        store = open_store(silver_url)
        start.wait()
        done.append(again(store))
        store.close()

    both = [threading.Thread(target=one_of_two) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(done) == [0, 28]
    assert ask(silver_url, "SELECT count(*) FROM task_q WHERE status = 'ready'") == [(28,)]
    assert ask(silver_url, "SELECT count(*) FROM silver_redrive") == [(28,)]


def test_of_a_task_that_died_twice_only_the_last_letter_counts(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("vnm")])
    consume(silver_store)
    # Somebody brings it back by hand, without our mark.
    ask(silver_url, "UPDATE task_q SET status = 'ready'")
    consume(silver_store)
    assert [each.count for each in counts(silver_store, LetterFilter())] == [1]
    assert [each.count for each in counts(silver_store, LetterFilter(every=True))] == [2]
    assert again(silver_store) == 1
    assert ask(silver_url, "SELECT letter_id FROM silver_redrive") == [(2,)]


def test_a_task_that_somebody_deleted_is_made_anew_once(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("vnm"), bar(vwap="cao")])
    put(silver_store, [article(content_hash="")], SA_ARTICLE)
    consume(silver_store)
    ask(silver_url, "DELETE FROM task_q")
    done = redrive(silver_store, LetterFilter(), EVERY)
    assert (done.ready, done.anew, done.left) == (0, 3, [])
    assert again(silver_store) == 0
    kinds = ask(silver_url, "SELECT task_type, count(*) FROM task_q GROUP BY task_type ORDER BY task_type")
    assert kinds == [("sa.article", 1), ("ta.bar", 2)]
    # Its own time is gone with the row; the letter's is the best that is left.
    assert ask(
        silver_url,
        "SELECT count(*) FROM task_q JOIN task_q_dlq ON task_q.first_seen = task_q_dlq.created_at "
        "AND task_q.payload = task_q_dlq.payload",
    ) == [(3,)]


def test_a_letter_that_does_not_tell_its_type_is_left_and_told(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar()], "ta.tick")
    consume(silver_store)
    ask(silver_url, "DELETE FROM task_q")
    done = redrive(silver_store, LetterFilter(), EVERY)
    assert (done.ready, done.anew, done.left_count) == (0, 0, 1)
    assert "--kind" in done.left[0][1]
    assert ask(silver_url, "SELECT count(*) FROM silver_redrive") == [(0,)]
    assert ask(silver_url, "SELECT count(*) FROM task_q") == [(0,)]


def test_a_task_that_is_ready_again_already_is_left_alone(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("vnm")])
    consume(silver_store)
    ask(silver_url, "UPDATE task_q SET status = 'ready'")
    done = redrive(silver_store, LetterFilter(), EVERY)
    assert (done.ready, done.anew, done.left_count) == (0, 0, 1)
    assert "'ready'" in done.left[0][1]
    assert ask(silver_url, "SELECT count(*) FROM silver_redrive") == [(0,)]


def test_a_filter_narrows_a_redrive(silver_store: SilverStore) -> None:
    put(silver_store, [bar("vnm"), bar(volume=-1), bar(volume=-2), bar(vwap="cao")])
    consume(silver_store)
    now = datetime.now(UTC)
    last = next(newest(silver_store, LetterFilter()))
    assert again(silver_store, LetterFilter(rule="nobody")) == 0
    assert again(silver_store, LetterFilter(since=now + timedelta(hours=1))) == 0
    assert again(silver_store, LetterFilter(until=now - timedelta(hours=1))) == 0
    assert again(silver_store, LetterFilter(ids=(last.id,))) == 1
    assert again(silver_store, LetterFilter(rule="ta_volume"), limit=1) == 1
    assert again(silver_store, LetterFilter(reason="sanity_fail", since=now - timedelta(hours=1))) in (1, 2)
    assert again(silver_store) + 1 in (1, 2)
    assert counts(silver_store, LetterFilter()) == []


def test_one_letter_tells_its_task(silver_store: SilverStore) -> None:
    put(silver_store, [bar("vnm", _breaks="ta_symbol")])
    consume(silver_store)
    (known,) = newest(silver_store, LetterFilter())
    letter, task_type, status = one(silver_store, known.id)
    assert (letter, task_type, status) == (known, "ta.bar", "dlq")
    assert letter.created_at.tzinfo is not None
    assert json.loads(letter.payload or "")["_breaks"] == "ta_symbol"
    with pytest.raises(NotFound):
        one(silver_store, known.id + 1)


def test_exported_letters_can_be_corrected_and_put_again(silver_store: SilverStore, tmp_path: Path) -> None:
    put(silver_store, [bar("vnm"), bar(volume=-1)])
    put(silver_store, [article(source_domain="", title="Giá 🐮 lên")], SA_ARTICLE)
    consume(silver_store)
    path = tmp_path / "letters.jsonl.gz"
    assert write_letters(str(path), newest(silver_store, LetterFilter())) == 3
    text = gzip.decompress(path.read_bytes()).decode()
    corrected = text.replace('"vnm"', '"VNM"').replace('"volume": -1', '"volume": 1')
    corrected = corrected.replace('"source_domain": ""', '"source_domain": "tin.example"')
    (tmp_path / "corrected.jsonl").write_text(corrected, "utf-8")
    assert put_file(silver_store, str(tmp_path / "corrected.jsonl"), FileReading()).count == 3
    done = consume(silver_store)
    assert (done.bars, done.articles, done.rejects) == (2, 1, 0)


def test_letters_as_csv_hold_the_payload_as_it_is(silver_store: SilverStore, tmp_path: Path) -> None:
    put(silver_store, [bar("vnm"), ["no", "record"]])
    consume(silver_store)
    path = tmp_path / "letters.csv"
    assert write_letters(str(path), newest(silver_store, LetterFilter())) == 2
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rule_id"] for row in rows] == ["ta_payload", "ta_symbol"]
    assert json.loads(rows[0]["payload"]) == ["no", "record"]


def test_an_export_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="as parquet"):
        write_letters(str(tmp_path / "letters.parquet"), [])
    with pytest.raises(CallerError, match="No such file"):
        write_letters(str(tmp_path / "nowhere" / "letters.csv"), [])
    assert list(tmp_path.iterdir()) == []


def test_many_letters_come_page_by_page(silver_store: SilverStore) -> None:
    put(silver_store, [bar("vnm")] * 4_100)
    consume(silver_store)
    ids = [letter.id for letter in newest(silver_store, LetterFilter())]
    assert len(ids) == 4_100
    assert ids == sorted(ids, reverse=True)
    assert len(list(newest(silver_store, LetterFilter(), limit=2_001))) == 2_001


def test_a_redrive_beside_a_running_consumer_loses_and_doubles_nothing(
    silver_store: SilverStore, silver_url: str
) -> None:
    put(silver_store, [bar("CVNM2401", f"2023-{month:02}-{day:02}") for month in range(1, 13) for day in range(1, 29)])
    consume(silver_store)
    ended = threading.Event()

    def follow() -> None:
        store = open_store(silver_url)
        while not ended.is_set():
            consume(store, WIDE)
        consume(store, WIDE)
        store.close()

    beside = threading.Thread(target=follow)
    beside.start()
    total = 0
    try:
        while (count := again(silver_store, limit=50)) > 0:
            total += count
    finally:
        ended.set()
        beside.join()
    assert total == 12 * 28
    assert ask(silver_url, "SELECT count(*) FROM ta_silver") == [(12 * 28,)]
    assert ask(silver_url, "SELECT count(*) FROM task_q") == [(0,)]
