"""Nothing is made up unless somebody asks for it, and what is made up says so wherever it is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from collector_running import collecting, order, sealed
from smap_office import Office, open_office

from headrace_smap.collector.routes import crawl_report
from headrace_smap.insight.report.content import gather
from headrace_smap.insight.report.page import report_page
from headrace_smap.insight.report.projects_page import projects_page
from headrace_smap.settings import SmapSettings

NOWHERE = {"platform": "tiktok", "url": "https://www.tiktok.com/@vinfast"}
PLACEHOLDER = re.compile(r'<textarea name="targets"[^>]* placeholder="(\S+) (\S+)"')
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def plain(embedded: SmapSettings) -> SmapSettings:
    """As somebody has it who has set nothing."""
    environment = {name: value for name, value in embedded.environment.items() if name != "SMAP_SIMULATED"}
    return replace(embedded, environment=environment)


def asking(plain: SmapSettings, **variables: str) -> SmapSettings:
    return replace(plain, environment={**plain.environment, **variables})


@pytest.fixture
async def office(plain: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(plain) as opened:
        yield opened


@pytest.mark.parametrize(
    ("targets", "platforms"),
    [
        ([NOWHERE], "tiktok"),
        ([{"url": "https://www.youtube.com/@vinfast"}, {"platform": "feed", "url": "https://h/f"}], "youtube"),
        ([{"platform": "facebook"}, NOWHERE, NOWHERE], "facebook, tiktok"),
    ],
)
async def test_a_platform_that_only_a_simulation_serves_is_refused(
    targets: list[dict[str, str]], platforms: str, office: Office
) -> None:
    answer = await office.client.post("/projects", json={"keywords": ["VinFast"], "targets": targets})
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (422, "urn:headrace:problem:invalid")
    assert problem["detail"] == f"nothing serves {platforms}: such posts could only be made up"
    for way_out in ('{"platform": "feed", "url": "https://…"}', "SMAP_CRAWLERS", "recipes", "SMAP_SIMULATED=1"):
        assert way_out in problem["hint"]
    assert (await office.client.get("/projects")).json()["items"] == []


async def test_an_order_without_a_place_to_search_is_refused(office: Office) -> None:
    answer = await office.client.post("/projects", json={"keywords": ["VinFast"]})
    assert (answer.status_code, "none to search" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("crawlers", "platform", "url", "status"),
    [
        ("", "news", "", 422),
        ("", "news", "https://x.vn/rss", 201),
        ("news=feed:https://x.vn/?q={keyword}", "news", "", 201),
        ("facebook=feed:#recipe=graph", "facebook", "", 422),
        ("facebook=feed:#recipe=graph", "facebook", "https://www.facebook.com/VinFast", 201),
        ("youtube=feed:#recipe=youtube-data", "youtube", "", 201),
        ("news=ours", "news", "", 201),
    ],
)
async def test_a_feed_that_could_only_fail_is_refused(
    plain: SmapSettings, crawlers: str, platform: str, url: str, status: int
) -> None:
    async with open_office(asking(plain, SMAP_CRAWLERS=crawlers)) as office:
        target = {"platform": platform, "url": url} if url else {"platform": platform}
        answer = await office.client.post("/projects", json={"keywords": ["VinFast"], "targets": [target]})
        assert answer.status_code == status, answer.text
        if status == 422:
            assert answer.json()["detail"] == f"{platform}: read at addresses only, and the order names none"
            assert "SMAP_CRAWLERS" in answer.json()["hint"]


async def test_the_placeholder_of_the_form_is_an_order_that_works(office: Office) -> None:
    front = await office.client.get("/")
    shown = PLACEHOLDER.search(front.text)
    assert shown
    target = {"platform": shown[1], "url": shown[2]}
    answer = await office.client.post("/projects", json={"keywords": ["VinFast"], "targets": [target]})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("asked", [{"SMAP_SIMULATED": "1"}, {"SMAP_CRAWLERS": "*=simulated"}])
async def test_a_simulation_that_was_asked_for_is_served_under_a_banner(
    asked: dict[str, str], plain: SmapSettings
) -> None:
    async with open_office(asking(plain, **asked)) as office:
        answer = await office.client.post("/projects", json={"keywords": ["VinFast"], "targets": [NOWHERE]})
        assert answer.status_code == 201, answer.text
        assert 'class="banner" role="note">Simulation is on' in (await office.client.get("/")).text


async def test_without_a_simulation_there_is_no_banner(office: Office) -> None:
    assert "Simulation is on" not in (await office.client.get("/")).text
    assert "{{banner}}" in (resources.files("headrace_smap.project") / "front.html").read_text("utf-8")


async def test_a_project_with_posts_that_are_made_up_says_so_wherever_it_is_shown(embedded: SmapSettings) -> None:
    async with open_office(embedded) as office:
        made_up, genuine = await office.make(), await office.make()
        await office.analyse(made_up, ["raw/1.json"], simulated=True)
        await office.analyse(made_up, ["raw/2.json"])
        await office.analyse(genuine, ["raw/3.json"])
        listed = {row["id"]: row["simulated"] for row in (await office.client.get("/projects")).json()["items"]}
        assert listed == {made_up: True, genuine: False}
        assert (await office.client.get(f"/projects/{made_up}")).json()["simulated"] is True
        database = office.parts.database
        pages = [report_page(report) for name in (made_up, genuine) if (report := await gather(database, name))]
        assert ["1 of 2 posts are simulated." in page for page in pages] == [True, False]
        every = projects_page(await database.rows("report_list", room=9))
        assert ("Some of these projects hold simulated posts." in every, every.count("<b>simulated</b>")) == (True, 1)


def refused(tasks: list[dict[str, Any]]) -> dict[str, str]:
    return {task["task"]: task["error"] for task in tasks if task["state"] == "failed"}


async def test_an_order_of_a_foreign_service_is_refused_too(plain: SmapSettings) -> None:
    async with collecting(plain.environment) as parts:
        await order(parts, "p", keywords=["a", "b"], targets=[NOWHERE], date_range=["2025-01-01", "2025-01-09"])
        assert (await sealed(parts, "p")).total == 0
        ((task, error),) = refused(await crawl_report(parts, "p")).items()
        assert (task, "nothing serves tiktok" in error, "SMAP_SIMULATED=1" in error) == ("tiktok order", True, True)


async def test_what_is_served_of_a_foreign_order_is_crawled(plain: SmapSettings) -> None:
    async with collecting(asking(plain, SMAP_CRAWLERS="forum=simulated:posts=2").environment) as parts:
        await order(parts, "p", keywords=["a"], targets=[NOWHERE, {"platform": "forum"}])
        assert (await sealed(parts, "p")).total == 2
        tasks = await crawl_report(parts, "p")
        assert [(task["platform"], task["state"]) for task in tasks] == [("forum", "done"), ("tiktok", "failed")]


async def test_a_foreign_order_without_a_place_to_search_is_refused(plain: SmapSettings) -> None:
    async with collecting(plain.environment) as parts:
        await order(parts, "p", keywords=["a"])
        assert (await sealed(parts, "p")).total == 0
        assert "none to search" in refused(await crawl_report(parts, "p"))["order"]


def test_the_command_refuses_and_takes_what_was_asked_for(headrace_command: Command, embedded: SmapSettings) -> None:
    for name in [name for name in os.environ if name.startswith("SMAP_")]:
        del os.environ[name]
    place = {"SMAP_HOME": str(embedded.home)}
    days = ("--days", "2025-01-01..2025-01-02")
    nowhere = ("--target", f"{NOWHERE['platform']}={NOWHERE['url']}")
    done = headrace_command("smap", "create", "VinFast", *days, *nowhere, **place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing serves tiktok" in done.stderr
    assert "SMAP_SIMULATED=1" in done.stderr
    done = headrace_command("smap", "create", "VinFast", *days, **place)
    assert (done.returncode, "none to search" in done.stderr) == (2, True)
    for asked, variables in ((("--simulated",), {}), ((), {"SMAP_SIMULATED": "1"})):
        made = headrace_command("smap", "create", "VinFast", *days, *nowhere, *asked, "--json", **place, **variables)
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["project_id"]
