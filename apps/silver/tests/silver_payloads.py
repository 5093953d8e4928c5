"""Hypothesis strategies for tasks that the rules let through, that they do not, and that are strange in other ways."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import count, product
from typing import Any

from hypothesis import strategies as st
from silver_pair import Sent
from silver_records import ABSENT, ARTICLE, changed

from headrace_silver.records.values import SA_ARTICLE, TA_BAR

# Stands for a number that json.dumps would not write like this.
RAW = "\N{SECTION SIGN}"
LONG = "".join(random.Random(5).choices(string.ascii_letters + string.digits, k=3_000))
MOMENT = datetime(2024, 3, 1, 12, tzinfo=UTC)
TIMES = [
    "2024-02-28T08:00:00+07:00",
    "2024-02-28 01:00",
    "2024-02-27T23:59:59.999999999Z",
    "2024-02-28",
    "1899-12-31T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999Z",
    "2024-02-30T00:00:00Z",
    1709110800,
]
NUMBERS = [1.5, "2.5", 0, -7, "1e-400", 5e-324, 1.7976931348623157e308, "-0", f"{RAW}-0.0{RAW}", f"{RAW}1e-400{RAW}"]
NO_NUMBERS = ["x", "NaN", True, [], f"{RAW}1e400{RAW}", "1e400", "1_000", "٣"]
TEXTS = ["", "hose", "Chứng khoán tăng", "e\u0301\u0323", "😀 \\ \" ' {} NULL", "\u2028", "NULL"]
PRICES = [
    (10, 12, 9, 11),
    (10, 12, 9, 11.5),
    ("10.0", "1.2e1", " 9 ", ".11e2"),
    (0.1, 0.30000000000000004, 0.1, 0.3),
    (5e-324, 1.7976931348623157e308, 0, 1),
    (0, "-0", f"{RAW}-0.0{RAW}", 0.0),
    (10, 10, 10, 10),
    (10, 9, 9, 10),
    (-1, 1, -1, 1),
    (None, 1, 1, 1),
    (1, f"{RAW}1e400{RAW}", 1, 1),
    (f"{RAW}{10**400}{RAW}", 1, 1, 1),
]
VOLUMES = [
    *[0, 100, 100.0, "1e3", f"{RAW}1e3{RAW}", "100", 2**53 + 1, 2**63 - 1, str(2**63 - 1)],
    *[2**63, str(2**63), 2**70, 1e19, f"{RAW}1e400{RAW}", 100.5, -1, True, None, ABSENT],
]


# For each field what the rules let through, and what else may come.
Pool = tuple[list[Any], list[Any]]
NUMBER: Pool = ([ABSENT, None, *NUMBERS], NO_NUMBERS)
TEXT: Pool = ([ABSENT, None, *TEXTS], [5, ["hose"], {"a": 1}])
BAR_POOLS: dict[str, Pool] = {
    "symbol": (["VNM", "VNM", "FPT"], ["xx", "VNM\n", "E1VFVN30", 5, None, ABSENT]),
    "trade_date": (
        ["2024-02-29", "2024-02-29", "1899-12-31", "0001-01-01", "2024-02-29T00:00:00+07:00"],
        ["2023-02-29", "9999-12-31", "2024-02-29T07:00:00", 20240229, None, ABSENT],
    ),
    "prices": (PRICES[:7], PRICES[7:]),
    "volume": (VOLUMES[:9], VOLUMES[9:]),
    "vwap": NUMBER,
    "adj_close": NUMBER,
    "currency": ([ABSENT, None, "", "VND", "USD"], [5, " "]),
    "price_multiplier": ([ABSENT, None, 1, 1000, "0.001"], NO_NUMBERS),
    "source": TEXT,
    "first_seen_time": ([ABSENT, None, *TIMES[:6]], TIMES[6:]),
    "content_hash": TEXT,
}
ARTICLE_POOLS: dict[str, Pool] = {
    "url_canonical": (
        ["https://tin.vn/1", "https://tin.vn/1", "http://báo.vn/2?q=😀"],
        ["ftp://tin.vn", "", None, ABSENT, f"https://tin.vn/{LONG}", f"https://tin.vn/{LONG[:2_677]}"],
    ),
    "source_domain": (["tin.vn", "báo.vn"], ["", " ", None, ABSENT, 5, LONG]),
    "publisher_time": (TIMES[:6], [*TIMES[6:], None, ABSENT]),
    "first_seen_time": ([ABSENT, None, "2024-03-01T00:00:00Z", "2024-03-01T06:59:59+07:00"], TIMES),
    "language": ([ABSENT, None, "", "vi", "en", "fr", "VI"], [5, ["vi"]]),
    "title": TEXT,
    "text_normalized": (["thị trường " * 20, "😀" * 120], ["ngắn", None, ABSENT, 5]),
    "content_hash": (["a1", "b2", "ế" * 64], ["", None, ABSENT, LONG]),
    "symbols": ([ABSENT, None, [], ["VNM"], ["FPT", "VNM"]], [["xx"], "VNM", [None], {}]),
    "author": TEXT,
    "topic_tags": (
        [ABSENT, None, [], ["thị trường"], ["a,b", '"\\', "NULL", ""], ["😀"] * 3],
        [[1], "vĩ mô", [None]],
    ),
    "hype_raw": NUMBER,
    "hype_crowd": NUMBER,
    "hype_elitist": NUMBER,
    "account_weights_applied": ([ABSENT, None, True, False], [1, "true"]),
}
PLAIN_BAR: dict[str, Any] = {"symbol": "VNM", "trade_date": "2024-02-29", "prices": PRICES[0], "volume": 100}
PLAIN_ARTICLE: dict[str, Any] = {**ARTICLE, "publisher_time": "2024-02-28T08:00:00+07:00"}


def mostly(pool: Pool) -> st.SearchStrategy[Any]:
    """From the good ones, and one time in ten from the others."""
    return st.integers(0, 9).flatmap(lambda roll: st.sampled_from(pool[0] if roll else pool[1]))


def drawn_from(pools: Mapping[str, Pool]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: mostly(pool) for name, pool in pools.items()})


def every_pair() -> Iterator[tuple[Sent, Sent]]:
    """For each field each value after each other one, every two tasks with a key of their own."""
    number = count()
    for field, pool in BAR_POOLS.items():
        for values in product(pool[0] + pool[1], repeat=2) if field not in ("symbol", "trade_date") else ():
            day = (date(1900, 1, 1) + timedelta(days=next(number))).isoformat()
            old, new = (bar_payload({**PLAIN_BAR, "trade_date": day, field: value}) for value in values)
            yield _sent(TA_BAR, old, 1), _sent(TA_BAR, new, 2)
    for field, pool in ARTICLE_POOLS.items():
        for values in product(pool[0] + pool[1], repeat=2) if field != "url_canonical" else ():
            url = f"https://tin.vn/{next(number)}"
            old, new = (changed(PLAIN_ARTICLE, url_canonical=url, **{field: value}) for value in values)
            yield _sent(SA_ARTICLE, old, 1), _sent(SA_ARTICLE, new, 2)


def _sent(kind: str, payload: Any, priority: int) -> Sent:
    return Sent(kind, json_text(payload), priority, MOMENT)


def mostly_plain(drawn: st.SearchStrategy[dict[str, Any]], plain: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """As drawn in a few fields and plain in all others: tasks that differ little meet in one row most often."""

    def some_of(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        names = st.lists(st.sampled_from(sorted(whole)), max_size=4)
        return names.map(lambda chosen: {**plain, **{name: whole[name] for name in chosen}})

    few = drawn.flatmap(some_of)
    return st.one_of(few, few, few, drawn)


def bar_payload(drawn: Mapping[str, Any]) -> dict[str, Any]:
    prices = dict(zip(("open", "high", "low", "close"), drawn["prices"], strict=True))
    return changed({name: value for name, value in drawn.items() if name != "prices"}, **prices)


def json_text(payload: Any) -> str:
    """JSON with the raw numbers in their places."""
    return json.dumps(payload, ensure_ascii=False).replace(f'"{RAW}', "").replace(f'{RAW}"', "")


# What JSON in a JSON string can hide from the database that stores it.
HIDDEN = [r'{"source": "a\u0000b"}', r'{"title": "\ud800"}', "{", "[]", '"{}"', "5", ""]
records = st.one_of(
    st.tuples(st.just(TA_BAR), mostly_plain(drawn_from(BAR_POOLS), PLAIN_BAR).map(bar_payload)),
    st.tuples(st.just(SA_ARTICLE), mostly_plain(drawn_from(ARTICLE_POOLS), PLAIN_ARTICLE).map(changed)),
)
good_or_wrapped = st.tuples(records, st.integers(0, 9)).map(
    lambda drawn: (drawn[0][0], json_text(drawn[0][1]) if drawn[1] else json.dumps(json_text(drawn[0][1])))
)
strange = st.tuples(
    st.sampled_from([TA_BAR, SA_ARTICLE, "sa.video", ""]),
    st.sampled_from(["{}", "[]", "null", "5", '{"a": 1, "a": 2}', *map(json.dumps, HIDDEN)]),
)
contents = st.integers(0, 9).flatmap(lambda roll: good_or_wrapped if roll else strange)
sent = st.builds(
    lambda content, priority, second: Sent(content[0], content[1], priority, MOMENT + timedelta(seconds=second)),
    contents,
    st.sampled_from([100, 100, 100, 1, -5]),
    st.integers(0, 3),
)
