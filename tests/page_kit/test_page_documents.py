"""The whole page as text: what it carries, what it forbids itself, what it says to those who see no pictures."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from page_sample import HOSTILE, sample
from page_tags import Tags

from headrace.pages import (
    ENGLISH_WORDS,
    Chart,
    ChartRow,
    Document,
    Header,
    HeatMap,
    HeatMark,
    HeatRow,
    Html,
    Listing,
    Series,
    TableColumn,
    bars,
    columns,
    document,
    filter_url,
    heat_map,
    lines,
    response,
    save,
    sparkline,
    table,
    table_section,
)


@pytest.fixture(scope="module", params=["en", "vi"])
def page(request: pytest.FixtureRequest) -> Document:
    return sample(request.param)


def test_a_page_loads_nothing_and_words_of_strangers_stay_words(page: Document) -> None:
    tags = Tags(page)
    assert tags.of("iframe", "img", "object", "embed", "base", "frame") == []
    assert [attributes["href"] for attributes in tags.of("link")] == ["data:,"]
    names = [name for _, attributes in tags.found for name in attributes]
    assert [name for name in names if name.startswith(("on", "style", "src"))] == []
    assert re.findall(r"url\((?!#)|@import", page) == []
    assert "".join(tags.words).count(HOSTILE.replace("\u202e", "�")) >= 5
    assert not any("javascript:" in (attributes["href"] or "") for attributes in tags.of("a"))


def test_the_policy_allows_the_blocks_of_the_kit_and_nothing_else(page: Document) -> None:
    tags = Tags(page)
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for block in (script, style):
        assert base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() in page.policy
    assert "unsafe" not in page.policy
    [said] = [entry["content"] for entry in tags.of("meta") if "http-equiv" in entry]
    assert said == page.policy


def test_what_is_smuggled_in_as_markup_is_not_in_the_policy() -> None:
    """`Html` of an application that forgot to escape does not run all the same."""
    trap = Html("<script>alert(1)</script>")
    page = document(ENGLISH_WORDS, Header("a", "a"), trap, [])
    assert trap in page
    assert page.policy == document(ENGLISH_WORDS, Header("a", "a"), Html(), []).policy


def test_a_server_says_the_policy_too() -> None:
    page = sample()
    answer = response(page, 404)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == f"{page.policy}; frame-ancestors 'none'"


def test_a_bundled_page_may_run_its_own_blocks() -> None:
    page = Document.bundled("<!doctype html>\r\n<script>let a = 1\r\n</script>")
    digest = base64.b64encode(hashlib.sha256(b"let a = 1\n").digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.policy
    assert "style-src 'none'" in page.policy


def test_pictures_have_words_tables_a_caption_and_headings_an_order(page: Document) -> None:
    tags = Tags(page)
    inside = ("swatch", "bar", "axis", "patterns", "plot", "strip", "sparkline", "ticks", None)
    for entry in tags.of("svg"):
        assert entry.get("class") in inside
        assert entry.get("aria-label") or entry.get("aria-hidden") or "viewbox" in entry
    assert [tag for tag, _ in tags.found if tag in ("h1", "h2")] == ["h1"] + ["h2"] * 5
    assert tags.of("html")[0]["lang"] in ("en", "vi")
    words = "".join(tags.words)
    assert ("3 of 60 days" in page, "Numbers of this chart" in words or "Số liệu của biểu đồ" in words) == (True, True)


def test_a_page_is_replaced_at_once_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        save(Document("\ud800"), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    save(sample(), path)
    assert path.read_text("utf-8") == sample()
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o600 == 0o600


def test_a_table_of_thousands_opens_with_a_hundred_and_stays_small() -> None:
    heads = [TableColumn("Symbol"), *(TableColumn(f"Column {n}", number=True) for n in range(12))]
    rows = [[f"S{n:04}", *range(12)] for n in range(5_000)]
    made = table(ENGLISH_WORDS, Listing("symbols", "Symbols", heads, rows))
    assert len(made) < 3_000_000
    opened, rest = made.split("<details", 1)
    assert (opened.count("<tr><th scope=row"), rest.count("<tr><th scope=row")) == (100, 4_900)
    assert "4,900 more rows" in rest


def test_a_column_that_cannot_be_filtered_as_told_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        TableColumn("Day", filter="days")
    with pytest.raises(ValueError, match="out of choice, text, days, range"):
        TableColumn("Day", "day", filter="moon")


def test_a_filter_is_an_address_of_the_page() -> None:
    assert (
        filter_url("posts", sentiment="negative", author="a&b") == "?posts.sentiment=negative&posts.author=a%26b#posts"
    )


def test_choices_have_the_order_and_the_words_they_are_given_and_too_many_are_typed() -> None:
    column = TableColumn("Risk", "risk", filter="choice", choices={"HIGH": "high", "LOW": "low", "NONE": "none"})
    made = table(ENGLISH_WORDS, Listing("posts", "Posts", [column], [["LOW"], ["HIGH"], ["ODD"], [None]]))
    assert re.findall(r'<option value="(\w*)">(\w+)', made) == [
        ("", "all"),
        ("HIGH", "high"),
        ("LOW", "low"),
        ("ODD", "ODD"),
    ]
    many = table(ENGLISH_WORDS, Listing("posts", "Posts", [column], [[f"R{n}"] for n in range(201)]))
    assert "<option" not in many


def test_a_bar_has_its_numbers_beside_it_and_nothing_to_show_is_nothing() -> None:
    series = [Series("good", "good"), Series("bad", "bad")]
    chart = Chart("a", "All", "Platform", series, [ChartRow("tiktok", (3, 1)), ChartRow("web", (1, None))])
    made = bars(ENGLISH_WORDS, chart)
    assert re.findall(r'x="([\d.]+%)" width="([\d.]+%)"', made) == [("0%", "75%"), ("75%", "25%"), ("0%", "25%")]
    assert re.findall(r'data-l="good">(.+?)<', made) == ["3", "1"]
    assert re.findall(r'data-l="bad">(.+?)<', made) == ["1", "–"]
    shares = bars(ENGLISH_WORDS, chart, whole=True)
    assert 'width="100%"' in shares.partition("web")[2]
    assert re.findall(r'data-l="good">(.+?)<', shares) == ["3 (75 %)", "1 (100 %)"]
    empty = Chart("a", "All", "Platform", series, [])
    assert bars(ENGLISH_WORDS, empty) == columns(ENGLISH_WORDS, empty) == lines(ENGLISH_WORDS, empty) == ""


def test_a_line_has_gaps_and_its_table_says_so() -> None:
    rows = [ChartRow(f"day {n}", [value]) for n, value in enumerate((1, None, 2, 4))]
    made = lines(ENGLISH_WORDS, Chart("a", "All", "Day", [Series("posts", "plain")], rows))
    assert 'd="M0.5 75M2.5 50L3.5 0"' in made
    assert '<th scope=row>day 1<td class=n data-l="posts">–' in made


def test_columns_reach_to_a_round_number_and_label_a_dozen_places() -> None:
    rows = [ChartRow(f"day {n}", [n], short=f"d{n}") for n in range(115)]
    made = columns(ENGLISH_WORDS, Chart("a", "All", "Day", [Series("posts")], rows))
    assert ">120</text>" in made
    assert len(re.findall(r'class="label', made)) == 12
    zero = columns(ENGLISH_WORDS, Chart("a", "All", "Day", [Series("posts")], [ChartRow("day", [0])]))
    assert "<rect" not in zero


@pytest.mark.parametrize(
    ("most", "numbers"),
    [
        (1, "0 1"),
        (3, "0 1 2 3 4"),
        (9, "0 2 4 6 8 10"),
        (41, "0 10 20 30 40 50"),
        (19, "0 5 10 15 20"),
        (4_900, "0 1 k 2 k 3 k 4 k 5 k"),
    ],
)
def test_what_is_counted_has_whole_numbers_on_its_axis(most: int, numbers: str) -> None:
    made = columns(ENGLISH_WORDS, Chart("a", "All", "Day", [Series("posts")], [ChartRow("day", [most])]))
    axis = made.partition('class="axis"')[2].partition("</svg>")[0]
    assert " ".join(re.findall(r">([^<]+)</text>", axis)) == numbers


def test_what_is_measured_has_fractions_on_its_axis() -> None:
    made = lines(ENGLISH_WORDS, Chart("a", "All", "Day", [Series("price")], [ChartRow("day", [0.9])], digits=2))
    assert ">0.25<" in made


def test_a_strip_covers_exactly_what_its_letters_say() -> None:
    marks = [
        HeatMark("p", "present", "neutral", "ground"),
        HeatMark("m", "missing", "bad", "full"),
        HeatMark("r", "revised", "good", "lower"),
        HeatMark("w", "warned", "warn", "upper"),
    ]
    days = [f"day {n}" for n in range(9)]
    chart = HeatMap("heat", "Days", marks, days, {0: "first"}, "Symbol", "Complete")
    made = heat_map(ENGLISH_WORDS, chart, [HeatRow("VNM", "  pprmmw ", "4 of 6", "66 %")])
    assert 'class="ground" d="M2 5h3m2 0h1"' in made
    assert 'class="flat-bad" d="M5 0h2v10h-2z"><title>day 5 … day 6: missing (2)</title>' in made
    assert 'class="flat-good" d="M4 5h1v5h-1z"><title>day 4: revised</title>' in made
    assert 'class="flat-warn" d="M7 0h1v5h-1z"' in made
    assert 'aria-label="VNM: 4 of 6"' in made
    with pytest.raises(ValueError, match="one letter and a shape"):
        HeatMark("mm", "missing", "bad", "full")


def test_a_map_of_very_many_marks_says_them_per_row() -> None:
    chart = HeatMap("heat", "Days", [HeatMark("m", "missing", "bad", "full")], ["a"] * 200, {}, "Symbol", "Complete")
    made = heat_map(ENGLISH_WORDS, chart, [HeatRow(f"S{n}", "m " * 100, "100 missing") for n in range(400)])
    assert made.count("<title>") == 5_000
    assert 'class="thin-bad h10"' in made


def test_a_sparkline_shows_what_is_small_too() -> None:
    assert 'd="M0 20v-20h.8V20zM2 20v-1.5h.8V20z"' in sparkline([1_000, 0, 1], "counts")


def test_a_section_that_is_one_table_has_its_name_and_caption() -> None:
    listing = Listing("posts", "All posts", [TableColumn("Post", "post")], [("first",)])
    section = table_section(ENGLISH_WORDS, listing)
    assert (section.name, section.title, section.content) == ("posts", "All posts", table(ENGLISH_WORDS, listing))
