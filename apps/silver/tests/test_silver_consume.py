"""What a batch does to the tables: upserts, letters, the queue, the flag, the history."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime

import psycopg
import pytest
from silver_account import Queue, article, bar, consume

from headrace.errors import HeadraceError
from headrace_silver.queue.consumer import ConsumedTasks, ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.postgres.store import PostgresSilverStore
from headrace_silver.stores.silver_store import open_store


def test_a_bar_is_overwritten_and_keeps_the_oldest_time_it_was_seen(queue: Queue) -> None:
    queue.put("ta.bar", bar(vwap=10.2, source="hose", first_seen_time="2024-03-01T00:00:00Z", content_hash="a"))
    consume(queue)
    queue.put("ta.bar", bar(close=11.5, first_seen_time="2024-03-05T00:00:00Z", content_hash="b"))
    consume(queue)
    found = queue.ask("SELECT close, vwap, source, currency, first_seen_time, content_hash FROM ta_silver")
    assert found == [(11.5, None, None, "VND", datetime(2024, 3, 1, tzinfo=UTC), "b")]
    assert queue.check() == {"applied": 2}


def test_currency_and_multiplier_change_only_when_they_are_stated(queue: Queue) -> None:
    queue.put("ta.bar", bar(currency="USD", price_multiplier=1000))
    consume(queue)
    queue.put("ta.bar", bar())
    queue.put("ta.bar", bar(symbol="FPT"))
    queue.put("ta.bar", bar(symbol="HPG", currency="EUR"))
    queue.put("ta.bar", bar(symbol="MWG", price_multiplier=10))
    consume(queue)
    stated = "SELECT symbol, currency, price_multiplier FROM ta_silver ORDER BY symbol"
    assert queue.ask(stated) == [("FPT", "VND", 1), ("HPG", "EUR", 1), ("MWG", "VND", 10), ("VNM", "USD", 1000)]
    queue.put("ta.bar", bar(price_multiplier=1))
    consume(queue)
    assert queue.ask(stated)[-1] == ("VNM", "USD", 1)


def test_an_article_is_enriched_and_never_impoverished(queue: Queue) -> None:
    queue.put("sa.article", article(symbols=["VNM"], language="vi", author="An", topic_tags=["thép"], hype_raw=0.5))
    consume(queue)
    later = article(publisher_time="2024-02-28T00:00:00Z", content_hash="b2", symbols=[], language="fr", title=None)
    queue.put("sa.article", {**later, "source_domain": "khac.vn", "hype_crowd": 0.1, "account_weights_applied": True})
    consume(queue)
    found = queue.ask(
        "SELECT source_domain, publisher_time, language, title, content_hash, symbols, author, topic_tags, hype_raw,"
        " hype_crowd, account_weights_applied FROM sa_silver"
    )
    first = datetime(2024, 2, 28, tzinfo=UTC)
    kept = ("b2", ["VNM"], "An", ["thép"], 0.5, 0.1, True)
    assert found == [("tin.vn", first, "vi", "Phiên tăng điểm", *kept)]


def test_tasks_of_one_key_in_a_batch_count_as_if_applied_one_by_one(queue: Queue) -> None:
    queue.put("ta.bar", bar(close=10, currency="USD"))
    queue.put("ta.bar", bar(close=11))
    queue.put("sa.article", article(author="An", content_hash="a"))
    queue.put("sa.article", article(content_hash="b"))
    consumed, _ = consume(queue)
    assert (consumed.bars, consumed.articles) == (2, 2)
    assert queue.ask("SELECT close, currency FROM ta_silver") == [(11, "USD")]
    assert queue.ask("SELECT author, content_hash FROM sa_silver") == [("An", "b")]
    assert queue.check() == {"applied": 4}
    assert queue.ask("SELECT count(*) FROM applied") == [(2,)]


def test_a_reject_becomes_a_letter_with_the_payload_as_it_was(queue: Queue) -> None:
    payload = bar(symbol="vnm", note="ồ 😀")
    bad, unknown = queue.put("ta.bar", payload), queue.put("sa.video", {"url": "x"})
    text = queue.put("ta.bar", "no object")
    consumed, lines = consume(queue)
    assert queue.reasons() == {
        bad: ("sanity_fail", "ta_symbol"),
        unknown: ("unknown_task_type", None),
        text: ("sanity_fail", "ta_payload"),
    }
    assert queue.ask("SELECT payload FROM task_q_dlq WHERE task_id = %s", bad) == [(payload,)]
    assert queue.ask("SELECT count(*) FROM task_q WHERE status = 'dlq' AND last_attempt IS NOT NULL") == [(3,)]
    assert queue.ask("SELECT reason, rule_id, count FROM silver_reject_day ORDER BY 1, 2") == [
        ("sanity_fail", "ta_payload", 1),
        ("sanity_fail", "ta_symbol", 1),
        ("unknown_task_type", "", 1),
    ]
    assert (consumed.rejects, lines) == (3, [])
    assert queue.check() == {"dlq": 3}


def test_a_record_that_only_the_database_refuses_dies_alone(queue: Queue) -> None:
    queue.ask("ALTER TABLE ta_silver ADD CONSTRAINT picky CHECK (volume <> 13)")
    bad = [queue.put("ta.bar", bar(symbol=symbol, volume=13)) for symbol in ("AAA", "BBB")]
    for number in range(60):
        queue.put("ta.bar", bar(trade_date=f"20{number:02}-01-05" if number < 26 else f"19{number}-01-05"))
    bad.append(queue.put("ta.bar", bar(symbol="CCC", volume=13)))
    long = queue.put("sa.article", article(url_canonical="https://tin.vn/" + incompressible(4_000)))
    queue.put("sa.article", article())
    consumed, lines = consume(queue)
    assert queue.reasons() == dict.fromkeys([*bad, long], ("exception", None))
    assert 'check constraint "picky"' in queue.message(bad[0])
    assert "index row" in queue.message(long)
    assert [line.split(":")[0] for line in lines] == [f"Lỗi xử lý task {task}" for task in [*bad, long]]
    assert (consumed.bars, consumed.articles, consumed.failed) == (60, 1, False)
    assert queue.check() == {"applied": 61, "dlq": 4}


def test_of_the_tasks_behind_one_key_only_the_guilty_die(queue: Queue) -> None:
    queue.ask("ALTER TABLE ta_silver ADD CONSTRAINT picky CHECK (source IS DISTINCT FROM 'refused')")
    queue.put("ta.bar", bar(close=9.5, currency="USD"))
    queue.put("ta.bar", bar(close=10))
    guilty = queue.put("ta.bar", bar(close=11, source="refused"))
    consume(queue)
    assert queue.ask("SELECT close, currency FROM ta_silver") == [(10, "USD")]
    assert list(queue.reasons()) == [guilty]
    assert queue.check() == {"applied": 2, "dlq": 1}


@pytest.mark.parametrize("volume", [2**63, 10**30])
def test_a_volume_that_has_no_room_dies_and_the_largest_lives(queue: Queue, volume: int) -> None:
    queue.put("ta.bar", bar(volume=2**63 - 1))
    beyond = queue.put("ta.bar", bar(symbol="FPT", volume=volume))
    consume(queue)
    assert queue.ask("SELECT volume FROM ta_silver") == [(2**63 - 1,)]
    assert queue.reasons() == {beyond: ("exception", None)}


def test_odd_but_right_records_are_stored_as_they_are(queue: Queue) -> None:
    symbols = [f"{chr(65 + n // 676 % 26)}{chr(65 + n // 26 % 26)}{chr(65 + n % 26)}" for n in range(10_000)]
    text = "Thị trường e\u0301 👩‍👩‍👧 " * 40_000
    odd = article(text_normalized=text, symbols=symbols, title='"{\\,}" NULL', topic_tags=["null", 'a"b\\', ""])
    queue.put("sa.article", odd)
    queue.put("ta.bar", bar(trade_date="1899-12-31"))
    queue.put("ta.bar", bar(trade_date="2000-02-29"))
    leap = queue.put("ta.bar", bar(trade_date="1900-02-29"))
    consume(queue)
    assert len(text.encode()) > 1_000_000
    found = queue.ask("SELECT text_normalized, symbols, title, topic_tags FROM sa_silver")
    assert found == [(text, symbols, odd["title"], odd["topic_tags"])]
    assert queue.ask("SELECT trade_date FROM ta_silver ORDER BY 1") == [(date(1899, 12, 31),), (date(2000, 2, 29),)]
    assert queue.reasons() == {leap: ("sanity_fail", "ta_trade_date")}


def test_a_nul_inside_a_payload_of_text_dies_alone(queue: Queue) -> None:
    nul = queue.put("sa.article", json.dumps(article(title="a\0b")))
    queue.put("sa.article", json.dumps(article(url_canonical="https://tin.vn/2")))
    consume(queue)
    assert list(queue.reasons()) == [nul]
    assert queue.ask("SELECT url_canonical FROM sa_silver") == [("https://tin.vn/2",)]


def test_an_article_keeps_its_oldest_times(queue: Queue) -> None:
    for day in (5, 4, 6):
        queue.put(
            "sa.article",
            article(publisher_time=f"2024-03-0{day}T00:00:00Z", first_seen_time=f"2024-03-0{day}T01:00:00Z"),
        )
        consume(queue)
    oldest = (datetime(2024, 3, 4, tzinfo=UTC), datetime(2024, 3, 4, 1, tzinfo=UTC))
    assert queue.ask("SELECT publisher_time, first_seen_time FROM sa_silver") == [oldest]


@pytest.mark.parametrize(("ready", "slow"), [(3, False), (4, True)])
def test_the_flag_says_whether_more_than_the_threshold_wait(queue: Queue, ready: int, slow: bool) -> None:
    for _ in range(ready + 1):
        queue.put("ta.bar", bar())
    consumed, _ = consume(queue, batch_size=1, backlog_threshold=3)
    assert (queue.flag(), consumed.slow, len(queue.ready())) == (slow, slow, ready)


def test_the_flag_is_written_when_there_is_nothing_to_do(queue: Queue) -> None:
    queue.ask("INSERT INTO control_flags VALUES ('SCRAPE_SLOW', true, now() - interval '1 day')")
    consume(queue)
    assert queue.ask("SELECT value, updated_at > now() - interval '1 hour' FROM control_flags") == [(False, True)]


def test_a_drain_leaves_the_flag_as_it_should_be(queue: Queue) -> None:
    for number in range(30):
        queue.put("ta.bar", bar(trade_date=f"2020-01-{number + 1:02}"))
    consumed, _ = consume(queue, Mode.DRAIN, batch_size=10, backlog_threshold=0)
    assert (consumed.batches, consumed.bars) == (3, 30)
    assert (consumed.slow, queue.flag()) == (False, False)


def test_a_drain_that_is_told_to_stop_leaves_the_flag_as_it_should_be(queue: Queue) -> None:
    for number in range(30):
        queue.put("ta.bar", bar(trade_date=f"2020-01-{number + 1:02}"))
    flags = []

    def stop_after_two(consumed: ConsumedTasks) -> None:
        flags.append(queue.flag())
        if consumed.batches == 2:
            consumer.stop.ask()

    store = PostgresSilverStore(queue.url)
    consumer = TaskConsumer(store, ConsumeSettings(10, 15), Mode.DRAIN, show=stop_after_two)
    consumed = consumer.run()
    store.close()
    assert (len(queue.ready()), flags[0]) == (10, True)
    assert (consumed.slow, queue.flag()) == (False, False)


def test_what_a_bar_was_before_is_kept_once_per_batch(queue: Queue) -> None:
    queue.put("ta.bar", bar(close=10, content_hash="a"))
    queue.put("ta.bar", bar(symbol="FPT"))
    consume(queue)
    queue.put("ta.bar", bar(close=10.5))
    queue.put("ta.bar", bar(close=11, content_hash="c"))
    queue.put("ta.bar", bar(symbol="FPT", source="other", content_hash="d"))
    consumed, _ = consume(queue)
    assert consumed.revisions == 1
    kept = "SELECT symbol, trade_date, close, content_hash, replaced_at > ingest_time FROM silver_revision"
    assert queue.ask(kept) == [("VNM", date(2024, 2, 29), 10, "a", True)]


def test_a_batch_that_is_written_again_without_a_refused_record_keeps_one_history(queue: Queue) -> None:
    queue.put("ta.bar", bar(close=10))
    consume(queue)
    queue.put("ta.bar", bar(close=11))
    queue.put("sa.article", article(url_canonical="https://tin.vn/" + incompressible(4_000)))
    consumed, _ = consume(queue)
    assert (consumed.revisions, consumed.rejects) == (1, 1)
    assert queue.ask("SELECT close FROM silver_revision") == [(10,)]


def test_create_may_be_repeated_and_adds_nothing_to_foreign_tables(queue: Queue) -> None:
    columns = "SELECT table_name, column_name, ordinal_position FROM information_schema.columns"
    foreign = columns + " WHERE table_schema = current_schema() AND table_name !~ '^silver_' ORDER BY 1, 3"
    before = queue.ask(foreign)
    for _ in range(2):
        store = open_store(queue.url)
        store.create()
        store.close()
    assert queue.ask(foreign) == before
    assert queue.ask("SELECT to_regclass('silver_revision') IS NOT NULL") == [(True,)]


def test_a_role_that_may_not_create_tables_still_consumes(queue: Queue) -> None:
    queue.ask("DROP ROLE IF EXISTS silver_reader")
    queue.ask("CREATE ROLE silver_reader LOGIN")
    schema = queue.ask("SELECT current_schema()")[0][0]
    queue.ask(f"GRANT USAGE ON SCHEMA {schema} TO silver_reader")
    queue.ask(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO silver_reader")
    queue.ask(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO silver_reader")
    queue.put("ta.bar", bar())
    queue.put("ta.bar", bar(symbol="x"))
    told: list[str] = []
    store = PostgresSilverStore(queue.url.replace("postgres@", "silver_reader@"), told.append)
    for _ in range(2):
        TaskConsumer(store, ConsumeSettings(), Mode.ONE, line=lambda _: None).run()
    queue.ask("SELECT pg_advisory_lock(hashtext('silver_consume'))")
    seen = store.holder() or ""
    store.close()
    queue.ask("DROP OWNED BY silver_reader")
    queue.ask("DROP ROLE silver_reader")
    assert queue.check() == {"applied": 1, "dlq": 1}
    assert len(told) == 1
    assert "without a history" in told[0]
    assert seen.startswith(f"process {queue.connection.info.backend_pid} of postgres")
    assert queue.ask("SELECT to_regclass('silver_revision')") == [(None,)]


def test_a_fault_that_is_nobodys_record_rolls_the_batch_back(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    queue.put("ta.bar", bar(symbol="x"))
    queue.ask("ALTER TABLE task_q_dlq ADD CONSTRAINT closed CHECK (reason = 'nothing')")
    consumed, lines = consume(queue)
    assert consumed.failed
    assert lines[0].startswith("Lỗi nghiêm trọng, rollback batch: ")
    assert '"closed"' in lines[0]
    assert queue.check() == {"ready": 2}
    queue.await_free_lock()


def test_a_drain_goes_on_after_a_rollback_on_the_same_connection(queue: Queue) -> None:
    queue.put("ta.bar", bar())
    store, lines = PostgresSilverStore(queue.url + "%20-clock_timeout%3D200"), list[str]()
    with psycopg.connect(queue.url) as other:
        other.execute("LOCK TABLE ta_silver IN SHARE MODE")

        def line(text: str) -> None:
            lines.append(text)
            other.rollback()

        consumed = TaskConsumer(store, ConsumeSettings(), Mode.DRAIN, line=line).run()
    assert store.lock()
    store.close()
    assert [text.split(":")[0] for text in lines] == [
        "Lỗi nghiêm trọng, rollback batch",
        "Không có task nào, worker kết thúc.",
    ]
    assert (consumed.failed, consumed.bars) == (False, 1)
    assert queue.check() == {"applied": 1}


def test_a_missing_queue_is_told_with_what_to_do(silver_database: str) -> None:
    store = PostgresSilverStore(silver_database)
    with pytest.raises(HeadraceError, match="no table task_q") as caught:
        store.lock()
    store.close()
    assert "db/init.sql" in caught.value.hint


def incompressible(length: int) -> str:
    """A long URL is refused by the index only if it does not shrink."""
    return "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=length))
