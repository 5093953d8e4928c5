"""A table whose rows a service chooses: the form asks for them, with a script and without one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from browser import Browser, chromium_path
from page_sample import HOSTILE, TEXTS, TONES

from headrace.pages import Document, Header, Html, Listing, Section, ServedRows, TableColumn, document, served_table
from headrace.testing import HttpAnswer, HttpReceiver, HttpRequest

ROOM = 20
TEXT = "document.querySelector('output').textContent"
ROWS = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent.trim())"
# Do something as a person does, and wait until the answer has taken the place of what was there.
ACT = """new Promise(done => {{ const before = document.querySelector('.answer');
    new MutationObserver((_, seen) => {{
        if (before.isConnected || document.querySelector('[aria-busy]')) return;
        seen.disconnect(); done({then});
    }}).observe(document.body, {{childList: true, subtree: true, attributes: true}});
    {act}; }})"""
SET = """const control = document.querySelector('[name="{name}"]'); control.value = {value!r};
    control.dispatchEvent(new Event('change', {{bubbles: true}}))"""


def chosen(query: str) -> Document:
    """The page that a service answers with: posts of a tone, with words in them, by pages."""
    asked = dict(parse_qsl(query))
    filters = {key.removeprefix("posts."): value for key, value in asked.items() if key.startswith("posts.")}
    page = int(filters.pop("page", "1"))
    found = [
        (f"post {number} {HOSTILE if not number else ''}", TONES[number % 3])
        for number in range(100)
        if filters.get("sentiment", TONES[number % 3]) == TONES[number % 3]
        and filters.get("any", "") in f"post {number}"
    ]
    if filters.get("order") == "last":
        found.reverse()
    words = TEXTS.of(asked.get("language", "en"))
    heads = [
        TableColumn(words("posts"), "text", wide=True),
        TableColumn(words("sentiment"), "sentiment", filter="choice", choices={tone: words(tone) for tone in TONES}),
        TableColumn(words("day"), "day", filter="days"),
    ]
    first = (page - 1) * ROOM
    rows = [(*row, None) for row in found[first : first + ROOM]]
    served = ServedRows(
        filters,
        len(found),
        first,
        {"": "first", "last": "last"},
        {"language": words.language},
        page,
        -(-len(found) // ROOM),
    )
    listing = served_table(words, Listing("posts", "Posts", heads, rows), served)
    return document(words, Header("Posts", "Posts"), listing, [Section("more", "More", Html())])


def served(request: HttpRequest) -> HttpAnswer:
    page = chosen(urlsplit(request.path).query)
    headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": page.policy}
    return HttpAnswer(200, page.encode(), headers)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver(served) as receiver:
        yield receiver


@pytest.fixture
def url(receiver: HttpReceiver) -> str:
    return f"{receiver.url}/"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium_path(), tmp_path_factory.mktemp("profile"), "about:blank") as opened:
        yield opened


def act(browser: Browser, act: str, then: str = TEXT) -> Any:
    return browser.run(ACT.format(act=act, then=then))


def put(browser: Browser, name: str, value: str, then: str = TEXT) -> Any:
    return act(browser, SET.format(name=name, value=value), then)


def test_the_form_holds_what_was_asked_for_and_what_is_kept() -> None:
    page = chosen("language=vi&posts.sentiment=odd&posts.any=%22%3E&posts.day.from=2025-03-01")
    assert '<input type="hidden" name="language" value="vi">' in page
    assert '<option value="odd" selected>odd' in page, "also what is not among the choices"
    assert 'name="posts.any" value="&quot;&gt;"' in page
    assert 'type="date" name="posts.day.from" value="2025-03-01"' in page
    assert "data-sorts" not in page


def test_pages_are_linked_with_the_filters_they_belong_to() -> None:
    urls = re.findall(r'href="(\?[^"]*page[^"]*)"', chosen("posts.any=post&posts.page=2&language=vi"))
    assert urls == [f"?posts.any=post&amp;posts.page={page}&amp;language=vi#posts" for page in (1, 3)]
    assert "posts.page" not in chosen("posts.any=99")


def test_a_service_is_asked_and_its_rows_are_shown(browser: Browser, url: str, receiver: HttpReceiver) -> None:
    browser.said.clear()
    browser.narrow(1_440)
    browser.open(f"{url}?posts.sentiment=bad#posts")
    assert browser.run(TEXT) == "1 to 20 of 33 rows"
    assert put(browser, "posts.any", "post 2") == "1 to 5 of 5 rows"
    assert browser.run("location.search") == "?language=en&posts.any=post+2&posts.sentiment=bad"
    assert put(browser, "posts.sentiment", "", ROWS) == ["post 2", *(f"post {number}" for number in range(20, 30))]
    assert put(browser, "posts.order", "last", ROWS)[0] == "post 29"
    assert put(browser, "posts.any", "nothing") == "No row matches."
    assert len(receiver.requests) == 5
    assert act(browser, "history.back()") == "1 to 11 of 11 rows"
    assert browser.run("document.querySelector('[type=search]').value") == "post 2"
    assert browser.said == []


def test_a_link_to_another_page_is_followed_in_place(browser: Browser, url: str, receiver: HttpReceiver) -> None:
    browser.open(url)
    assert act(browser, "document.querySelector('nav[aria-label^=Pages] a').click()") == "21 to 40 of 100 rows"
    assert browser.run("document.activeElement.className") == "scroll"
    assert browser.violations() == []
    assert len(receiver.requests) == 2


def test_without_scripts_the_form_asks_by_itself(browser: Browser, url: str, receiver: HttpReceiver) -> None:
    browser.scripts(False)
    try:
        browser.open(f"{url}?posts.any=post+1")
        assert browser.run(TEXT) == "1 to 11 of 11 rows"
        assert browser.run("document.querySelector('form').offsetHeight > 0")
        assert browser.run("document.querySelector('form').method + document.querySelector('form').action") == (
            f"get{url}?posts.any=post+1#posts"
        )
    finally:
        browser.scripts(True)
