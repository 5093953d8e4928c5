"""Folding against a model: a row-by-row upsert as the specification and the decisions on it describe it, written
column by column and without knowledge of the folding."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from silver_records import UNHURRIED

from headrace_silver.records.folds import fold_articles, fold_bars
from headrace_silver.records.values import Article, Bar

Row = dict[str, Any]
BAR_OVERWRITES = ("open", "high", "low", "close", "volume", "vwap", "adj_close", "source", "content_hash")
ARTICLE_COALESCES = ("title", "text_normalized", "author", "hype_raw", "hype_crowd", "hype_elitist")
DAY = date(2026, 3, 2)
TIME = datetime(2026, 3, 2, tzinfo=UTC)


def least(stored: Any, new: Any) -> Any:
    known = [value for value in (stored, new) if value is not None]
    return min(known) if known else None


def upsert_bar(rows: dict[Any, Row], bar: Bar) -> None:
    new, key = asdict(bar), (bar.symbol, bar.trade_date)
    row = rows.get(key)
    if row is None:
        currency = "VND" if new["currency"] is None else new["currency"]
        multiplier = 1.0 if new["price_multiplier"] is None else new["price_multiplier"]
        rows[key] = {**new, "currency": currency, "price_multiplier": multiplier}
        return
    for column in BAR_OVERWRITES:
        row[column] = new[column]
    for column in ("currency", "price_multiplier"):
        if new[column] is not None:
            row[column] = new[column]
    row["first_seen_time"] = least(row["first_seen_time"], new["first_seen_time"])


def upsert_article(rows: dict[Any, Row], article: Article) -> None:
    new, key = asdict(article), article.url_canonical
    row = rows.get(key)
    if row is None:
        rows[key] = new
        return
    for column in ("publisher_time", "first_seen_time"):
        row[column] = least(row[column], new[column])
    for column in (*ARTICLE_COALESCES, "account_weights_applied"):
        if new[column] is not None:
            row[column] = new[column]
    for column in ("symbols", "topic_tags"):
        if new[column] is not None and len(new[column]) > 0:
            row[column] = new[column]
    said = [None if new["language"] == "unknown" else new["language"], row["language"], new["language"]]
    row["language"] = next((language for language in said if language is not None), None)
    row["content_hash"] = new["content_hash"]


times = st.integers(min_value=0, max_value=3).map(lambda days: TIME + timedelta(days=days))
prices = st.sampled_from([0.0, 1.5, 2.0])
maybe_prices = st.none() | prices
words = st.sampled_from(["", "a", "b"])
maybe_words = st.none() | words
lists = st.none() | st.lists(st.sampled_from(["FPT", "VNM"]), max_size=2)

bars = st.builds(
    Bar,
    symbol=st.sampled_from(["FPT", "VNM"]),
    trade_date=st.sampled_from([DAY, DAY + timedelta(days=1)]),
    open=prices,
    high=prices,
    low=prices,
    close=prices,
    volume=st.sampled_from([0, 1, 2]),
    vwap=maybe_prices,
    adj_close=maybe_prices,
    currency=st.sampled_from([None, "VND", "USD"]),
    price_multiplier=st.sampled_from([None, 1.0, 1000.0]),
    source=maybe_words,
    first_seen_time=times,
    content_hash=maybe_words,
)
articles = st.builds(
    Article,
    url_canonical=st.sampled_from(["https://a.vn/1", "https://a.vn/2"]),
    source_domain=st.sampled_from(["a.vn", "b.vn"]),
    publisher_time=times,
    first_seen_time=times,
    language=st.sampled_from([None, "vi", "en", "unknown"]),
    title=maybe_words,
    text_normalized=words,
    content_hash=words,
    symbols=lists,
    author=maybe_words,
    topic_tags=lists,
    hype_raw=maybe_prices,
    hype_crowd=maybe_prices,
    hype_elitist=maybe_prices,
    account_weights_applied=st.sampled_from([None, True, False]),
)
# A row that somebody else wrote may hold what we never write.
foreign_bar = st.fixed_dictionaries({"first_seen_time": st.none() | times, "currency": st.sampled_from(["EUR", "VND"])})
foreign_article = st.fixed_dictionaries(
    {"language": st.sampled_from([None, "fr", "vi", "unknown"]), "title": maybe_words}
)


def stored(records: list[Any], changes: Row, upsert: Any) -> dict[Any, Row]:
    rows: dict[Any, Row] = {}
    for record in records:
        upsert(rows, record)
    return {key: {**row, **changes} for key, row in rows.items()}


def plain_bar(**fields: Any) -> Bar:
    known = {"open": 1.0, "high": 1.0, "low": 1.0, "close": 1.0, "volume": 1, "first_seen_time": TIME}
    rest = dict.fromkeys(("vwap", "adj_close", "currency", "price_multiplier", "source", "content_hash"))
    return Bar(**{"symbol": "FPT", "trade_date": DAY, **known, **rest, **fields})


def plain_article(**fields: Any) -> Article:
    known = {"source_domain": "a.vn", "publisher_time": TIME, "first_seen_time": TIME, "text_normalized": "t"}
    rest = dict.fromkeys(name for name in Article.__slots__ if name not in known)
    return Article(**{**rest, **known, "url_canonical": "https://a.vn/1", "content_hash": "h", **fields})


@UNHURRIED
@given(st.lists(bars, max_size=6), st.lists(bars, max_size=2), foreign_bar)
@example([plain_bar(currency="USD"), plain_bar()], [], {})
@example([plain_bar(), plain_bar()], [plain_bar(currency="USD", price_multiplier=1000.0)], {})
@example([plain_bar(vwap=1.0), plain_bar()], [plain_bar()], {"first_seen_time": None})
def test_folded_bars_end_as_if_applied_one_by_one(new: list[Bar], before: list[Bar], changes: Row) -> None:
    one_by_one, at_once = stored(before, changes, upsert_bar), stored(before, changes, upsert_bar)
    for bar in new:
        upsert_bar(one_by_one, bar)
    for _, bar in fold_bars(enumerate(new)):
        upsert_bar(at_once, bar)
    assert at_once == one_by_one


@UNHURRIED
@given(st.lists(articles, max_size=6), st.lists(articles, max_size=2), foreign_article)
@example([plain_article(symbols=[]), plain_article()], [], {})
@example([plain_article(), plain_article(symbols=[])], [], {})
@example([plain_article(language="unknown"), plain_article()], [plain_article()], {"language": "fr"})
@example([plain_article(), plain_article(language="unknown")], [], {})
@example([plain_article(), plain_article(source_domain="b.vn")], [], {})
@example([plain_article(title="x"), plain_article(title="")], [], {})
@example([plain_article(account_weights_applied=True), plain_article(account_weights_applied=False)], [], {})
def test_folded_articles_end_as_if_applied_one_by_one(new: list[Article], before: list[Article], changes: Row) -> None:
    one_by_one, at_once = stored(before, changes, upsert_article), stored(before, changes, upsert_article)
    for article in new:
        upsert_article(one_by_one, article)
    for _, article in fold_articles(enumerate(new)):
        upsert_article(at_once, article)
    assert at_once == one_by_one


@UNHURRIED
@given(st.lists(bars, max_size=8), st.lists(articles, max_size=8))
def test_every_task_stands_behind_exactly_one_record(some_bars: list[Bar], some_articles: list[Article]) -> None:
    for folded, given_keys in (
        (
            [(ids, (bar.symbol, bar.trade_date)) for ids, bar in fold_bars(enumerate(some_bars))],
            [(bar.symbol, bar.trade_date) for bar in some_bars],
        ),
        (
            [(ids, article.url_canonical) for ids, article in fold_articles(enumerate(some_articles))],
            [article.url_canonical for article in some_articles],
        ),
    ):
        assert sorted(task for ids, _ in folded for task in ids) == list(range(len(given_keys)))
        assert [key for _, key in folded] == list(dict.fromkeys(given_keys))
        for ids, key in folded:
            assert list(ids) == [task for task, other in enumerate(given_keys) if other == key]


def test_a_record_that_is_alone_is_passed_on_as_it_is() -> None:
    bar, article = plain_bar(), plain_article()
    [(ids, folded)] = fold_bars([(7, bar)])
    assert (ids, folded) == ((7,), bar)
    assert folded is bar
    [(ids, same)] = fold_articles([(8, article)])
    assert (ids, same) == ((8,), article)


def test_folding_leaves_the_records_as_they_were() -> None:
    # If the folded record breaks in the database, the tasks behind it are taken one by one.
    first, second = plain_bar(currency="USD", vwap=1.0), plain_bar(volume=2)
    fold_bars([(1, first), (2, second)])
    assert (first, second) == (plain_bar(currency="USD", vwap=1.0), plain_bar(volume=2))
