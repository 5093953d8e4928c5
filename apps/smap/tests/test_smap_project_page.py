"""The page at `/` in a browser: it lists, moves, orders and deletes, and its policy lets nothing else in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, chromium_path
from smap_office import Office, open_office
from waiting import eventually

from headrace.http import Options, application, serving
from headrace.pages import Document, response
from headrace_smap.count.progress_routes import progress_routes
from headrace_smap.project.front import front_routes
from headrace_smap.project.routes import project_routes
from headrace_smap.settings import SmapSettings

HOSTILE = '<img src=x onerror="alert(1)"> & Cổ phiếu'
LIST = "[...document.querySelectorAll('li')].map(row => row.innerText)"
MADE_UP = "(document.body.innerText.match(/hold simulated posts/) || [''])[0]"
ORDER = """
document.querySelector("[name=keywords]").value = "VinFast, VF3";
document.querySelector("[name=targets]").value = "tiktok https://www.tiktok.com/@a\\nyoutube";
document.querySelector("[name=first]").value = "2025-01-01";
document.querySelector("[name=last]").value = "2025-01-02";
document.querySelector("[name=mail]").value = "an@x.vn, binh@x.vn";
document.querySelector("form button").click();
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    return chromium_path()


@asynccontextmanager
async def served(office: Office) -> AsyncIterator[str]:
    routers = [front_routes(False), *project_routes(office.desk), progress_routes(office.parts)]

    @routers[0].get("/foreign")
    async def foreign() -> Any:
        html = "<!doctype html><p style='color: red' onclick='x()'>a</p><script>let a = 1</script>"
        return response(Document.bundled(html))

    async with serving(application(Options("project"), routers)) as address:
        yield address.url


async def test_people_order_watch_and_delete_projects_in_a_browser(
    chromium: str, tmp_path: Path, embedded: SmapSettings
) -> None:
    async with open_office(embedded) as office, served(office) as url:
        first = await office.make(name=HOSTILE)
        browser = await asyncio.to_thread(Browser, chromium, tmp_path / "profile", f"{url}/")
        with browser:

            async def sees(*words: str) -> bool:
                rows = await asyncio.to_thread(browser.run, LIST)
                return any(all(word in row for word in words) for row in rows or [])

            await eventually(lambda: sees(HOSTILE, "waiting", "0 %"), "the project is listed")
            await office.crawl(first, ["raw/a.json", "raw/b.json", "raw/c.json"], ["raw/d.json"])
            await eventually(lambda: sees(HOSTILE, "done", "100 %", "4 of 4 posts", "1 error"), "it moves")
            assert await asyncio.to_thread(browser.run, "document.querySelector('progress').value") == 100
            assert await asyncio.to_thread(browser.run, MADE_UP) == ""
            await office.analyse(first, ["raw/a.json"], simulated=True)
            await eventually(lambda: sees(HOSTILE, "simulated posts"), "what is made up is marked")
            assert await asyncio.to_thread(browser.run, MADE_UP) == "hold simulated posts"
            assert "1 with errors" in await asyncio.to_thread(browser.run, "document.body.innerText")
            office.calendar.advance(minutes=1)
            await asyncio.to_thread(browser.run, ORDER)
            await eventually(lambda: sees("VinFast, VF3", "2025-01-01 to 2025-01-02"), "the order is a project")
            (made, _) = (await office.client.get("/projects")).json()["items"]
            assert made["targets"] == [
                {"platform": "tiktok", "url": "https://www.tiktok.com/@a"},
                {"platform": "youtube", "url": ""},
            ]
            shown = (await office.client.get(f"/projects/{made['id']}")).json()
            assert shown["receivers"] == {"mail": ["an@x.vn", "binh@x.vn"]}
            for width in (360, 1_280):
                await asyncio.to_thread(browser.narrow, width)
                wide = await asyncio.to_thread(browser.run, "document.documentElement.scrollWidth")
                assert wide <= width
                assert await asyncio.to_thread(browser.violations) == []
            delete = "confirm = () => true; [...document.querySelectorAll('li:last-child button')].at(-1).click()"
            await asyncio.to_thread(browser.run, delete)
            await eventually(lambda: _gone(office, first), "it is deleted")
            assert browser.said == []


async def test_the_page_is_there_in_vietnamese_with_times_of_its_zone(
    chromium: str, tmp_path: Path, embedded: SmapSettings
) -> None:
    async with open_office(embedded) as office, served(office) as url:
        project = await office.make(name=HOSTILE)
        await office.crawl(project, ["raw/a.json"], ["raw/b.json"])
        browser = await asyncio.to_thread(Browser, chromium, tmp_path / "profile", f"{url}/?language=vi")
        with browser:

            async def listed() -> list[str]:
                return [row for row in await asyncio.to_thread(browser.run, LIST) if HOSTILE in row]

            await eventually(listed, "the project is listed")
            (row,) = await listed()
            for words in ("đã xong", "100 %", "2 / 2 bài", "1 bài lỗi", "Asia/Ho_Chi_Minh", "Thử lại bài lỗi", "Xóa"):
                assert words in row
            page = await asyncio.to_thread(browser.run, "document.body.innerText")
            assert "Không có dự án nào đang chạy, 1 dự án có lỗi." in page
            assert "English" in page
            # It is half past midnight of the next day in Vietnam.
            dated = await asyncio.to_thread(browser.run, "clock.format(new Date('2025-01-01T17:30:00Z'))")
            assert "2/1/25" in dated
            assert await asyncio.to_thread(browser.violations) == []
            assert browser.said == []


@pytest.mark.parametrize(
    ("address", "accepted", "title"),
    [
        ("/", "vi-VN,vi;q=0.9,en;q=0.8", "Dự án smap"),
        ("/", "fr", "smap projects"),
        ("/?language=en", "vi", "smap projects"),
        ("/?language=%3Cb%3E", "vi", "Dự án smap"),
    ],
)
async def test_the_language_is_that_of_the_address_or_of_the_browser(
    embedded: SmapSettings, address: str, accepted: str, title: str
) -> None:
    async with open_office(embedded) as office:
        page = (await office.client.get(address, headers={"Accept-Language": accepted})).text
        assert f"<title>{title}</title>" in page
        assert "{{" not in page


async def _gone(office: Office, project: str) -> bool:
    return (await office.client.get(f"/projects/{project}")).status_code == 404


async def test_what_a_page_does_not_bring_along_is_not_run(
    chromium: str, tmp_path: Path, embedded: SmapSettings
) -> None:
    async with open_office(embedded) as office, served(office) as url:
        browser = await asyncio.to_thread(Browser, chromium, tmp_path / "profile", f"{url}/foreign")
        with browser:

            async def complains() -> bool:
                await asyncio.to_thread(browser.run, "1")
                return any("Content Security Policy" in words for words in browser.said)

            await eventually(complains, "the policy is kept")
            colour = await asyncio.to_thread(browser.run, "getComputedStyle(document.querySelector('p')).color")
            assert colour == "rgb(0, 0, 0)"
