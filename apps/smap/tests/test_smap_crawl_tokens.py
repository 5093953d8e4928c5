"""A token goes to the host of the address that the setting names and nowhere else, and no project can reach one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from crawl_site import Reply, Request, Site, open_site

from headrace.errors import CallerError
from headrace_smap.collector.crawlers.feed import open_feed
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import PoliteFetcher
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.tasks import CrawlFailed, CrawlTask, Page
from headrace_smap.collector.wishes import Choice, CrawlWishes, read_wishes

TOKEN = "EAAB/secret+of|ours=123"
HEADER = "header=Authorization: Bearer env:SMAP_TOKEN_X"
TASK = CrawlTask("p", "t", "news", "VinFast")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest.fixture
async def other() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def crawled(argument: str, task: CrawlTask = TASK, **given: Any) -> list[Page]:
    environment = {"SMAP_TOKEN_X": TOKEN, "SMAP_PG_DSN": "postgresql://user:password@host/db"}
    wishes = CrawlWishes((), {}, **{"private": True, "interval_s": 0.0, "environment": environment, **given})
    kit = CrawlKit(wishes, PoliteFetcher(wishes))
    try:
        return [page async for page in open_feed(argument, kit).pages(task, None)]
    finally:
        await kit.fetcher.close()


def granted(site: Site) -> list[str]:
    """The paths that were asked for with the token."""
    return [request.path for request in site.requests if TOKEN in request.headers.get("authorization", "")]


def items(*ids: str, **more: Any) -> Reply:
    return Reply(json.dumps({"items": [{"id": each, "text": "VinFast"} for each in ids], **more}).encode())


async def test_the_address_of_the_setting_gets_the_token_and_robots_does_not(site: Site) -> None:
    site.pages["/api"] = items("1")
    await crawled(f"{site.url}/api#{HEADER}")
    assert granted(site) == ["/api"]
    assert [request.path for request in site.requests] == ["/robots.txt", "/api"]


async def test_the_address_of_a_target_gets_no_token_even_at_the_same_host(site: Site) -> None:
    """Otherwise whoever orders a project could read what only the token can, such as other tokens."""
    site.pages["/me/accounts"] = items("1")
    task = CrawlTask("p", "t", "news", url=f"{site.url}/me/accounts")
    (page,) = await crawled(f"{site.url}/api#{HEADER}", task)
    assert ([post.id for post in page.posts], granted(site)) == (["1"], [])


async def test_options_in_the_address_of_a_target_name_no_variable(site: Site) -> None:
    site.pages["/mine"] = items("1")
    task = CrawlTask("p", "t", "news", url=f"{site.url}/mine#header=X: env:SMAP_TOKEN_X&recipe=graph&robots=ignore")
    await crawled("", task)
    assert [request.path for request in site.requests] == ["/robots.txt", "/mine"]
    assert granted(site) == []


async def test_a_redirect_to_another_host_takes_no_token_along(site: Site, other: Site) -> None:
    site.pages["/api"] = Reply(status=302, headers={"Location": f"{other.url}/stolen"})
    other.pages["/stolen"] = items("1")
    await crawled(f"{site.url}/api#{HEADER}")
    assert (granted(site), other.asked(), granted(other)) == (["/api"], ["/stolen"], [])


async def test_a_next_link_to_another_host_takes_no_token_along(site: Site, other: Site) -> None:
    site.pages["/api"] = items("1", next=f"{other.url}/stolen")
    other.pages["/stolen"] = items("2")
    assert len(await crawled(f"{site.url}/api#{HEADER}")) == 2
    assert (other.asked(), granted(other)) == (["/stolen"], [])


@pytest.mark.parametrize("form", [TOKEN, "EAAB%2Fsecret%2Bof%7Cours%3D123", "EAAB%2fsecret%2bof%7cours%3d123"])
async def test_a_token_that_an_answer_repeats_is_not_kept(site: Site, form: str) -> None:
    def answer(request: Request) -> Reply:
        if "page=2" in request.path:
            return items("2")
        return items("1", next=f"/api?page=2&access_token={form}", echo={"token": TOKEN})

    site.routes = {"/api": answer}
    site.pages["/api"] = answer
    pages = await crawled(f"{site.url}/api#{HEADER}")
    assert [post.id for page in pages for post in page.posts] == ["1", "2"]
    assert site.asked() == ["/api", "/api?page=2"]
    assert "secret" not in repr(pages)


async def test_robots_is_left_aside_for_the_host_of_the_setting_alone(site: Site, other: Site) -> None:
    for each in (site, other):
        each.pages["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /")
    site.pages["/api"] = items("1")
    assert len(await crawled(f"{site.url}/api#robots=ignore")) == 1
    for url in (f"{other.url}/api", f"{site.url}/other"):
        with pytest.raises(CrawlFailed, match=r"robots\.txt"):
            await crawled(f"{site.url}/api#robots=ignore", CrawlTask("p", "t", "news", url=url))
    with pytest.raises(CrawlFailed, match=r"robots\.txt"):
        await crawled(f"{site.url}/api#{HEADER}")


async def test_a_failure_does_not_tell_the_token(site: Site) -> None:
    site.pages["/api"] = Reply(f'{{"error": "{TOKEN} is not valid"}}'.encode(), 401)
    with pytest.raises(CrawlFailed) as raised:
        await crawled(f"{site.url}/api#{HEADER}")
    assert "secret" not in str(raised.value)


REFUSED = [
    ("https://h/#header=Authorization: Bearer env:SMAP_PG_DSN", "SMAP_TOKEN_…, not from SMAP_PG_DSN"),
    ("https://h/#header=Authorization: Bearer env:PATH", "not from PATH"),
    ("https://h/#header=Authorization: Bearer env:XSMAP_TOKEN_X", "not from XSMAP_TOKEN_X"),
    ("https://h/#header=Authorization: Bearer 1234-secret", "NAME: … env:VARIABLE"),
    ("https://h/#header=Host: env:SMAP_TOKEN_X", "NAME: … env:VARIABLE"),
    ("https://h/#header=A: b%0d%0aC: env:SMAP_TOKEN_X", "NAME: … env:VARIABLE"),
    ("https://h/#header=A: env:SMAP_TOKEN_NONE", "SMAP_TOKEN_NONE is not set"),
    ("https://h/#header=A: env:SMAP_TOKEN_SHORT", "SMAP_TOKEN_SHORT is no token"),
    ("https://h/#header=A: env:SMAP_TOKEN_LINES", "SMAP_TOKEN_LINES is no token"),
    ("http://h/#header=A: env:SMAP_TOKEN_X", "read on the way"),
    ("https://{platform}.h/#header=A: env:SMAP_TOKEN_X", "one host"),
    ("#header=A: env:SMAP_TOKEN_X", "needs an address"),
    ("file:///a#robots=ignore", "needs an address"),
    ("https://h/#robots=never", "ask or ignore"),
    ("https://h/#recipe=tiktok", "no recipe 'tiktok'"),
    ("https://h/#details=x", "details and details_id together"),
    ("#recipe=youtube-data", "SMAP_TOKEN_YOUTUBE is not set"),
]


@pytest.mark.parametrize(("argument", "words"), REFUSED)
def test_a_header_that_cannot_work_is_refused_at_the_start_without_its_token(argument: str, words: str) -> None:
    tokens = {"SMAP_TOKEN_X": TOKEN, "SMAP_TOKEN_SHORT": "secret", "SMAP_TOKEN_LINES": "secret\nof ours"}
    environment = {**tokens, "SMAP_PG_DSN": "postgresql://u:secret@h/d", "PATH": "/secret"}
    wishes = CrawlWishes((), {"news": Choice("feed", argument)}, environment=environment)
    with pytest.raises(CallerError, match=words.replace("(", r"\(")) as raised:
        Crawlers(wishes).check()
    assert "secret" not in f"{raised.value} {raised.value.hint}"


def test_what_the_settings_show_holds_no_token() -> None:
    wishes = read_wishes({"SMAP_TOKEN_X": TOKEN, "SMAP_CRAWLERS": f"news=feed:https://h/#{HEADER}"})
    assert TOKEN not in repr(wishes)
    assert "env:SMAP_TOKEN_X" in repr(wishes)
