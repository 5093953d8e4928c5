"""Fetching is polite, bounded, and never reaches what only we can reach."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import pytest
from crawl_site import Reply, Request, Site, open_site

from headrace_smap.collector.crawlers.addresses import checked_place, is_public
from headrace_smap.collector.crawlers.polite_fetcher import HostPace, PoliteFetcher, patience
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.tasks import CrawlBusy, CrawlFailed, CrawlLater, CrawlTask
from headrace_smap.collector.wishes import Choice, CrawlWishes


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


def wishes(**given: Any) -> CrawlWishes:
    return CrawlWishes((), {}, **{"private": True, "interval_s": 0.0, "timeout_s": 5.0, **given})


async def fetched(url: str, **given: Any) -> bytes:
    fetcher = PoliteFetcher(wishes(**given))
    try:
        return (await fetcher.fetch(url)).body
    finally:
        await fetcher.close()


async def test_a_page_is_fetched_under_its_own_name(site: Site) -> None:
    site.pages["/a?x=1"] = Reply(b"hello")
    url = site.url.replace("127.0.0.1", "localhost")
    assert await fetched(f"{url}/a?x=1#part", agent="tester/1") == b"hello"
    request = site.requests[-1]
    assert request.headers["host"].startswith("localhost:")
    assert request.headers["user-agent"] == "tester/1"


async def test_this_machine_and_private_networks_are_refused(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", "2130706433", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"):
        with pytest.raises(CrawlFailed, match="SMAP_CRAWL_PRIVATE") as refused:
            await fetched(f"http://{host}:{port}/", private=False)
        # Whoever orders a project reads this: it must not tell where a name leads within our network.
        assert not re.search(r"127\.|::1|0\.0", str(refused.value)), refused.value
    assert site.requests == []


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
        *("::1", "fe80::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "ff02::1", "::"),
    ],
)
def test_an_address_that_only_we_reach_is_not_public(address: str) -> None:
    assert not is_public(address)


def test_an_address_of_everybody_is_public() -> None:
    assert all(map(is_public, ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822")))


async def test_what_is_checked_is_what_is_connected_to() -> None:
    place = await checked_place("http://localhost:81/a?b=1#c", private=True)
    assert place.url in ("http://127.0.0.1:81/a?b=1", "http://[::1]:81/a?b=1")


async def test_a_redirect_is_checked_like_any_address(site: Site) -> None:
    site.pages["/old"] = Reply(status=302, headers={"Location": "/new"})
    site.pages["/new"] = Reply(b"here")
    assert await fetched(f"{site.url}/old") == b"here"
    for target, words in (("file:///etc/passwd", "http://"), ("ftp://h/", "http://"), ("http://u@h/", "user name")):
        site.pages["/old"] = Reply(status=302, headers={"Location": target})
        with pytest.raises(CrawlFailed, match=words):
            await fetched(f"{site.url}/old")


async def test_redirects_in_a_circle_end(site: Site) -> None:
    site.pages["/a"] = Reply(status=301, headers={"Location": "/a"})
    with pytest.raises(CrawlFailed, match="REDIRECTS_MAX"):
        await fetched(f"{site.url}/a")


async def test_what_robots_forbid_is_not_asked_for(site: Site) -> None:
    site.pages["/robots.txt"] = Reply(b"User-agent: headrace\nDisallow: /private\n\nUser-agent: *\nDisallow: /")
    site.pages["/open"] = site.pages["/private/x"] = Reply(b"x")
    fetcher = PoliteFetcher(wishes())
    assert (await fetcher.fetch(f"{site.url}/open")).body == b"x"
    with pytest.raises(CrawlFailed, match=r"robots\.txt"):
        await fetcher.fetch(f"{site.url}/private/x")
    await fetcher.close()
    assert [request.path for request in site.requests] == ["/robots.txt", "/open"]


async def test_robots_that_cannot_be_read_now_are_waited_for(site: Site) -> None:
    site.pages["/robots.txt"] = Reply(status=503)
    site.pages["/x"] = Reply(b"x")
    with pytest.raises(CrawlLater, match=r"robots\.txt"):
        await fetched(f"{site.url}/x")
    assert site.asked() == []


async def test_requests_to_one_host_keep_their_distance(site: Site) -> None:
    for number in range(3):
        site.pages[f"/{number}"] = Reply(b"x")
    fetcher = PoliteFetcher(wishes(interval_s=0.3))
    await asyncio.gather(*(fetcher.fetch(f"{site.url}/{number}") for number in range(3)))
    await fetcher.close()
    at = [request.at for request in site.requests if request.path != "/robots.txt"]
    assert at[2] - at[0] >= 0.4


async def test_turns_at_one_host_begin_at_a_distance_and_others_do_not_wait() -> None:
    pace, began = HostPace(), list[tuple[str, float]]()

    async def take_turn(origin: str) -> None:
        async with pace.turn(origin, 0.1):
            began.append((origin, asyncio.get_running_loop().time()))

    await asyncio.gather(*(take_turn(origin) for origin in ("a", "a", "a", "b")))
    assert [origin for origin, _ in began] == ["a", "b", "a", "a"]
    own = [at for origin, at in began if origin == "a"]
    assert min(later - sooner for sooner, later in pairwise(own)) >= 0.099


async def test_a_host_that_asks_for_more_distance_gets_it(site: Site) -> None:
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nCrawl-delay: 1")
    site.pages["/a"] = site.pages["/b"] = Reply(b"x")
    fetcher = PoliteFetcher(wishes(interval_s=0.0))
    await fetcher.fetch(f"{site.url}/a")
    await fetcher.fetch(f"{site.url}/b")
    await fetcher.close()
    assert site.requests[2].at - site.requests[1].at >= 0.7


async def test_crawlers_of_one_process_share_their_distance(site: Site) -> None:
    site.pages["/a"] = site.pages["/b"] = Reply(b"[]")
    choices = {name: Choice("feed", f"{site.url}/{name}") for name in ("a", "b")}
    crawlers = Crawlers(CrawlWishes((), choices, private=True, interval_s=0.3))
    task = CrawlTask("p", "t", "news", "x")

    async def crawl(name: str) -> None:
        assert [page.posts async for page in crawlers.serving(name).pages(task, None)] == [[]]

    await asyncio.gather(crawl("a"), crawl("b"))
    await crawlers.close()
    first, second = (request.at for request in site.requests if request.path != "/robots.txt")
    assert second - first >= 0.15


async def test_nobody_stands_in_line_for_a_host_that_wants_a_long_pause(site: Site) -> None:
    site.pages["/a"] = Reply(status=503, headers={"Retry-After": "50"})
    fetcher = PoliteFetcher(wishes())
    with pytest.raises(CrawlLater):
        await fetcher.fetch(f"{site.url}/a")
    with pytest.raises(CrawlBusy) as raised:
        await fetcher.fetch(f"{site.url}/a")
    await fetcher.close()
    assert 40 < raised.value.after_s <= 50


async def test_robots_that_go_on_for_ever_are_read_as_far_as_agreed(site: Site) -> None:
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /no\n" + b"# and so on\n" * 100_000)
    site.pages["/yes"] = Reply(b"x")
    assert await fetched(f"{site.url}/yes") == b"x"
    with pytest.raises(CrawlFailed, match="forbids"):
        await fetched(f"{site.url}/no")


async def test_an_answer_over_the_limit_is_not_read(site: Site) -> None:
    site.pages["/large"] = Reply(b"x" * 20_000)
    with pytest.raises(CrawlFailed, match="10,000 bytes"):
        await fetched(f"{site.url}/large", bytes_max=10_000)
    site.pages["/bomb"] = Reply(gzip.compress(b"0" * 5_000_000), headers={"Content-Encoding": "gzip"})
    with pytest.raises(CrawlFailed, match="10,000 bytes"):
        await fetched(f"{site.url}/bomb", bytes_max=10_000)


async def test_what_is_packed_is_unpacked_up_to_the_limit_and_never_twice(site: Site) -> None:
    text = bytes(range(256)) * 2_000
    site.pages["/packed"] = Reply(gzip.compress(text), headers={"Content-Encoding": "gzip"})
    assert await fetched(f"{site.url}/packed", bytes_max=len(text)) == text
    with pytest.raises(CrawlFailed, match="bytes"):
        await fetched(f"{site.url}/packed", bytes_max=len(text) - 1)
    # A few hundred bytes that would be 20 MB in memory before anybody could count them.
    twice = gzip.compress(gzip.compress(b"0" * 20_000_000))
    site.pages["/twice"] = Reply(twice, headers={"Content-Encoding": "gzip, gzip"})
    with pytest.raises(CrawlFailed, match="gzip, gzip"):
        await fetched(f"{site.url}/twice", bytes_max=10_000)
    site.pages["/broken"] = Reply(b"no gzip at all", headers={"Content-Encoding": "gzip"})
    with pytest.raises(CrawlFailed, match="unpacked"):
        await fetched(f"{site.url}/broken")


async def test_a_server_that_asks_for_patience_gets_it(site: Site) -> None:
    site.pages["/busy"] = Reply(status=429, headers={"Retry-After": "7"})
    with pytest.raises(CrawlLater, match="429") as raised:
        await fetched(f"{site.url}/busy")
    assert raised.value.after_s == 7.0


@pytest.mark.parametrize(
    ("status", "kind"), [(500, CrawlLater), (503, CrawlLater), (404, CrawlFailed), (401, CrawlFailed)]
)
async def test_what_may_pass_is_told_from_what_never_will(site: Site, status: int, kind: type[Exception]) -> None:
    site.pages["/x"] = Reply(status=status)
    with pytest.raises(kind, match=str(status)):
        await fetched(f"{site.url}/x")


async def test_a_server_that_hangs_is_left(site: Site) -> None:
    def slow(request: Request) -> Reply:
        return Reply(headers={"Content-Length": "5"}, hangs=True)

    site.pages["/slow"] = slow
    with pytest.raises(CrawlLater):
        await fetched(f"{site.url}/slow", timeout_s=0.2)


async def test_a_host_that_is_not_there_is_asked_later() -> None:
    with pytest.raises(CrawlLater):
        await fetched("http://127.0.0.1:1/")
    with pytest.raises(CrawlLater, match="cannot be resolved"):
        await fetched("http://nowhere.invalid/")


def test_patience_is_said_in_seconds_or_as_a_date() -> None:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    date = format_datetime(datetime(2025, 1, 1, 0, 1, tzinfo=UTC), usegmt=True)
    assert patience("²", 0.0) is None
    assert patience("90", now.timestamp()) == 90.0
    assert patience(date, now.timestamp()) == 60.0
    assert patience("999999", now.timestamp()) == 3_600.0
    assert patience("soon", now.timestamp()) is None
