"""Letters that a person closes with a note: kept, shown, reported, and out of the way of a redrive."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from silver_desk import ask, bar, consume, put

from headrace.errors import CallerError
from headrace_silver.quality.assessment import assess
from headrace_silver.quality.health import examine
from headrace_silver.quality.values import ReportSettings
from headrace_silver.queue.dead_letters import LetterFilter, LetterNote, close, counts, newest, one, redrive, reopen
from headrace_silver.report.document import document
from headrace_silver.stores.silver_store import SilverStore, open_store

EVERY = 1_000_000
NOTE = LetterNote("cancelled by the exchange", "lan")


@pytest.fixture
def store(silver_store: SilverStore) -> SilverStore:
    """Letters 1 and 2 of ta_volume, 3 of ta_symbol."""
    put(silver_store, [bar(volume=-1), bar(volume=-2), bar("vnm")])
    consume(silver_store)
    return silver_store


def test_a_closed_letter_is_not_open_and_keeps_its_note(store: SilverStore, silver_url: str) -> None:
    assert close(store, LetterFilter(rule="ta_volume"), NOTE, EVERY) == (2, [])
    assert [(each.rule_id, each.count) for each in counts(store, LetterFilter())] == [("ta_symbol", 1)]
    assert [letter.id for letter in newest(store, LetterFilter(every=True))] == [3, 2, 1]
    letter, _, status = one(store, 1)
    assert (letter.note, letter.closed_by, status) == (NOTE.text, "lan", "dlq")
    assert letter.closed_at is not None
    assert datetime.now(UTC) - letter.closed_at < timedelta(minutes=5)
    assert ask(silver_url, "SELECT count(*) FROM task_q WHERE status = 'dlq'") == [(3,)]


def test_a_closed_letter_is_redriven_only_after_it_was_reopened(store: SilverStore) -> None:
    close(store, LetterFilter(ids=(1,)), NOTE, EVERY)
    done = redrive(store, LetterFilter(ids=(1,)), EVERY)
    assert (done.ready, done.left_count) == (0, 1)
    assert "lan closed it" in done.left[0][1]
    assert "dead reopen 1" in done.left[0][1]
    assert redrive(store, LetterFilter(rule="ta_volume"), EVERY).ready == 1
    assert reopen(store, [1, 3]) == [1]
    assert one(store, 1)[0].note is None
    assert redrive(store, LetterFilter(ids=(1,)), EVERY).ready == 1


def test_only_open_letters_are_closed(store: SilverStore) -> None:
    redrive(store, LetterFilter(ids=(1,)), EVERY)
    close(store, LetterFilter(ids=(2,)), NOTE, EVERY)
    closed, left = close(store, LetterFilter(ids=(1, 2, 3)), LetterNote("all of them", "minh"), EVERY)
    assert closed == 1
    assert [letter for letter, _ in left] == [2, 1]
    assert "lan closed it" in left[0][1]
    assert "redriven" in left[1][1]
    assert one(store, 2)[0].note == NOTE.text


def test_a_task_that_dies_again_has_a_letter_that_is_open(store: SilverStore, silver_url: str) -> None:
    close(store, LetterFilter(), NOTE, EVERY)
    ask(silver_url, "UPDATE task_q SET status = 'ready' WHERE id = (SELECT min(id) FROM task_q)")
    consume(store)
    assert [each.count for each in counts(store, LetterFilter())] == [1]


def test_a_letter_is_closed_or_redriven_never_both(silver_store: SilverStore, silver_url: str) -> None:
    put(silver_store, [bar("vnm", f"2024-01-{day:02}") for day in range(1, 29)])
    consume(silver_store)
    start, done = threading.Barrier(2), []

    def closing() -> None:
        with_note = open_store(silver_url)
        start.wait()
        done.append(close(with_note, LetterFilter(), NOTE, EVERY)[0])
        with_note.close()

    def redriving() -> None:
        again = open_store(silver_url)
        start.wait()
        done.append(redrive(again, LetterFilter(), EVERY).ready)
        again.close()

    both = [threading.Thread(target=work) for work in (closing, redriving)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(done) == [0, 28]
    marks = "SELECT (SELECT count(*) FROM silver_closed) + (SELECT count(*) FROM silver_redrive)"
    assert ask(silver_url, marks) == [(28,)]


@pytest.mark.parametrize(
    ("text", "by"), [("", "lan"), ("  ", "lan"), ("fine", ""), ("x" * 2_001, "lan"), ("\0", "lan")]
)
def test_a_note_says_something_and_names_a_person(text: str, by: str) -> None:
    with pytest.raises(CallerError, match="characters"):
        LetterNote(text, by)


def test_the_report_shows_the_notes(store: SilverStore) -> None:
    close(store, LetterFilter(rule="ta_volume"), NOTE, EVERY)
    told = document(assess(store, datetime.now(UTC), ReportSettings(days=5)))
    [closed] = told["closed_letters"]
    assert (closed["rule"], closed["note"], closed["by"], closed["count"], closed["letter"]) == (
        "ta_volume",
        NOTE.text,
        "lan",
        2,
        2,
    )


def test_a_worker_makes_the_tables_that_came_with_a_later_version(store: SilverStore, silver_url: str) -> None:
    store.close()
    ask(silver_url, "DROP TABLE silver_closed")
    older = open_store(silver_url)
    assert "tables of ours are missing" in examine(older, datetime.now(UTC), "^[A-Z]{3,7}$")[0].found
    consume(older)
    assert close(older, LetterFilter(), NOTE, EVERY) == (3, [])
    older.close()
