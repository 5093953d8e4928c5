"""The sample page as a browser shows it: read without scripts, filtered and sorted with them, looked at by axe-core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, chromium_path
from page_sample import sample

from headrace.pages import Document, save

ROWS = "[...document.querySelectorAll('[data-table=posts] tbody tr')]"
SHOWN = "document.querySelector('[data-table=posts] output').textContent"
# What is cut off at the right, or scrolls sideways.
CUT = """[...document.querySelectorAll('.scroll, figure, main')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.className + ' ' + each.scrollWidth)"""
SET = """(name, value) => {{ const control = document.querySelector('[data-table=posts] [name="' + name + '"]');
    control.value = value; control.dispatchEvent(new Event('input', {{bubbles: true}})); return {shown}; }}"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium_path(), tmp_path_factory.mktemp("profile"), "about:blank") as opened:
        yield opened


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Browser:
    save(sample(), tmp_path / "page.html")
    browser.said.clear()
    browser.narrow(1_440)
    browser.prefer("light")
    browser.open((tmp_path / "page.html").as_uri())
    return browser


def put(browser: Browser, name: str, value: str) -> str:
    return str(browser.run(f"({SET.format(shown=SHOWN)})({name!r}, {value!r})"))


@pytest.mark.parametrize("language", ["en", "vi"])
def test_axe_finds_nothing_and_nothing_is_cut(browser: Browser, tmp_path: Path, language: str) -> None:
    save(sample(language), tmp_path / "page.html")
    browser.said.clear()
    browser.open((tmp_path / "page.html").as_uri())
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for width, scheme in ((1_440, "light"), (390, "dark"), (390, "light"), (768, "dark")):
        browser.narrow(width)
        browser.prefer(scheme)
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.run(CUT) == []
        assert browser.violations() == [], (width, scheme)
    assert browser.said == []


def test_a_page_with_faults_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    trap = "<p>light</p><img src=x><script>document.title = 'trapped'</script><p id=w>wide wide wide</p>"
    text = sample().replace("</main>", f"{trap}</main>").replace("</style>", "#w{width:999px}</style>")
    save(Document(text), tmp_path / "page.html")
    browser.said.clear()
    browser.narrow(390)
    browser.open((tmp_path / "page.html").as_uri())
    assert any(said.startswith("image-alt") for said in browser.violations())
    assert browser.run("document.title") == "Posts of a project"
    assert any("Content Security Policy" in said for said in browser.said)
    # The style was changed after its hash was taken, so not even that is applied.
    assert browser.run("getComputedStyle(document.querySelector('.tiles')).display") == "block"


def test_without_scripts_everything_can_be_read(browser: Browser, tmp_path: Path) -> None:
    save(sample(), tmp_path / "page.html")
    browser.scripts(False)
    try:
        browser.narrow(390)
        browser.open((tmp_path / "page.html").as_uri())
        assert browser.run(f"{ROWS}.length") == 240
        assert browser.run("document.querySelector('.filters').offsetHeight") == 0
        assert browser.run("document.querySelector('details.rest summary').textContent") == "140 more rows"
        assert browser.run("getComputedStyle(document.querySelector('tbody td[data-l]'), '::before').content") != "none"
    finally:
        browser.scripts(True)


def test_rows_are_filtered_by_words_choices_days_and_numbers(opened: Browser) -> None:
    assert opened.run(SHOWN) == "240 of 240 rows"
    assert opened.run(f"{ROWS}.length") == 100
    assert put(opened, "any", "duong pho 239") == "1 of 240 rows"
    assert put(opened, "any", "no such words") == "No row matches."
    assert put(opened, "any", "") == "240 of 240 rows"
    assert put(opened, "sentiment", "bad") == "80 of 240 rows"
    assert put(opened, "author", "AUTHOR 3") == "11 of 240 rows"
    assert put(opened, "author", "") == "80 of 240 rows"
    assert put(opened, "day.from", "2025-03-30") == "8 of 240 rows"
    assert put(opened, "impact.to", "100000") == "3 of 240 rows"
    opened.run("document.querySelector('[data-table=posts] [type=reset]').click()")
    assert opened.run(f"new Promise(done => setTimeout(() => done({SHOWN})))") == "240 of 240 rows"
    opened.run("document.querySelector('[data-table=posts] .more').click()")
    assert opened.run(f"{ROWS}.length") == 240


def test_rows_are_sorted_by_numbers_words_and_days(opened: Browser) -> None:
    head = "document.querySelectorAll('[data-table=posts] th')"
    first = f"{ROWS}[0].cells"
    opened.run(f"{head}[4].firstElementChild.click()")
    assert opened.run(f"[{head}[4].ariaSort, {first}[4].textContent.trim()]") == ["descending", "239,119.5"]
    opened.run(f"{head}[4].firstElementChild.click()")
    assert opened.run(f"[{head}[4].ariaSort, {first}[4].textContent.trim()]") == ["ascending", "0.0"]
    opened.run(f"{head}[3].firstElementChild.click()")
    assert opened.run(f"[{head}[4].ariaSort, {first}[3].textContent.trim()]") == [None, "2025-03-01"]
    assert opened.run(f"{head}[5].querySelector('button')") is None
    assert opened.violations() == []


def test_a_tile_leads_to_the_rows_it_counts(opened: Browser) -> None:
    opened.run("document.querySelector('.tiles a').click()")
    assert opened.run(SHOWN) == "80 of 240 rows"
    assert opened.run("document.activeElement.className") == "scroll"
    assert opened.run("document.querySelector('[name=sentiment]').value") == "bad"


def test_an_address_with_a_filter_opens_filtered(opened: Browser, tmp_path: Path) -> None:
    opened.open(f"{(tmp_path / 'page.html').as_uri()}?posts.sentiment=good&posts.day.to=2025-03-01#posts")
    assert opened.run(SHOWN) == "8 of 240 rows"


def test_on_paper_a_page_is_light_and_has_no_controls(opened: Browser) -> None:
    opened.prefer("dark", "print")
    assert opened.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    controls = "[...document.querySelectorAll('.filters, nav, button.more')].map(each => each.offsetHeight)"
    assert set(opened.run(controls)) == {0}
