"""Reports as a browser shows them: from the service, filtered by it, and as a file that stands alone."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import Browser, chromium_path
from smap_results import AT, post, store

from headrace.http import Options, application, serving
from headrace_smap.database import Database
from headrace_smap.insight.routes import report_routes
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

HOSTILE = '<img src=x onerror="alert(1)"> & Cổ phiếu'
LONG = "proj_01a1e5d6-0bee-7519-ae61-fc2a821c87fc"
SIZES = ((1_440, "light"), (390, "dark"), (390, "light"))
# What is cut off at the right, or scrolls sideways.
CUT = """[...document.querySelectorAll('.scroll, figure, main')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.className + ' ' + each.scrollWidth)"""
# Values that run into their neighbours.
OVERLAPPING = """[...document.querySelectorAll('tbody td')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.textContent)"""
ROWS = "[...document.querySelectorAll('[data-table=posts] tbody tr')]"
OUTPUT = "document.querySelector('[data-table=posts] output').textContent"
SEEN = """['Sentiment', 'Risk'].map(name => {{ const cell = {rows}[0].querySelector(`[data-l=${{name}}]`);
    const box = cell.getBoundingClientRect();
    return box.width > 20 && box.right <= innerWidth && cell.textContent; }})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium_path(), tmp_path_factory.mktemp("profile"), "about:blank") as opened:
        yield opened


@asynccontextmanager
async def served(settings: SmapSettings, *posts: dict[str, Any]) -> AsyncIterator[tuple[str, SmapParts]]:
    async with open_parts(settings) as parts:
        for project in ("p", "empty", LONG):
            await parts.database.rows("truth_open", project=project, now=AT)
        await _named(parts.database)
        if posts:
            await store(parts.database, *posts)
        async with serving(application(Options("insight"), report_routes(parts))) as address:
            yield address.url, parts


async def _named(database: Database) -> None:
    order = {"project": "p", "digest": "d"}
    about = {"name": HOSTILE, "posts_max": None, "parent": None, "now": AT}
    columns = {"keywords": ["VF3"], "targets": [], "date_range": ["2025-01-01", "2025-01-04"], "status": "DONE"}
    await database.transact(("order_insert", {**order, **about}), ("order_project", {**order, **columns}))


def hostile(number: int) -> dict[str, Any]:
    """Posts whose every word is a stranger's."""
    return post(
        number,
        text=f"{HOSTILE} {number}",
        author_name=f"{HOSTILE} {number % 3}",
        platform=("tiktok", HOSTILE)[number % 2],
        phrases=[HOSTILE],
        hashtags=["VF3"],
        simulated=number == 5,
        engagement=None,
        impact=None,
        missing=["likes"],
    )


def looked_at(browser: Browser, url: str) -> None:
    browser.said.clear()
    browser.open(url)
    for width, scheme in SIZES:
        browser.narrow(width)
        browser.prefer(scheme)
        assert browser.run("document.documentElement.scrollWidth") == width, url
        assert browser.run(CUT) == [], (url, width)
        assert browser.run(OVERLAPPING) == [], (url, width)
        assert browser.violations() == [], (url, width, scheme)
    assert browser.said == [], url


async def test_axe_finds_nothing_on_any_page_in_any_language(browser: Browser, embedded: SmapSettings) -> None:
    async with served(embedded, *map(hostile, range(40))) as (url, _):
        for page in ("", "projects/p/report", "projects/p/posts", "projects/empty/report", "projects/empty/posts"):
            for language in ("en", "vi"):
                await asyncio.to_thread(looked_at, browser, f"{url}/{page}?language={language}&beside={LONG}")
        words = await asyncio.to_thread(browser.run, "document.title")
        assert words == "Bài viết · empty · smap"


async def test_a_tile_leads_to_its_posts_and_filters_narrow_them(browser: Browser, embedded: SmapSettings) -> None:
    async with served(embedded, *(post(number) for number in range(90))) as (url, _):

        def walk() -> None:
            browser.narrow(390)
            browser.open(f"{url}/projects/p/report")
            assert HOSTILE in browser.run("document.title")
            link = browser.run("document.querySelector('.tiles a[href*=negative]').href")
            browser.open(link)
            assert browser.run(OUTPUT) == "1 to 29 of 29 rows"
            assert browser.run(SEEN.format(rows=ROWS)) == ["▲ negative", "○ low"]
            browser.scripts(False)
            browser.open(f"{url}/projects/p/posts?posts.any=pin+yeu&posts.page=1")
            browser.scripts(True)
            assert browser.run(OUTPUT) == "1 to 30 of 30 rows"

        await asyncio.to_thread(walk)


async def test_the_file_stands_alone_with_5_000_posts(browser: Browser, tmp_path: Path, embedded: SmapSettings) -> None:
    async with served(embedded, *(post(number) for number in range(5_001))) as (url, _):
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            answer = await client.get(f"{url}/projects/p/report.html?language=en")
        assert answer.headers["content-disposition"] == 'attachment; filename="report-p.html"'
        assert len(answer.content) < 6_000_000
        (tmp_path / "report.html").write_bytes(answer.content)

        def walk() -> None:
            browser.said.clear()
            browser.narrow(1_440)
            browser.open((tmp_path / "report.html").as_uri())
            assert browser.run(OUTPUT) == "5,000 of 5,000 rows"
            assert "The 5,000 posts of the greatest risk, of 5,001." in browser.run("document.body.textContent")
            browser.run("document.querySelector('.tiles a[href*=RISKY]').click()")
            assert browser.run(OUTPUT) == "1 of 5,000 rows"
            browser.run(
                "document.querySelector('#days .plot a rect').dispatchEvent(new Event('click', {bubbles: true}))"
            )
            assert browser.run(OUTPUT) == "1,251 of 5,000 rows"
            assert browser.run("document.querySelectorAll('a[href^=\"posts\"], a[href^=report]').length") == 0
            assert browser.said == []

        await asyncio.to_thread(walk)


async def test_the_command_writes_the_file(
    embedded: SmapSettings, tmp_path: Path, headrace_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    async with served(embedded, *map(hostile, range(3))):
        pass

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return headrace_command("smap", "report", *words, SMAP_HOME=str(embedded.home))

    assert (await asyncio.to_thread(run, "p", "--language", "vi", "--beside", "empty")).returncode == 0
    text = (tmp_path / "report-p.html").read_text("utf-8")
    assert '<html lang="vi">' in text
    assert "So sánh dự án" in text
    assert (await asyncio.to_thread(run, "nobody")).returncode == 3
    assert "--language en or vi" in (await asyncio.to_thread(run, "p", "--language", "fr")).stderr
    assert (await asyncio.to_thread(run, "p", str(tmp_path / "missing" / "r.html"))).returncode != 0


async def test_a_page_speaks_the_language_of_the_browser_unless_told(embedded: SmapSettings) -> None:
    async with served(embedded, post(1)) as (url, _), httpx.AsyncClient(trust_env=False, base_url=url) as client:
        said = {}
        for accepted, query in (("vi-VN,vi;q=0.9,en", ""), ("fr, en", ""), ("vi", "?language=en"), ("", "?language=x")):
            answer = await client.get(f"/projects/p/report{query}", headers={"accept-language": accepted})
            said[accepted, query] = answer.text.partition('<html lang="')[2][:2]
            assert answer.headers["vary"] == "Accept-Language"
            assert "script-src 'sha256-" in answer.headers["content-security-policy"]
        assert list(said.values()) == ["vi", "en", "en", "en"]
        for page in ("report", "posts", "report.html"):
            assert (await client.get(f"/projects/nobody/{page}")).status_code == 404
