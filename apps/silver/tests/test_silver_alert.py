"""Who is late, before the market opens."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from silver_desk import bar, consume, put

from headrace_silver.market import calendar
from headrace_silver.quality import late_symbols
from headrace_silver.stores.silver_store import SilverStore

MORNING = datetime(2025, 3, 14, 1, 0, tzinfo=UTC)
LAST_BARS = {
    "AAA": "2025-03-13",
    "BBB": "2025-03-12",
    "CCC": "2025-03-07",
    "DDD": "2025-02-13",
    "EEE": "2025-02-12",
    "FFF": "2025-03-14",
}


@pytest.fixture
def store(silver_store: SilverStore) -> SilverStore:
    put(silver_store, [bar(symbol, day) for symbol, day in LAST_BARS.items()])
    put(silver_store, [bar(symbol, "2024-01-02") for symbol in LAST_BARS])
    consume(silver_store)
    return silver_store


def behind(found: late_symbols.Late) -> dict[str, int]:
    return {entry.symbol: entry.behind for entry in found.late}


def test_the_latest_come_first_and_those_that_stopped_stand_apart(store: SilverStore) -> None:
    found = late_symbols.late(store, MORNING)
    assert found.day == date(2025, 3, 13)
    assert list(behind(found).items()) == [("DDD", 20), ("CCC", 4), ("BBB", 1)]
    assert [(entry.symbol, entry.behind) for entry in found.stopped] == [("EEE", 21)]
    assert found.known == 5
    assert not found.ok


def test_a_day_is_due_only_when_its_session_is_over(store: SilverStore) -> None:
    noon = late_symbols.late(store, datetime(2025, 3, 14, 5, 0, tzinfo=UTC))
    evening = late_symbols.late(store, datetime(2025, 3, 14, 8, 0, tzinfo=UTC))
    assert "AAA" not in behind(noon)
    assert behind(evening)["AAA"] == 1
    assert "FFF" not in behind(evening)


def test_a_few_days_of_grace_can_be_given(store: SilverStore) -> None:
    assert behind(late_symbols.late(store, MORNING, days=2)) == {"DDD": 20, "CCC": 4}
    assert behind(late_symbols.late(store, MORNING, days=5, stopped_after=10)) == {}
    assert late_symbols.late(store, MORNING, days=5, stopped_after=10).ok


def test_no_bar_at_all_is_not_in_order(silver_store: SilverStore) -> None:
    found = late_symbols.late(silver_store, MORNING)
    assert (found.known, found.late, found.ok) == (0, [], False)


def test_nobody_is_late_on_the_morning_after_the_holidays(silver_store: SilverStore) -> None:
    put(silver_store, [bar("AAA", "2025-01-24")])
    consume(silver_store)
    assert late_symbols.late(silver_store, datetime(2025, 2, 3, 1, 0, tzinfo=UTC)).ok
    assert not late_symbols.late(silver_store, datetime(2025, 2, 4, 1, 0, tzinfo=UTC)).ok


def test_beyond_the_holiday_table_that_is_said(silver_store: SilverStore) -> None:
    found = late_symbols.late(silver_store, datetime(2031, 2, 4, 1, 0, tzinfo=UTC))
    [note] = late_symbols.document(found)["notes"]
    assert "does not reach 2031" in note


def test_the_document_has_stable_keys(store: SilverStore) -> None:
    told = json.loads(json.dumps(late_symbols.document(late_symbols.late(store, MORNING))))
    assert told == {
        "ok": False,
        "day": "2025-03-13",
        "symbols": 5,
        "late": [
            {"symbol": "DDD", "last_day": "2025-02-13", "days_behind": 20},
            {"symbol": "CCC", "last_day": "2025-03-07", "days_behind": 4},
            {"symbol": "BBB", "last_day": "2025-03-12", "days_behind": 1},
        ],
        "stopped": [{"symbol": "EEE", "last_day": "2025-02-12", "days_behind": 21}],
        "notes": [],
    }


def test_days_behind_are_trading_days(store: SilverStore) -> None:
    for entry in late_symbols.late(store, MORNING).late:
        days = calendar.trading_days(entry.last_day + timedelta(days=1), date(2025, 3, 13))
        assert entry.behind == len(days)
