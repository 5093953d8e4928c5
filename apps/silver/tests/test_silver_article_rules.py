"""The rules of articles, each on both sides of its boundary, by example and by chance."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from silver_records import ABSENT, ARTICLE, NOT_TEXT, NOW, SEEN, UNHURRIED, article, bar, changed, judged, rule_of

from headrace_silver.records.values import SA_ARTICLE, Article, Bar, Reject


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "https://a.vn",
        "HTTPS://A.VN/x",
        "https://a.vn:8080/x?y=z#w",
        "https://a.vn?x",
        "https://a.vn#x",
        "https://user:word@a.vn/",
        "http://[::1]:80/x",
        "https://báo.vn/cổ-phiếu-👍",
        "https://a.vn/" + "x" * 5000,
    ],
)
def test_a_web_address_with_a_host_is_a_url(url: str) -> None:
    assert isinstance(article(url_canonical=url), Article)


@pytest.mark.parametrize(
    "url",
    [
        *NOT_TEXT,
        "",
        "a.vn",
        "//a.vn",
        "ftp://a.vn",
        "javascript:alert(1)",
        "http:a.vn",
        "http:/a.vn",
        "http://",
        "https:///x",
        "http://?x",
        "http://#x",
        "http://:80/",
        "http://user@/x",
        "http://a.vn:http/",
        " http://a.vn",
        "http://a.vn ",
        "http://a.vn\n",
        "http://a.vn/a b",
        "http://a b/",
        "http://a.vn/\0",
        "http://a.vn/\x7f",
        "http://a.vn/\u2003x",
    ],
)
def test_anything_else_is_no_url(url: Any) -> None:
    assert rule_of(article(url_canonical=url)) == "sa_url"


@UNHURRIED
@given(st.text(), st.sampled_from("\x00\x1f\t\n\r \x7f\x85\xa0\u2028\u3000"), st.text())
def test_no_blank_or_control_character_stands_in_a_url(before: str, blank: str, after: str) -> None:
    assert rule_of(article(url_canonical=f"https://a.vn/{before}{blank}{after}")) == "sa_url"


@UNHURRIED
@given(st.timedeltas(min_value=timedelta(days=-300_000), max_value=timedelta(days=300_000)))
def test_an_article_may_be_published_five_minutes_from_now(ahead: timedelta) -> None:
    outcome = article(publisher_time=(NOW + ahead).isoformat(), first_seen_time="9000-01-01")
    assert rule_of(outcome) == (None if ahead <= timedelta(minutes=5) else "sa_publisher_time")


def test_five_minutes_are_five_minutes() -> None:
    assert rule_of(article(publisher_time="2026-03-02T12:05:00Z")) is None
    assert rule_of(article(publisher_time="2026-03-02T12:05:00.000001Z")) == "sa_publisher_time"
    assert rule_of(article(publisher_time="2026-03-02T19:05:00+07:00")) is None
    assert rule_of(article(publisher_time="2026-03-02T19:05:00")) == "sa_publisher_time"


@pytest.mark.parametrize("moment", [*NOT_TEXT, "", "soon", 1772449200, "2026-02-30T00:00:00Z", "2026-03-02T11:59:60Z"])
def test_what_is_no_time_is_no_publisher_time(moment: Any) -> None:
    assert rule_of(article(publisher_time=moment)) == "sa_publisher_time"


@UNHURRIED
@given(st.timedeltas(min_value=timedelta(days=-300_000), max_value=timedelta(days=300_000)))
def test_an_article_is_seen_no_earlier_than_a_day_before_it_was_published(later: timedelta) -> None:
    outcome = article(publisher_time="2026-03-01T00:00:00Z", first_seen_time=(datetime(2026, 3, 1) + later).isoformat())
    assert rule_of(outcome) == (None if later >= timedelta(days=-1) else "sa_first_seen")


def test_a_day_is_a_day() -> None:
    published = "2026-03-02T10:00:00Z"
    assert rule_of(article(publisher_time=published, first_seen_time="2026-03-01T10:00:00Z")) is None
    late = article(publisher_time=published, first_seen_time="2026-03-01T09:59:59.999999Z")
    assert rule_of(late) == "sa_first_seen"


@pytest.mark.parametrize("published", ["0001-01-01", "0001-01-02T00:00:00Z", "2026-03-01T00:00:00Z"])
@pytest.mark.parametrize("moment", ["", "soon", 5, True, [], "0000-01-01", "10000-01-01", "0001-01-01T00:00:00+07:00"])
def test_a_first_sight_that_does_not_parse_fails_its_rule(moment: Any, published: str) -> None:
    assert rule_of(article(first_seen_time=moment, publisher_time=published)) == "sa_first_seen"


@pytest.mark.parametrize("missing", [ABSENT, None])
def test_a_missing_first_sight_is_the_task_s(missing: Any) -> None:
    for outcome in (article(first_seen_time=missing), bar(first_seen_time=missing)):
        assert isinstance(outcome, Article | Bar)
        assert outcome.first_seen_time == SEEN


def test_the_rule_judges_the_task_s_own_time_where_it_stands_in() -> None:
    payload = changed(ARTICLE, publisher_time=(SEEN + timedelta(days=1)).isoformat())
    assert rule_of(judged(SA_ARTICLE, payload, now=NOW + timedelta(days=9))) is None
    payload = changed(ARTICLE, publisher_time=(SEEN + timedelta(days=1, microseconds=1)).isoformat())
    outcome = judged(SA_ARTICLE, payload, now=NOW + timedelta(days=9))
    assert isinstance(outcome, Reject)
    assert outcome.rule_id == "sa_first_seen"
    assert SEEN.isoformat() in outcome.error_msg


@pytest.mark.parametrize(
    ("language", "read"),
    [(ABSENT, None), (None, None), ("", None), ("vi", "vi"), ("en", "en"), ("VI", "unknown"), ("fr", "unknown")]
    + [(value, "unknown") for value in (5, 0, False, [], {}, ["vi"], " ", "vi\0")],
)
def test_a_language_never_fails(language: Any, read: str | None) -> None:
    outcome = article(language=language)
    assert isinstance(outcome, Article)
    assert outcome.language == read


@UNHURRIED
@given(st.integers(min_value=100, max_value=140), st.sampled_from("aá👍\u0301 "))
def test_a_text_counts_characters(length: int, character: str) -> None:
    outcome = article(text_normalized=character * length)
    assert rule_of(outcome) == (None if length >= 120 else "sa_text")


@pytest.mark.parametrize("value", [*NOT_TEXT, "", "á" * 119])
def test_a_text_is_long_enough(value: Any) -> None:
    assert rule_of(article(text_normalized=value)) == "sa_text"


@pytest.mark.parametrize("value", [*NOT_TEXT, "", " ", "\n"])
@pytest.mark.parametrize("field", ["content_hash", "source_domain"])
def test_hash_and_domain_are_text_that_says_something(field: str, value: Any) -> None:
    assert rule_of(article(**{field: value})) == f"sa_{field}"


@pytest.mark.parametrize("symbols", [ABSENT, None, [], ["FPT"], ["FPT"] * 10_000])
def test_an_article_may_name_any_number_of_symbols(symbols: Any) -> None:
    outcome = article(symbols=symbols)
    assert isinstance(outcome, Article)
    assert outcome.symbols == (None if symbols is ABSENT else symbols)


def test_one_bad_symbol_of_many_is_found_and_named() -> None:
    outcome = article(symbols=["FPT"] * 9_999 + ["fpt"])
    assert isinstance(outcome, Reject)
    assert outcome.rule_id == "sa_symbols"
    assert "symbols[9999]='fpt'" in outcome.error_msg
