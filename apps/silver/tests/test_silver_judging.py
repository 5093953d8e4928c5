"""A whole batch: payloads of every shape, fields that no rule judges, and that no task is lost, doubled or able to
spoil the others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from silver_records import ABSENT, ARTICLE, BAR, NOW, SEEN, UNHURRIED, article, bar, changed, judged, rule_of

from headrace_silver.records.judgement import judge
from headrace_silver.records.rules import RULES, RuleSettings
from headrace_silver.records.shown_text import shown
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Article, Bar, Reject, Task

KINDS = {"ta_payload": (TA_BAR, BAR), "sa_payload": (SA_ARTICLE, ARTICLE)}
WHOLE_BAR = {
    **BAR,
    "vwap": "10.5",
    "adj_close": 11,
    "currency": "USD",
    "price_multiplier": 1000,
    "source": "hose",
    "first_seen_time": "2026-02-27T15:00:00+07:00",
    "content_hash": "abc",
}
WHOLE_ARTICLE = {
    **ARTICLE,
    "first_seen_time": "2026-03-02T11:30:00Z",
    "language": "vi",
    "title": "FPT báo lãi 👍",
    "symbols": ["FPT", "VNM"],
    "author": "Minh",
    "topic_tags": ["ngân hàng", "", "e\u0301"],
    "hype_raw": 0.5,
    "hype_crowd": "1e-1",
    "hype_elitist": -1,
    "account_weights_applied": False,
}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
odd_values = values | st.sampled_from(
    [
        "2026-02-27",
        "2026-02-27T00:00:00",
        "FPT",
        "NaN",
        "1e3",
        "https://a.vn/1",
        "vi",
        0,
        -1,
        1.5,
        10**30,
        "\0",
        "x" * 120,
    ]
)


def odd(payload: dict[str, Any]) -> st.SearchStrategy[str]:
    fields = st.dictionaries(st.sampled_from(sorted(payload)), odd_values, max_size=4)
    return fields.map(lambda some: json.dumps({**payload, **some}))


payloads = (
    values.map(json.dumps)
    | odd(WHOLE_BAR)
    | odd(WHOLE_ARTICLE)
    | odd(WHOLE_BAR).map(json.dumps)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)


def test_every_column_that_a_payload_names_is_read() -> None:
    seen = datetime(2026, 2, 27, 8, tzinfo=UTC)
    read = judged(TA_BAR, WHOLE_BAR)
    day = datetime(2026, 2, 27).date()
    assert read == Bar("FPT", day, 10.0, 12.0, 9.0, 11.0, 100, 10.5, 11.0, "USD", 1000.0, "hose", seen, "abc")
    read = judged(SA_ARTICLE, WHOLE_ARTICLE)
    assert isinstance(read, Article)
    assert (read.url_canonical, read.source_domain) == ("https://tin.vn/fpt-1.html", "tin.vn")
    assert (read.publisher_time, read.first_seen_time) == (SEEN, SEEN + timedelta(minutes=30))
    assert (read.language, read.title, read.text_normalized) == ("vi", "FPT báo lãi 👍", "á" * 120)
    assert (read.content_hash, read.symbols, read.author) == ("c0ffee", ["FPT", "VNM"], "Minh")
    assert read.topic_tags == ["ngân hàng", "", "e\u0301"]
    assert (read.hype_raw, read.hype_crowd, read.hype_elitist) == (0.5, 0.1, -1.0)
    assert read.account_weights_applied is False


@pytest.mark.parametrize("missing", [ABSENT, None])
def test_what_a_payload_does_not_state_is_none(missing: Any) -> None:
    read = judged(TA_BAR, changed(WHOLE_BAR, **dict.fromkeys(WHOLE_BAR.keys() - BAR.keys(), missing)))
    assert isinstance(read, Bar)
    assert (read.vwap, read.adj_close, read.currency, read.price_multiplier) == (None, None, None, None)
    assert (read.source, read.content_hash) == (None, None)
    read = judged(SA_ARTICLE, changed(WHOLE_ARTICLE, **dict.fromkeys(WHOLE_ARTICLE.keys() - ARTICLE.keys(), missing)))
    assert isinstance(read, Article)
    assert (read.language, read.title, read.symbols, read.author, read.topic_tags) == (None, None, None, None, None)
    assert (read.hype_raw, read.hype_crowd, read.hype_elitist, read.account_weights_applied) == (None,) * 4


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *[(name, ["x", "", "inf", True, [], {}, "1_0", "1e400"]) for name in ("vwap", "adj_close", "price_multiplier")],
        *[(name, [5, True, [], {}]) for name in ("source", "content_hash")],
        ("first_seen_time", ["", "soon", 5, True, [], "2026-02-30"]),
    ],
)
def test_a_bar_that_no_column_can_hold_is_an_exception(field: str, values: list[Any]) -> None:
    for value in values:
        outcome = bar(**{field: value})
        assert isinstance(outcome, Reject), value
        assert (outcome.reason, outcome.rule_id) == ("exception", None)
        assert outcome.error_msg == f"Not fit for its column: {field}={shown(value)}."


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *[(name, ["x", "", "NaN", True, [], {}]) for name in ("hype_raw", "hype_crowd", "hype_elitist")],
        *[(name, [5, True, [], {}]) for name in ("title", "author")],
        ("topic_tags", ["x", "", 5, True, {}, [5], ["a", None], [["a"]]]),
        ("account_weights_applied", ["true", 1, 0, "", [], {}]),
    ],
)
def test_an_article_that_no_column_can_hold_is_an_exception(field: str, values: list[Any]) -> None:
    for value in values:
        outcome = article(**{field: value})
        assert isinstance(outcome, Reject), value
        assert (outcome.reason, outcome.rule_id) == ("exception", None)
        assert outcome.error_msg == f"Not fit for its column: {field}={shown(value)}."


NUL_FIELDS = [(BAR, field) for field in ("currency", "source", "content_hash")] + [
    (ARTICLE, field) for field in ("source_domain", "title", "text_normalized", "content_hash", "author", "topic_tags")
]


@pytest.mark.parametrize(("payload", "field"), NUL_FIELDS)
def test_the_character_nul_is_an_exception_however_it_is_hidden(payload: dict[str, Any], field: str) -> None:
    kind = TA_BAR if payload is BAR else SA_ARTICLE
    value = "x" * 200 + "\0"
    text = json.dumps(changed(payload, **{field: [value] if field == "topic_tags" else value}))
    hidden = "".join(f"\\u{ord(character):04x}" for character in text)
    for sent in (
        text,
        text.encode(),
        json.dumps(text),
        json.dumps(text).encode(),
        f' "{hidden}"',
        f'"{hidden}"'.encode(),
    ):
        assert rule_of(judged(kind, sent)) == "exception"
    harmless = json.dumps(changed(payload, **{field: ["\\u0000"] if field == "topic_tags" else "\\u0000" * 30}))
    assert rule_of(judged(kind, harmless)) is None


def test_a_nul_in_a_field_that_is_not_written_harms_nobody() -> None:
    assert rule_of(bar(remark="\0")) is None
    assert rule_of(article(language="vi\0")) is None


@pytest.mark.parametrize("rule", KINDS)
def test_a_string_that_holds_an_object_is_that_object(rule: str) -> None:
    kind, payload = KINDS[rule]
    plain = judged(kind, payload)
    assert rule_of(plain) is None
    text = json.dumps(payload)
    assert judged(kind, json.dumps(text)) == judged(kind, text.encode()) == judged(kind, f" {text}\n") == plain


@pytest.mark.parametrize("rule", KINDS)
@pytest.mark.parametrize(
    "sent",
    [
        "",
        " ",
        "null",
        "true",
        "5",
        "[]",
        '[{"symbol":"FPT"}]',
        '"x"',
        '""',
        '"[]"',
        '"\\"{}\\""',
        "{",
        '{"a":1,}',
        "{} {}",
        "{'a':1}",
        '{"a":NaN}',
        '{"a":1e999,"b":NaN}',
        '"{\\"a\\":Infinity}"',
        '{"a":"\\ud800"}',
        '{"a":"\\udc00\\ud800"}',
        '{"a":1e999,"b":"\\ud800"}',
        '{"a":1e999,',
        '{"a":"\n"}',
        b'{"a":"\xff"}',
        b"\xff\xfe",
        '{"a":"\ud800"}',
        "\ufeff{}",
    ],
)
def test_what_is_no_object_fails_alone(rule: str, sent: str | bytes) -> None:
    kind, payload = KINDS[rule]
    good = json.dumps(payload)
    result = judge([Task(n, kind, text, SEEN) for n, text in enumerate((good, sent, good))], NOW, RuleSettings())
    assert [n for n, _ in (*result.bars, *result.articles)] == [0, 2]
    [reject] = result.rejects
    assert (reject.task_id, reject.reason, reject.rule_id) == (1, "sanity_fail", rule)
    assert reject.error_msg.startswith("The payload is a JSON object")
    assert reject.error_msg.isprintable()


def test_an_empty_object_fails_the_first_rule() -> None:
    assert rule_of(judged(TA_BAR, "{}")) == "ta_symbol"
    assert rule_of(judged(SA_ARTICLE, "{}")) == "sa_url"


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_without_end_fails_alone(opening: str) -> None:
    closing = {"[": "]", '{"a":': "}"}[opening]
    for depth in (500, 990, 5_000, 100_000):
        nested = opening * depth + "1" + closing * depth
        assert rule_of(judged(TA_BAR, nested)) in ("ta_payload", "ta_symbol")
        assert rule_of(judged(TA_BAR, json.dumps(BAR)[:-1] + f', "symbol": {nested}}}')) in ("ta_payload", "ta_symbol")
    assert rule_of(judged(TA_BAR, opening * 100_000 + "1" + closing * 100_000)) == "ta_payload"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 5000, "1" * 400 + ".5"])
def test_a_number_beyond_every_double_is_judged_by_the_rule_of_its_field(number: str) -> None:
    text = json.dumps(BAR)[:-1]
    assert rule_of(judged(TA_BAR, f'{text}, "close": {number}}}')) == "ta_price"
    assert rule_of(judged(TA_BAR, f'{text}, "volume": {number}}}')) in ("exception", "ta_volume")
    assert rule_of(judged(TA_BAR, f'{text}, "vwap": {number}}}')) == "exception"
    assert rule_of(judged(TA_BAR, f'{text}, "remark": {number}}}')) is None
    assert rule_of(judged(TA_BAR, json.dumps(f'{text}, "remark": {number}}}'))) is None


def test_of_a_key_written_twice_the_last_counts() -> None:
    assert rule_of(judged(TA_BAR, json.dumps(BAR)[:-1] + ', "symbol": "x", "symbol": "VNM"}')) is None
    assert rule_of(judged(TA_BAR, json.dumps(BAR)[:-1] + ', "symbol": "x"}')) == "ta_symbol"


def test_a_megabyte_of_text_is_an_article() -> None:
    outcome = article(text_normalized="Cổ phiếu 👍 " * 100_000)
    assert isinstance(outcome, Article)
    assert len(outcome.text_normalized) == 1_100_000


@pytest.mark.parametrize("kind", ["", "ta.bars", "TA.BAR", " ta.bar", "x\0\n", "x" * 10_000])
def test_an_unknown_type_is_told_by_name_whatever_it_carries(kind: str) -> None:
    for payload in (BAR, "{", b"\xff"):
        outcome = judged(kind, payload)
        assert isinstance(outcome, Reject)
        assert (outcome.reason, outcome.rule_id) == ("unknown_task_type", None)
        assert outcome.error_msg.isprintable()
        assert len(outcome.error_msg) < 250


@UNHURRIED
@given(st.lists(st.tuples(st.sampled_from([TA_BAR, SA_ARTICLE, "other"]), payloads), max_size=8))
@example([(TA_BAR, json.dumps(WHOLE_BAR)), (SA_ARTICLE, json.dumps(WHOLE_ARTICLE)), ("", "")])
def test_no_task_is_lost_doubled_or_able_to_stop_the_batch(sent: list[tuple[str, str | bytes]]) -> None:
    tasks = [Task(n, kind, text, SEEN) for n, (kind, text) in enumerate(sent)]
    result = judge(tasks, NOW, RuleSettings())
    bars, articles = [n for n, _ in result.bars], [n for n, _ in result.articles]
    rejects = [reject.task_id for reject in result.rejects]
    assert sorted(bars + articles + rejects) == list(range(len(tasks)))
    assert (bars, articles, rejects) == (sorted(bars), sorted(articles), sorted(rejects))
    assert {tasks[n].kind for n in bars} <= {TA_BAR}
    assert {tasks[n].kind for n in articles} <= {SA_ARTICLE}
    ids = {rule.id for rule in RULES}
    for reject in result.rejects:
        assert (reject.rule_id in ids) == (reject.reason == "sanity_fail")
        assert reject.error_msg
        assert reject.error_msg.isprintable()
        assert len(reject.error_msg) < 1_000


@UNHURRIED
@given(odd(WHOLE_BAR), odd(WHOLE_ARTICLE))
def test_what_passes_can_be_stored(bar_text: str, article_text: str) -> None:
    result = judge([Task(1, TA_BAR, bar_text, SEEN), Task(2, SA_ARTICLE, article_text, SEEN)], NOW, RuleSettings())
    for _, record in (*result.bars, *result.articles):
        for name in record.__slots__:
            value = getattr(record, name)
            for text in value if isinstance(value, list) else [value]:
                assert "\0" not in text if isinstance(text, str) else not isinstance(text, list | dict), name
            assert not isinstance(value, float) or abs(value) < float("inf"), name
            assert not isinstance(value, datetime) or value.utcoffset() == timedelta(0), name


@UNHURRIED
@given(values)
def test_any_value_is_shown_on_one_short_line(value: Any) -> None:
    assert shown(value).isprintable()
    assert len(shown(value)) < 1_200


def test_a_value_is_shown_so_that_a_person_knows_it_again() -> None:
    long = "x" * 81
    assert [shown(value) for value in (None, True, False, 5, 1.5)] == ["null", "true", "false", "5", "1.5"]
    assert shown("FPT\n\x1b[31m\u202e") == r"'FPT\n\x1b[31m\u202e'"
    assert shown(long) == f"'{'x' * 80}'… (81 characters)"
    assert shown(10**60) == f"1{'0' * 39}… (61 characters)"
    assert shown(["a", 1, None, [2], {"b": 3}]) == "['a', 1, null, a list of 1, an object of 1 keys]"
    assert shown(list(range(10))) == "[0, 1, 2, 3, 4, … 10 entries]"
    assert shown({}) == "an object of 0 keys"
