"""A small market with known holes, late symbols, revisions, odd prices, rejects and articles, and a recount of it.

The recount knows nothing of the code under test: it walks over lists, and its closed days are written down here.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from silver_desk import article, ask, bar, consume, put

from headrace_silver.records.values import SA_ARTICLE
from headrace_silver.stores.silver_store import SilverStore

NOW = datetime(2025, 3, 14, 1, 0, tzinfo=UTC)
LAST = date(2025, 3, 13)
LENGTH = 60
STOPPED_AFTER = 20
CLOSED = {date(2025, 1, 1), *(date(2025, 1, 27) + timedelta(days=number) for number in range(5))}
EXCHANGES = {"SHS": "HNX", "BSR": "UPCOM"}


def weekdays_back(count: int) -> list[date]:
    days: list[date] = []
    day = LAST
    while len(days) < count:
        if day.weekday() < 5 and day not in CLOSED:
            days.insert(0, day)
        day -= timedelta(days=1)
    return days


EARLIER = weekdays_back(LENGTH + 45)
DAYS = EARLIER[-LENGTH:]


@dataclass
class Sample:
    """`bars` by symbol and day as they stand in the end; `revised` counts how often a bar was overwritten."""

    bars: dict[tuple[str, date], dict[str, Any]] = field(default_factory=dict)
    revised: dict[tuple[str, date], int] = field(default_factory=dict)
    rejects: list[tuple[date, str, str, int]] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    articles: list[dict[str, Any]] = field(default_factory=list)

    def add(self, symbol: str, day: date, price: float, **changes: Any) -> None:
        prices = {"open": price, "high": price, "low": price, "close": price}
        self.bars[symbol, day] = bar(symbol, day.isoformat(), **{**prices, **changes})


def make() -> Sample:
    chance, sample = random.Random(5), Sample()
    for symbol, first, end in (
        ("AAA", 0, 0),
        ("HOL", 0, 0),
        ("NEW", 80, 0),
        ("LAT", 0, 2),
        ("LTE", 0, 1),
        ("GON", 0, 25),
        ("EDG", 0, 20),
    ):
        for day in EARLIER[first : len(EARLIER) - end]:
            if symbol != "HOL" or chance.random() > 0.2 or day == LAST:
                sample.add(symbol, day, 20_000)
    for day in EARLIER[:10]:
        sample.add("OLD", day, 20_000)
    for day in EARLIER:
        sample.add("THO", day, 20.05, price_multiplier=1000)
        sample.add("USD", day, 1_234.5, currency="USD")
        sample.add("ADJ", day, 20_003.7)
        sample.add("SHS", day, 9_100)
        sample.add("BSR", day, 20_000, vwap=18_000)
    _odd_days(sample)
    for number, day in enumerate(DAYS[::7]):
        sample.revised["AAA", day] = 1 + number % 2
    sample.revised["AAA", EARLIER[0]] = 1
    sample.rejects = [
        (DAYS[0] - timedelta(days=1), "sanity_fail", "ta_symbol", 90),
        (DAYS[0], "sanity_fail", "ta_symbol", 4),
        (DAYS[9], "sanity_fail", "ta_symbol", 5),
        (DAYS[9], "sanity_fail", "sa_text", 7),
        (date(2025, 3, 14), "exception", "", 2),
    ]
    sample.letters = [
        {"rule": "ta_price", "payload": {"symbol": "AAA"}},
        {"rule": "ta_price", "payload": {"symbol": "AAA"}},
        {"rule": "ta_volume", "payload": {"symbol": "AAA"}},
        {"rule": "ta_payload", "payload": "no object"},
        {"rule": "ta_symbol", "payload": {"symbol": 5}},
        {"rule": "sa_text", "payload": {"symbol": "AAA"}},
        {"rule": None, "payload": {"symbol": "HOL"}},
        {"rule": "ta_price", "payload": {"symbol": "AAA"}, "at": "2024-01-01T00:00:00.000000+00:00"},
    ]
    sample.articles = _articles(chance)
    return sample


def _odd_days(sample: Sample) -> None:
    """Prices outside the band or between the steps, a bar on a Sunday, a day that all of them lack."""
    sample.add("AAA", DAYS[20], 20_000, high=21_400)
    sample.add("AAA", DAYS[21], 20_000, high=21_450)
    sample.add("AAA", DAYS[30], 20_000, low=18_550)
    sample.add("AAA", DAYS[40], 20_000, high=20_003)
    sample.add("THO", DAYS[20], 20.05, high=21.5, price_multiplier=1000)
    sample.add("USD", DAYS[20], 1_234.5, high=2_000, currency="USD")
    sample.add("SHS", DAYS[20], 9_100, high=10_000)
    sample.add("SHS", DAYS[21], 9_100, high=10_100)
    sample.add("SHS", DAYS[22], 9_150)
    sample.add("BSR", DAYS[20], 20_000, high=20_700, vwap=18_000)
    sample.add("BSR", DAYS[21], 20_000, high=20_800, vwap=18_000)
    sample.add("AAA", date(2025, 3, 9), 20_000)
    for symbol in {symbol for symbol, _ in sample.bars}:
        sample.bars.pop((symbol, DAYS[50]), None)


def _articles(chance: random.Random) -> list[dict[str, Any]]:
    published = datetime(2025, 3, 10, 2, 0, tzinfo=UTC)
    found = []
    for number in range(60):
        lag = timedelta(seconds=chance.randrange(-300, 9_000), microseconds=chance.randrange(10**6))
        found.append(
            article(
                number,
                source_domain=chance.choice(["tin.example", "báo.example"]),
                publisher_time=published.isoformat(),
                first_seen_time=(published + lag).isoformat(),
                language=chance.choice(["vi", "en", "fr", None]),
                content_hash=f"hash {number % 50}",
                symbols=chance.choice([None, [], ["AAA"], ["AAA", "HOL"]]),
                title=f"Tin số {number}",
            )
        )
    old = {"publisher_time": "2024-01-02T08:00:00Z", "first_seen_time": "2024-01-02T08:00:00Z", "content_hash": "old"}
    return [*found, article(900, **old), article(901, **old)]


def fill(store: SilverStore, url: str, sample: Sample) -> None:
    """Through the consumer, as far as that can write into the past."""
    for round_number in range(3):
        payloads = []
        for key, payload in sample.bars.items():
            before = sample.revised.get(key, 0) - round_number
            if before > 0:
                payloads.append({**payload, "volume": 7_000 + before})
            elif before == 0 or round_number == 0:
                payloads.append(payload)
        put(store, payloads)
        consume(store)
    put(store, sample.articles, SA_ARTICLE)
    assert consume(store).rejects == 0
    for symbol, exchange in EXCHANGES.items():
        ask(url, f"INSERT INTO silver_exchange VALUES ('{symbol}', '2020-01-01', '{exchange}')")
    for day, reason, rule, count in sample.rejects:
        ask(url, f"INSERT INTO silver_reject_day VALUES ('{day}', '{reason}', '{rule}', {count})")
    for number, letter in enumerate(sample.letters):
        reason, rule = ("sanity_fail", f"'{letter['rule']}'") if letter["rule"] else ("exception", "NULL")
        values = f"{number}, '{reason}', {rule}, '{json.dumps(letter['payload'])}', 'why'"
        at = letter.get("at", "2025-03-03T04:00:00.000000+00:00")
        ask(
            url,
            "INSERT INTO task_q_dlq (task_id, reason, rule_id, payload, error_msg, created_at)"
            f" VALUES ({values}, '{at}')",
        )


def recount(sample: Sample, symbol: str) -> dict[str, Any]:
    """What the report should say of a symbol, counted day by day."""
    have = {day for name, day in sample.bars if name == symbol}
    first, last = min(have), max(have)
    behind = sum(last < day <= LAST for day in EARLIER)
    stopped = behind > STOPPED_AFTER
    expected = [day for day in DAYS if first <= day <= (last if stopped else LAST)]
    return {
        "first_day": first,
        "last_day": last,
        "behind": behind,
        "stopped": stopped,
        "expected": len(expected),
        "present": sum(day in have for day in expected),
        "missing": [day for day in expected if day not in have],
        "revisions": sum(n for (name, day), n in sample.revised.items() if name == symbol and DAYS[0] <= day <= LAST),
        "closed_days": sum(DAYS[0] <= day <= LAST and day not in DAYS for day in have),
    }
