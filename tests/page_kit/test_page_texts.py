"""Texts in two languages, and markup that nothing gets out of."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from headrace.pages import Texts, element, join, link, mark, plain, text

TEXTS = Texts(
    en={"late": "{count} symbol is late|{count} symbols are late", "since": "since {day}"},
    vi={"late": "{count} mã bị trễ", "since": "từ {day}"},
)


def test_texts_numbers_and_days_are_those_of_the_language() -> None:
    english, vietnamese = TEXTS.of("en"), TEXTS.of("vi")
    assert [english("late", count=count) for count in (0, 1, 1_200)] == [
        "0 symbols are late",
        "1 symbol is late",
        "1,200 symbols are late",
    ]
    assert vietnamese("late", count=1_200) == "1.200 mã bị trễ"
    assert [words("since", day=date(2025, 3, 1)) for words in (english, vietnamese)] == [
        "since 2025-03-01",
        "từ 01/03/2025",
    ]
    assert [words.number(-1_234.56, 1) for words in (english, vietnamese)] == ["−1,234.6", "−1.234,6"]
    assert [english.number(value, 1) for value in (-0.04, 0.04, 0)] == ["0.0", "0.0", "0.0"]
    assert vietnamese.shown(datetime(2025, 3, 1, 7, 5, tzinfo=UTC)) == "01/03/2025 07:05"


def test_only_what_is_complete_shows_as_a_hundred_percent() -> None:
    words = TEXTS.of("en")
    assert [words.percent(share) for share in (None, 0.0, 0.9999, 1.0)] == ["–", "0.0 %", "99.9 %", "100.0 %"]
    assert words.number(float("nan")) == words.shown(None) == "–"


def test_a_share_is_rounded_as_a_reader_would() -> None:
    words = TEXTS.of("en")
    assert [words.percent(count / 278, 0) for count in (158, 15, 105)] == ["57 %", "5 %", "38 %"]
    assert [words.percent(share) for share in (0.3429, 0.3285, 1.0025)] == ["34.3 %", "32.9 %", "100.3 %"]
    assert [words.percent(share, 0) for share in (0.125, 0.375, 0.996)] == ["13 %", "38 %", "99 %"]


def test_a_language_that_is_not_there_is_the_first_one() -> None:
    assert TEXTS.of("fr").language == "en"
    assert TEXTS.languages == ("en", "vi")
    accepted = ("vi-VN,vi;q=0.9,en;q=0.8", "fr, en-GB", "fr", "", ",;q")
    assert [TEXTS.preferred(each) for each in accepted] == ["vi", "en", "en", "en", "en"]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"en": {"a": "x", "b": "y"}, "vi": {"a": "x"}}, r"one of en and vi only: \['b'\]"),
        ({"en": {"a": "{count} x"}, "vi": {"a": "x"}}, "the text 'a' has other places in vi"),
        ({"fr": {"a": "x"}}, "no words of the kit"),
    ],
)
def test_texts_that_differ_are_refused_at_once(tables: dict[str, dict[str, str]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Texts(**tables)


def test_a_key_that_is_not_there_is_an_error_unless_it_may_be() -> None:
    words = TEXTS.of("vi")
    with pytest.raises(KeyError):
        words("nothing")
    assert words.get("rule.foreign", "foreign") == "foreign"


def test_whatever_is_not_markup_is_escaped() -> None:
    hostile = "<b onclick='x()'>\"&"
    assert text(hostile) == "&lt;b onclick=&#x27;x()&#x27;&gt;&quot;&amp;"
    assert element("p", hostile, title=hostile) == f'<p title="{text(hostile)}">{text(hostile)}</p>'
    assert join("a", element("br"), None, 3, between=" < ") == "a &lt; <br> &lt; 3"
    assert text("a\u202eb\x1b[2J") == "a�b�[2J"
    assert plain("👩\u200d💻 một\x00dòng\x7f") == "👩\u200d💻 một�dòng�"
    assert plain("a" * 500, 10) == "aaaaaaaaa…"


def test_a_text_of_several_lines_is_read_on_one() -> None:
    assert plain("Quá tệ!\nMất\tphanh\u2028và\u3000cháy") == "Quá tệ! Mất phanh và cháy"
    assert plain("\ufeffVin\u200bFast\u00a0VF3\u200e") == "VinFast\u00a0VF3", "what cannot be seen leaves no mark"


@pytest.mark.parametrize("name", ["style", "onclick", "srcdoc"])
def test_an_attribute_that_the_policy_refuses_is_refused_before(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        element("p", **{name: "x"})


@pytest.mark.parametrize("url", ["https://example.invalid/a?b=1", "http://[::1]:80/", "#posts", "?a=b#c", "projects/1"])
def test_an_address_of_the_web_or_of_our_own_is_a_link(url: str) -> None:
    assert link(url, "<words>").startswith(f'<a href="{url}"')


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        " javascript:x",
        "data:text/html,x",
        "file:///etc/passwd",
        "//",
        "///host",
        "http://",
        "java\tscript:x",
        "https://[bad",
        "\\\\host\\x",
        "vbscript:x",
        "",
    ],
)
def test_an_address_that_may_do_more_is_only_its_words(url: str) -> None:
    assert link(url, "<words>") == "&lt;words&gt;"


def test_a_tone_that_is_not_there_is_refused() -> None:
    assert "▲" in mark("bad", "negative")
    with pytest.raises(ValueError, match="no tone 'red'"):
        mark("red", "negative")
