"""Where projects are looked at: links in answers and on the page, also to a report that another service has."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from browser import Browser, chromium_path
from smap_office import Office, open_office
from waiting import eventually

from headrace.errors import CallerError
from headrace.http import Options, application, serving
from headrace_smap.count.accountant import ItemEnd
from headrace_smap.frame import FRAME
from headrace_smap.project.front import front_routes
from headrace_smap.project.links import LinkedReader, Links
from headrace_smap.project.routes import project_routes
from headrace_smap.project.stream import watch_newest
from headrace_smap.settings import SmapSettings

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ADDRESS = "https://insight.example/projects/{project}/report?from=\"'<b>&x={project}"
OWN = {"progress", "stream", "failures", "export"}
SHOWN = """
[...document.querySelectorAll("li")].map(row => ({
  name: row.querySelector(".name").textContent,
  words: [...row.querySelectorAll("button, .acts > a")].filter(one => !one.hidden).map(one => one.textContent),
  report: row.querySelector(".acts > a").getAttribute("href"),
}))
"""


def with_reports(settings: SmapSettings, address: str = ADDRESS) -> SmapSettings:
    return replace(settings, report_url=address)


async def answered(office: Office) -> list[dict[str, str]]:
    """The links of one project, as every route tells them."""
    made = (await office.client.post("/projects", json={"keywords": ["VF3"], "id": "mine"})).json()
    (listed,) = (await office.client.get("/projects")).json()["items"]
    return [made["links"], listed["links"], (await office.client.get("/projects/mine")).json()["links"]]


async def test_a_report_is_among_the_links_if_its_address_is_known(embedded: SmapSettings) -> None:
    async with open_office(with_reports(embedded)) as office:
        for links in await answered(office):
            assert set(links) == {*OWN, "report"}
            assert links["report"] == ADDRESS.replace("{project}", "mine")
        reader = LinkedReader(office.desk, Links(office.parts.settings.report_url))
        stream = watch_newest(reader, "")
        assert "insight.example/projects/mine/report" in (await anext(stream)).data
        await stream.aclose()


async def test_without_its_address_there_is_no_link_to_a_report(embedded: SmapSettings) -> None:
    async with open_office(embedded) as office:
        for links in await answered(office):
            assert links == {**links, "progress": "/projects/mine/progress"}
            assert set(links) == OWN


def test_an_id_cannot_change_where_a_link_leads() -> None:
    links = Links("http://h/projects/{project}/report")
    assert links.of('a/../b?c#"đ')["report"] == "http://h/projects/a%2F..%2Fb%3Fc%23%22%C4%91/report"


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert('{project}')",
        "ftp://host/{project}",
        "//host/{project}",
        "http://host/report",
        "http://{project}/report",
        "http://user:secret@host/{project}",
        "http://host/a b/{project}",
        "http:///{project}",
    ],
)
def test_what_is_no_address_of_a_report_is_refused(address: str) -> None:
    with pytest.raises(CallerError, match="SMAP_REPORT_URL") as refused:
        FRAME.load({"SMAP_REPORT_URL": address})
    assert "secret" not in f"{refused.value}{refused.value.hint}"


def test_the_service_does_not_start_with_a_wrong_address(headrace_command: Command, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("SMAP_")]:
        del os.environ[name]
    done = headrace_command("smap", "project", "--port", "0", SMAP_HOME=str(tmp_path), SMAP_REPORT_URL="javascript:1")
    assert (done.returncode, "SMAP_REPORT_URL" in done.stderr) == (2, True)


async def cancelled_with_an_error(office: Office) -> None:
    project = await office.make(name="cancelled")
    accountant = office.desk.accountant
    await accountant.expect(project, 2)
    await accountant.settle([ItemEnd(project, "raw/a.json", False, "invalid_json", b"")])
    assert await accountant.cancel(project)


@pytest.mark.parametrize("reports", [True, False])
async def test_the_page_offers_what_can_be_done(reports: bool, tmp_path: Path, embedded: SmapSettings) -> None:
    chromium = chromium_path()
    async with open_office(with_reports(embedded) if reports else embedded) as office:
        routers = [front_routes(False), *project_routes(office.desk)]
        done = await office.make(name="done")
        await office.crawl(done, ["raw/a.json"], ["raw/b.json"])
        await cancelled_with_an_error(office)
        more = ["Report"] if reports else []
        address = ADDRESS.replace("{project}", done) if reports else None
        async with serving(application(Options("project"), routers)) as served:
            with await asyncio.to_thread(Browser, chromium, tmp_path / "profile", f"{served.url}/") as browser:

                async def shown() -> bool:
                    rows = {row["name"]: row for row in await asyncio.to_thread(browser.run, SHOWN) or []}
                    return (
                        set(rows) == {"done", "cancelled"}
                        and rows["done"]["words"] == [*more, "Retry errors", "Delete"]
                        and rows["done"]["report"] == address
                        and rows["cancelled"]["words"] == [*more, "Delete"]
                    )

                await eventually(shown, "each row has its links and buttons")
                assert browser.said == []
