"""Progress as the specification answers it, without its corners."""

from __future__ import annotations

import pytest

from headrace_smap.values import CRAWLING, DONE, INITIALIZING, PROCESSING, PROCESSING_WAIT, Standing


@pytest.mark.parametrize(
    ("standing", "percent"),
    [
        (Standing(INITIALIZING), 0.0),
        (Standing(DONE), 100.0),
        (Standing(PROCESSING_WAIT), 0.0),
        (Standing(PROCESSING, 3, 1), 33.33),
        (Standing(PROCESSING, 100_000, 99_999), 99.99),
        (Standing(DONE, 7, 7, 7), 100.0),
        (Standing(PROCESSING, 7, 9), 100.0),
        (Standing(CRAWLING, 11, 10), 90.91),
    ],
)
def test_the_percentage_is_exact_and_never_above_a_hundred(standing: Standing, percent: float) -> None:
    assert standing.progress()["percent"] == percent


def test_the_answer_has_the_fields_of_the_specification() -> None:
    assert Standing(PROCESSING, 1000, 251, 3).progress() == {
        "status": "PROCESSING",
        "total": 1000,
        "processed": 251,
        "errors": 3,
        "percent": 25.1,
    }


def test_foreign_increments_are_capped_when_shown() -> None:
    assert Standing(DONE, 5, 8).progress()["processed"] == 5


@pytest.mark.parametrize(
    ("standing", "reached"),
    [
        (Standing(CRAWLING, 5, 5), False),
        (Standing(INITIALIZING, 0, 0), False),
        (Standing(PROCESSING_WAIT, 0, 0), True),
        (Standing(PROCESSING, 5, 4), False),
        (Standing(PROCESSING, 5, 6), True),
    ],
)
def test_the_line_is_reached_only_behind_the_seal(standing: Standing, reached: bool) -> None:
    assert standing.reached is reached
