"""What the rules of bars and articles share: ids, order, symbols, the pattern that may be set, and messages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from silver_records import ARTICLE, BAR, UNHURRIED, article, bar, changed, judged, rule_of

from headrace.errors import CallerError
from headrace_silver.records.rules import ARTICLE_RULES, BAR_RULES, RULES, RuleSettings
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Article, Bar, Reject


def test_the_ids_are_the_specification_s_in_its_order() -> None:
    bars = "ta_symbol ta_trade_date ta_price ta_price_relation ta_volume ta_zero_volume ta_currency"
    articles = "sa_url sa_publisher_time sa_first_seen sa_language sa_text sa_content_hash sa_symbols sa_source_domain"
    assert [rule.id for rule in BAR_RULES] == bars.split()
    assert [rule.id for rule in ARTICLE_RULES] == articles.split()
    assert {rule.id for rule in RULES} == {*bars.split(), *articles.split(), "ta_payload", "sa_payload"}
    assert all(rule.kind == (TA_BAR if rule.id.startswith("ta_") else SA_ARTICLE) for rule in RULES)
    assert all(rule.sentence.endswith(".") for rule in RULES)


@pytest.mark.parametrize("symbol", ["FPT", "ABCDEFG"])
def test_three_to_seven_capitals_are_a_symbol(symbol: str) -> None:
    assert isinstance(bar(symbol=symbol), Bar)
    assert isinstance(article(symbols=[symbol]), Article)


@pytest.mark.parametrize("symbol", ["", "FP", "ABCDEFGH", "fpt", "FPT\n", " FPT", "FP T", "ĐPT", "FPT\0", "CVNM2401"])
def test_anything_else_is_no_symbol(symbol: str) -> None:
    assert rule_of(bar(symbol=symbol)) == "ta_symbol"
    assert rule_of(article(symbols=["FPT", symbol])) == "sa_symbols"


@UNHURRIED
@given(st.text(alphabet="AZaz0Đ\n", max_size=9))
def test_a_symbol_is_judged_from_end_to_end(symbol: str) -> None:
    good = re.fullmatch("[A-Z]{3,7}", symbol) is not None
    assert rule_of(bar(symbol=symbol)) == (None if good else "ta_symbol")
    assert rule_of(article(symbols=[symbol])) == (None if good else "sa_symbols")


def test_another_pattern_may_be_set_and_still_matches_from_end_to_end() -> None:
    settings = RuleSettings.read({"SILVER_SYMBOL_PATTERN": "[A-Z0-9]{3,8}"})
    for symbol, rule in (("CVNM2401", None), ("E1VFVN30", None), ("CVNM24011", "ta_symbol"), ("FPT\n", "ta_symbol")):
        assert rule_of(judged(TA_BAR, changed(BAR, symbol=symbol), settings)) == rule
    anything = RuleSettings("(?s).*")
    assert rule_of(judged(TA_BAR, changed(BAR, symbol=""), anything)) == "ta_symbol"
    for symbols in ([""], [None], [5], "FPT", {}, 5, [["FPT"]]):
        assert rule_of(judged(SA_ARTICLE, changed(ARTICLE, symbols=symbols), anything)) == "sa_symbols"


def test_an_empty_variable_sets_no_pattern() -> None:
    assert RuleSettings.read({"SILVER_SYMBOL_PATTERN": ""}) == RuleSettings.read({}) == RuleSettings("^[A-Z]{3,7}$")


@pytest.mark.parametrize("pattern", ["[A-Z", "(", "*", "a{99999999999}"])
def test_a_broken_pattern_is_refused_by_the_name_of_its_variable(pattern: str) -> None:
    with pytest.raises(CallerError, match="SILVER_SYMBOL_PATTERN"):
        RuleSettings.read({"SILVER_SYMBOL_PATTERN": pattern})


BREAKS: list[tuple[str, dict[str, Any]]] = [
    ("ta_symbol", {"symbol": "x"}),
    ("ta_trade_date", {"trade_date": None}),
    ("ta_price", {"open": -1}),
    ("ta_price_relation", {"high": 9.5}),
    ("ta_volume", {"volume": -1}),
    ("ta_currency", {"currency": 5}),
    ("exception", {"vwap": "x"}),
    ("sa_url", {"url_canonical": "x"}),
    ("sa_publisher_time", {"publisher_time": "9000-01-01"}),
    ("sa_first_seen", {"first_seen_time": "x"}),
    ("sa_text", {"text_normalized": "x"}),
    ("sa_content_hash", {"content_hash": ""}),
    ("sa_symbols", {"symbols": [5]}),
    ("sa_source_domain", {"source_domain": None}),
    ("exception", {"title": 5}),
]


@UNHURRIED
@given(st.sets(st.sampled_from(range(7)), min_size=1), st.sampled_from([0, 7]))
def test_the_first_failing_rule_names_the_letter(chosen: set[int], kind: int) -> None:
    broken = [BREAKS[kind + place] for place in sorted(chosen)]
    fields = {name: value for _, change in broken for name, value in change.items()}
    assert rule_of(article(**fields) if kind else bar(**fields)) == broken[0][0]


def test_the_rules_after_the_seventh_article_rule_wait_their_turn() -> None:
    assert rule_of(article(source_domain="", title=5)) == "sa_source_domain"
    assert rule_of(article(source_domain="", symbols=[5])) == "sa_symbols"


@pytest.mark.parametrize(("rule", "fields"), BREAKS)
def test_a_message_tells_the_rule_and_shows_what_was_wrong(rule: str, fields: dict[str, Any]) -> None:
    article_fields = any(name in ARTICLE or name in ("title", "symbols", "first_seen_time") for name in fields)
    outcome = article(**fields) if article_fields else bar(**fields)
    assert isinstance(outcome, Reject)
    [field] = fields
    assert field in outcome.error_msg
    sentences = {rule.id: rule.sentence for rule in RULES}
    assert outcome.error_msg.startswith(sentences.get(rule, "Not fit"))
