"""The page of the report as a browser sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, chromium_path
from silver_report_sample import HOSTILE, large, small

from headrace.pages import save
from headrace_silver.quality.values import Quality
from headrace_silver.report.page import page
from headrace_silver.report.words import TEXTS

# Tables that are cut off at the right, and cells that show nothing although they hold something.
CUT = """[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.getAttribute('aria-label'))"""
UNSEEN = """[...document.querySelectorAll('main td:not(:empty), main tbody th')].filter(cell => {
    const box = cell.getBoundingClientRect();
    return box.width < 8 || box.height < 8 || box.right > innerWidth; }).map(cell => cell.textContent).slice(0, 5)"""
FIND = """(text => {
    const box = document.querySelector('[data-table=symbols]'), field = box.querySelector('[name=any]');
    field.value = text; field.dispatchEvent(new Event('input', {bubbles: true}));
    return [...box.querySelectorAll('tbody th')].map(cell => cell.textContent.trim()); })"""


@pytest.fixture(scope="module")
def quality(tmp_path_factory: pytest.TempPathFactory) -> Quality:
    return small(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium_path(), tmp_path_factory.mktemp("profile"), "about:blank") as opened:
        yield opened


@pytest.mark.parametrize("language", TEXTS.languages)
def test_nothing_is_cut_or_unseen_and_axe_finds_nothing(
    browser: Browser, tmp_path: Path, quality: Quality, language: str
) -> None:
    save(page(quality, TEXTS.of(language)), tmp_path / "report.html")
    browser.said.clear()
    browser.open((tmp_path / "report.html").as_uri())
    for width, scheme in ((1_440, "light"), (390, "dark"), (390, "light"), (768, "dark")):
        browser.narrow(width)
        browser.prefer(scheme)
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.run(CUT) == []
        assert browser.run(UNSEEN) == []
        assert browser.violations() == [], (width, scheme)
    words = browser.run("document.body.textContent")
    assert "<script>alert('x')</script> Cổ phiếu" in words
    assert HOSTILE.replace("\x1b", "�") in words
    assert browser.said == []


def test_nothing_is_cut_on_paper(browser: Browser, tmp_path: Path, quality: Quality) -> None:
    save(page(quality), tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    browser.prefer("dark", "print")
    # A4 between its margins.
    browser.narrow(718)
    assert browser.run("document.documentElement.scrollWidth") == 718
    assert browser.run(UNSEEN) == []
    browser.prefer("light")


def test_a_page_of_the_whole_market_opens_and_finds_one_of_1600(browser: Browser, tmp_path: Path) -> None:
    save(page(large(1_600, 250)), tmp_path / "report.html")
    browser.said.clear()
    browser.narrow(1_440)
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.run(CUT) == []
    assert browser.run("document.querySelector('[data-table=symbols] output').textContent") == "1,600 of 1,600 rows"
    assert browser.run("document.querySelectorAll('[data-table=symbols] tbody tr').length") == 100
    assert browser.run(f"{FIND}('s1599')") == ["S1599"]
    browser.narrow(390)
    assert browser.run("document.documentElement.scrollWidth") == 390
    assert browser.said == []


def test_a_tile_leads_to_the_symbols_that_are_late(browser: Browser, tmp_path: Path, quality: Quality) -> None:
    save(page(quality), tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    browser.run("document.querySelector('.tiles a[href*=late]').click()")
    found = browser.run("[...document.querySelectorAll('[data-table=symbols] tbody th')].map(each => each.textContent)")
    assert sorted(found) == ["EDG", "LAT", "LTE"]


def test_a_table_that_is_cut_or_empty_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    text = (
        "<!doctype html><main><div class=scroll aria-label=wide style='width:300px;overflow-x:auto'>"
        "<table><tbody><tr><th>a</th><td><p style='width:900px'>b</p></td>"
        "<td><i style='display:none'>c</i></td></table>"
    )
    (tmp_path / "report.html").write_text(text, "utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.run(CUT) == ["wide"]
    assert browser.run(UNSEEN) == ["c"]
