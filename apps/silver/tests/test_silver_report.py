"""The report in the terminal, as a document and as a page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from page_tags import Tags
from rich.console import Console
from silver_quality_sample import DAYS, LENGTH
from silver_report_sample import large, small

from headrace_silver.quality.values import ArticleQuality, Quality, SymbolQuality
from headrace_silver.records.rules import RULES
from headrace_silver.report import terminal
from headrace_silver.report.document import document
from headrace_silver.report.page import page
from headrace_silver.report.text import duration, headline
from headrace_silver.report.words import ENGLISH, TEXTS, sentence


@pytest.fixture(scope="module")
def quality(tmp_path_factory: pytest.TempPathFactory) -> Quality:
    return small(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def text(quality: Quality) -> str:
    return page(quality)


def on_terminal(quality: Quality, width: int = 200) -> str:
    printed = io.StringIO()
    terminal.show(quality, Console(file=printed, width=width, force_terminal=True, highlight=False))
    return printed.getvalue()


def test_the_terminal_says_first_what_is_wrong(quality: Quality) -> None:
    lines = on_terminal(quality).splitlines()
    assert "3 of 11 symbols are late" in lines[0]
    assert "18 tasks were rejected" in lines[0]
    assert "60 trading days" in lines[1]


def test_the_terminal_shows_who_is_late_what_is_missing_and_why_it_was_refused(quality: Quality) -> None:
    words = on_terminal(quality)
    for expected in (
        "LAT",
        "2025-03-11",
        "HOL",
        str(DAYS[50]),
        "ta_symbol",
        "báo.example",
        "−7.3 %",
        "probable copies",
    ):
        assert expected in words, expected
    assert "note: No symbol has a bar on" in words


def test_a_narrow_terminal_gets_fewer_columns_and_whole_words(quality: Quality) -> None:
    words = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(quality, 80))
    assert max(map(len, words.splitlines())) <= 80
    heads = [
        line.split("  ")[0].strip() for line in words.splitlines() if line.strip().startswith(("symbol ", "source "))
    ]
    assert heads == ["symbol", "symbol", "symbol", "source"]
    assert "complete" in words
    assert "no room for: revisions, band, tick, gaps" in words
    assert "gaps" in on_terminal(quality)


def test_text_from_strangers_steers_no_terminal(quality: Quality) -> None:
    words = on_terminal(quality)
    assert "[red]x[/red]�[2J<img" in words
    assert "\x1b[2J" not in words


def test_the_document_is_json_and_says_the_same(quality: Quality) -> None:
    told = json.loads(json.dumps(document(quality)))
    assert told["ok"] is False
    assert told["late"] == ["EDG", "LAT", "LTE"]
    assert told["stopped"] == ["GON", "OLD"]
    assert told["days"] == [day.isoformat() for day in DAYS]
    assert told["rejects_by_rule"] == {"ta_symbol": 9, "sa_text": 7, "exception": 2}
    [late] = [entry for entry in told["symbols"] if entry["symbol"] == "LAT"]
    assert late["missing"][-1] == [DAYS[-2].isoformat(), DAYS[-1].isoformat()]
    assert len(late["cells"]) == LENGTH
    assert {entry["symbol"] for entry in told["band_breaks"]} == {"AAA", "THO", "SHS", "BSR"}


def test_the_page_loads_nothing_and_leads_nowhere_else(text: str) -> None:
    tags = Tags(text)
    assert tags.of("iframe", "img", "object", "embed", "base") == []
    links = {str(attributes["href"]) for attributes in tags.of("a")}
    assert {link for link in links if not link.startswith(("#", "?symbols.state="))} == set()


def test_a_title_from_strangers_is_text_and_vietnamese_stays_as_it_is(text: str) -> None:
    words = "".join(Tags(text).words)
    assert "<script>alert('x')</script> Cổ phiếu � tăng trần" in words
    assert "[red]x[/red]�[2J<img src=x onerror=alert(1)>" in words
    assert "báo.example" in words
    assert "\u202e" not in text


def test_every_table_has_a_caption_every_picture_a_label_and_every_link_a_place(text: str) -> None:
    tags = Tags(text)
    assert len(tags.of("table")) == len(tags.of("caption")) >= 6
    assert all(entry.get("aria-label") or entry.get("aria-hidden") for entry in tags.of("svg"))
    places = [entry["id"] for entry in tags.of("section")]
    assert len(places) == len(set(places))
    assert {str(entry["href"]).partition("#")[2] for entry in tags.of("a")} == set(places)
    assert [tag for tag, _ in tags.found if tag in ("h1", "h2")] == ["h1"] + ["h2"] * len(places)
    assert tags.of("html") == [{"lang": "en"}]


def test_marks_say_their_days(text: str) -> None:
    words = Tags(text).words
    assert f"{DAYS[-2]} … {DAYS[-1]}: never came (2)" in words
    assert f"{DAYS[21]}: warned" in words
    assert f"{DAYS[7]}: revised" in words


def test_a_page_of_the_whole_market_stays_small() -> None:
    text = page(large(1_600, 250))
    assert len(text.encode()) < 5_000_000
    assert text.count('class="strip"') == 1_600


def test_an_empty_store_has_a_page_and_a_terminal(quality: Quality) -> None:
    empty = replace(quality, symbols=[], band_breaks=[], rejects=[], articles=ArticleQuality(), notes=[])
    assert "There is no bar yet." in page(empty)
    assert "There is no bar yet." in on_terminal(empty)


def test_all_is_well_is_said_as_well(quality: Quality) -> None:
    entry = SymbolQuality("VNM", "HOSE", DAYS[0], DAYS[-1], 0, False, "p" * LENGTH)
    well = replace(quality, symbols=[entry], rejects=[], slow=False)
    assert headline(ENGLISH, well) == (
        True,
        "None of 1 symbol is late, 100.0 % of the expected bars are there, 0 tasks were rejected.",
    )
    assert not headline(ENGLISH, replace(well, slow=True))[0]
    assert not headline(ENGLISH, replace(well, symbols=[replace(entry, cells="m" + "p" * 59)]))[0]


def test_lags_are_told_in_the_largest_unit() -> None:
    lags = [timedelta(seconds=59), timedelta(minutes=5), timedelta(hours=-2), timedelta(days=3)]
    assert [duration(ENGLISH, int(lag.total_seconds())) for lag in lags] == ["59 s", "5.0 min", "−2.0 h", "3.0 d"]


def test_the_page_is_there_in_vietnamese_too(quality: Quality) -> None:
    words = TEXTS.of("vi")
    made = page(quality, words)
    told = " ".join(Tags(made).words)
    assert "3 trên 11 mã bị trễ, đã có 92,6\u00a0% số nến cần có, 18 tác vụ bị từ chối." in told
    assert "11/03/2025" in told
    assert "Không mã nào có nến vào 28/02/2025" in told
    assert "1 mã có phần lớn giá nằm giữa các bước giá của sàn" in told
    assert Tags(made).of("html") == [{"lang": "vi"}]


def test_every_rule_says_in_both_languages_what_it_asks() -> None:
    for rule in RULES:
        assert sentence(ENGLISH, rule.id) == rule.sentence
        assert sentence(TEXTS.of("vi"), rule.id) != TEXTS.of("vi")("rejects.no_rule")
    assert sentence(ENGLISH, "exception") == "no rule: the reason of the letter"


def test_a_symbol_is_found_by_each_of_its_states(text: str) -> None:
    found = dict(re.findall(r"<tr><th scope=row>(\w+)<td data-l=\"State\" data-v=\"([\w\n]+)\">", text))
    assert found["LAT"].split("\n") == ["late", "gaps"]
    assert (found["HOL"], found["GON"]) == ("gaps", "stopped")
