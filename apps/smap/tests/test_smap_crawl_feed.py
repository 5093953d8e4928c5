"""The feed crawler reads lines of JSON, RSS, Atom and JSON APIs, and keeps what belongs to its task."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from crawl_site import Reply, Request, Site, open_site

from headrace.errors import CallerError
from headrace_smap.collector.crawlers.feed import open_feed
from headrace_smap.collector.crawlers.formats import XML_BYTES_MAX
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import PoliteFetcher
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.tasks import CrawlFailed, CrawlTask, Page
from headrace_smap.collector.wishes import Choice, CrawlWishes

WISHES = CrawlWishes((), {}, private=True, interval_s=0.0)
TASK = CrawlTask("p", "t", "news", "VinFast", start="2025-01-02", end="2025-01-02")
RSS = """<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel><title>News</title>
<item><guid isPermaLink="false">g1</guid><title>Giá VinFast giảm</title><link>https://n.example/1</link>
<description>&lt;p&gt;Rất &lt;b&gt;tốt&lt;/b&gt;&lt;/p&gt;</description>
<pubDate>Thu, 02 Jan 2025 08:00:00 +0700</pubDate></item>
<item><guid isPermaLink="false">g2</guid><title>VINFAST tomorrow</title>
<pubDate>Fri, 03 Jan 2025 08:00:00 GMT</pubDate></item>
<item><guid isPermaLink="false">g3</guid><title>Something else</title>
<pubDate>Thu, 02 Jan 2025 08:00:00 GMT</pubDate></item>
</channel></rss>"""
ATOM = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>A</title>
<entry><id>tag:a1</id><title>VinFast</title><link href="https://a.example/1"/><updated>2025-01-02T01:00:00Z</updated>
<author><name>An</name></author><category term="xe"/><content type="html">hay &amp;amp; đẹp</content></entry></feed>"""


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def pages_of(argument: str, task: CrawlTask = TASK, cursor: str | None = None, **wishes: Any) -> list[Page]:
    given = {name: getattr(WISHES, name) for name in CrawlWishes.__dataclass_fields__}
    settings = CrawlWishes(**{**given, **wishes})
    kit = CrawlKit(settings, PoliteFetcher(settings))
    try:
        return [page async for page in open_feed(argument, kit).pages(task, cursor)]
    finally:
        await kit.fetcher.close()


async def posts_of(argument: str, task: CrawlTask = TASK, **wishes: Any) -> list[dict[str, Any]]:
    return [json.loads(post.body) for page in await pages_of(argument, task, **wishes) for post in page.posts]


async def test_rss_becomes_raw_posts_of_the_day_with_the_keyword(site: Site) -> None:
    site.pages["/feed.xml"] = Reply(RSS.encode(), headers={"Content-Type": "text/html"})
    (post,) = await posts_of(f"{site.url}/feed.xml")
    assert post == {
        "id": "g1",
        "platform": "news",
        "keyword": "VinFast",
        "title": "Giá VinFast giảm",
        "text": "Giá VinFast giảm\nRất tốt",
        "url": "https://n.example/1",
        "published_at": "2025-01-02T01:00:00Z",
    }


async def test_atom_becomes_raw_posts_too(site: Site) -> None:
    site.pages["/atom"] = Reply(ATOM.encode())
    (post,) = await posts_of(f"{site.url}/atom")
    assert (post["id"], post["author"], post["hashtags"]) == ("tag:a1", {"name": "An"}, ["xe"])
    assert post["text"] == "VinFast\nhay & đẹp"


async def test_what_the_address_asked_for_is_not_judged_again(site: Site) -> None:
    site.pages["/s?q=VinFast&day=2025-01-02"] = Reply(RSS.encode())
    posts = await posts_of(f"{site.url}/s?q={{keyword}}&day={{day}}")
    assert [post["id"] for post in posts] == ["g1", "g2", "g3"]


async def test_a_keyword_is_sent_as_it_should_be(site: Site) -> None:
    task = CrawlTask("p", "t", "news", "giá & pin/1", start="2025-01-02", end="2025-01-02")
    site.pages["/s?q=gi%C3%A1%20%26%20pin%2F1"] = Reply(b"[]")
    assert await posts_of(f"{site.url}/s?q={{keyword}}", task) == []


async def test_the_address_of_a_target_gives_its_posts_of_all_the_days(site: Site) -> None:
    site.pages["/feed.xml"] = Reply(RSS.encode())
    url = f"{site.url}/feed.xml#top"
    task = CrawlTask("p", "t", "rss", url=url, start="2025-01-01", end="2025-01-31", keywords=("VF3", "VinFast"))
    posts = await posts_of("", task)
    assert [(post["id"], post["keyword"]) for post in posts] == [("g1", "VinFast"), ("g2", "VinFast"), ("g3", "")]


async def test_a_search_without_an_address_to_search_is_a_task_that_failed() -> None:
    with pytest.raises(CrawlFailed, match="no address is configured for news: SMAP_CRAWLERS='news=feed:https://"):
        await pages_of("")


async def test_a_search_beside_addresses_of_the_project_finds_nothing_and_does_not_fail() -> None:
    assert await pages_of("", CrawlTask("p", "t", "rss", "VinFast", beside=True)) == []


async def test_lines_of_json_keep_their_own_fields_and_what_is_broken(site: Site) -> None:
    lines = [
        '{"id": 7, "message": "vinfast tốt", "created_at": "2025-01-02T10:00:00+07:00", "mood": {"x": 1}}',
        '{"id": "8", "text": "VinFast", "published_at": 1735786800}',
        '{"id": "9", "text": "VinFast", "published_at": "2025-01-03"}',
        '{"id": "10", "text": "VinFast, undated"}',
        '{"id": "11", "text": "cut off',
        "",
    ]
    site.pages["/posts.jsonl"] = Reply("\r\n".join(lines).encode())
    (page,) = await pages_of(f"{site.url}/posts.jsonl")
    assert [post.id for post in page.posts[:3]] == ["7", "8", "10"]
    first = json.loads(page.posts[0].body)
    assert (first["text"], first["mood"], first["message"]) == ("vinfast tốt", {"x": 1}, "vinfast tốt")
    assert page.posts[3].body == lines[4].encode()


async def test_a_long_answer_comes_in_pages_and_is_read_again_until_its_end(site: Site) -> None:
    lines = [json.dumps({"id": str(number), "text": "VinFast"}) for number in range(450)]
    site.pages["/posts.jsonl"] = Reply("\n".join(lines).encode())
    pages = await pages_of(f"{site.url}/posts.jsonl")
    assert [len(page.posts) for page in pages] == [200, 200, 50]
    again = await pages_of("", TASK, pages[1].cursor)
    assert again == pages


async def test_an_api_is_followed_by_its_next_links(site: Site) -> None:
    def page(number: int, following: Any) -> Reply:
        posts = [{"id": f"{number}-{n}", "text": "VinFast"} for n in range(2)]
        return Reply(json.dumps({"data": {"posts": posts}, "paging": {"next": following}}).encode())

    site.pages["/api"] = page(1, "/api?after=2")
    site.pages["/api?after=2"] = page(2, f"{site.url}/api?after=3")
    site.pages["/api?after=3"] = page(3, None)
    argument = f"{site.url}/api#items=data.posts&next=paging.next"
    pages = await pages_of(argument)
    assert [post.id for page in pages for post in page.posts] == ["1-0", "1-1", "2-0", "2-1", "3-0", "3-1"]
    assert pages[-1].cursor is None
    assert await pages_of(argument, TASK, pages[0].cursor) == pages[1:]


async def test_an_api_is_followed_by_numbers_until_a_page_is_empty(site: Site) -> None:
    for number, count in ((1, 2), (2, 1), (3, 0)):
        items = [{"id": f"{number}-{n}", "text": "VinFast"} for n in range(count)]
        site.pages[f"/api?q=VinFast&page={number}"] = Reply(json.dumps({"results": items}).encode())
    posts = await posts_of(f"{site.url}/api?q={{keyword}}#page=page")
    assert [post["id"] for post in posts] == ["1-0", "1-1", "2-0"]
    assert len(site.asked()) == 3


async def test_an_api_is_followed_by_its_cursor(site: Site) -> None:
    first = {"items": [{"id": "1", "text": "a"}], "meta": {"after": "x y"}}
    second = {"items": [{"id": "2", "text": "b"}], "meta": {"after": None}}
    site.pages["/api?q=VinFast"] = Reply(json.dumps(first).encode())
    site.pages["/api?q=VinFast&after=x+y"] = Reply(json.dumps(second).encode())
    posts = await posts_of(f"{site.url}/api?q={{keyword}}#cursor=meta.after&cursor_param=after")
    assert [post["id"] for post in posts] == ["1", "2"]


async def test_a_feed_that_leads_to_itself_ends(site: Site) -> None:
    site.pages["/api"] = Reply(json.dumps({"items": [{"id": "1", "text": "VinFast"}], "next": "/api"}).encode())
    assert len(await posts_of(f"{site.url}/api")) == 1


async def test_fields_lie_where_the_setting_says(site: Site) -> None:
    item = {"key": "k1", "content": {"body": "VinFast đẹp"}, "times": {"made": "2025-01-02"}, "id": "not this"}
    site.pages["/api"] = Reply(json.dumps([item]).encode())
    (post,) = await posts_of(f"{site.url}/api#id=key&text=content.body&published_at=times.made")
    assert (post["id"], post["text"], post["published_at"]) == ("k1", "VinFast đẹp", "2025-01-02")


async def test_items_without_an_id_are_the_same_whenever_they_are_found(site: Site) -> None:
    site.pages["/api"] = Reply(b'[{"text": "VinFast"}, "VinFast", {"id": {"x": 1}, "text": "VinFast"}]')
    once, again = await pages_of(f"{site.url}/api"), await pages_of(f"{site.url}/api")
    assert once == again
    assert len({post.id for post in once[0].posts}) == 3


async def test_one_strange_item_does_not_cost_the_others(site: Site) -> None:
    deep: Any = "VinFast"
    for _ in range(400):
        deep = [deep]
    items = [{"id": "deep", "x": deep}, {"id": "nul\x00", "text": "VinFast\x00"}, {"id": "2", "text": "VinFast"}]
    site.pages["/api"] = Reply(json.dumps(items).encode())
    assert [post["id"] for post in await posts_of(f"{site.url}/api")] == ["nul\x00", "2"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><body>no feed</body></html>", "neither RSS nor Atom"),
        (b'{"error": "none"}', "no list of items"),
        (b"[1,", "not JSON"),
        (b"<rss>" * (XML_BYTES_MAX // 5 + 1), "XML_BYTES_MAX"),
    ],
)
async def test_an_answer_that_is_no_feed_is_a_task_that_failed(site: Site, body: bytes, words: str) -> None:
    site.pages["/x"] = Reply(body)
    with pytest.raises(CrawlFailed, match=words):
        await pages_of(f"{site.url}/x")


async def test_an_entry_of_xml_cannot_read_our_files(site: Site, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("VinFast secret")
    entity = f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]>'
    item = "<item><guid>g</guid><title>VinFast &e;</title></item>"
    site.pages["/x"] = Reply(f'{entity}<rss version="2.0"><channel>{item}</channel></rss>'.encode())
    bodies = [post.body for page in await pages_of(f"{site.url}/x") for post in page.posts]
    assert bodies
    assert b"secret" not in b"".join(bodies)


async def test_a_file_is_read_below_its_directory_only(tmp_path: Path) -> None:
    directory = tmp_path / "feeds"
    directory.mkdir()
    (directory / "news.jsonl").write_text('{"id": "1", "text": "VinFast"}\n')
    (tmp_path / "outside.jsonl").write_text('{"id": "2", "text": "VinFast"}\n')
    (directory / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    template = f"{directory.as_uri()}/{{platform}}.jsonl"
    assert [post["id"] for post in await posts_of(template, directory=directory)] == ["1"]
    for url in (f"{directory.as_uri()}/../outside.jsonl", f"{directory.as_uri()}/link.jsonl", "file:///etc/passwd"):
        with pytest.raises(CrawlFailed, match="SMAP_CRAWL_DIR"):
            await pages_of(url, directory=directory)
    with pytest.raises(CrawlFailed, match="no directory is named"):
        await pages_of(template)
    with pytest.raises(CrawlFailed, match="cannot be read"):
        await pages_of(f"{directory.as_uri()}/none.jsonl", directory=directory)
    with pytest.raises(CrawlFailed, match="over the limit"):
        await pages_of(template, directory=directory, bytes_max=10)


@pytest.mark.parametrize(
    "argument",
    ["ftp://h/x", "https://", "https://u:p@h/", "https://h/#item=x", "https://h/#format=csv", "https://h/#cursor=a"],
)
def test_a_wrong_word_about_a_feed_is_told_at_the_start(argument: str) -> None:
    with pytest.raises(CallerError, match="feed crawler"):
        Crawlers(CrawlWishes((), {"news": Choice("feed", argument)})).check()


async def test_a_page_that_changes_each_time_is_followed_anyway(site: Site) -> None:
    def answer(request: Request) -> Reply:
        return Reply(json.dumps([{"id": str(len(site.requests)), "text": "VinFast"}]).encode())

    site.pages["/live"] = answer
    assert [post["id"] for post in await posts_of(f"{site.url}/live")] != [
        post["id"] for post in await posts_of(f"{site.url}/live")
    ]


async def test_counters_and_authors_lie_where_the_setting_says(site: Site) -> None:
    item = {
        "id": "1",
        "text": "VinFast",
        "user": {"nick": "An", "fans": 12},
        "n": {"up": "1,2 N", "said": 3, "sent": [4], "seen": 50},
        "at": "x/1",
    }
    site.pages["/api"] = Reply(json.dumps([item]).encode())
    places = "author=user.nick&followers=user.fans&likes=n.up&comments=n.said&shares=n.sent.0&views=n.none|n.seen"
    (post,) = await posts_of(f"{site.url}/api#{places}&permalink=https://h.example/{{at}}")
    assert post["author"] == {"name": "An", "followers": 12}
    assert post["metrics"] == {"likes": "1,2 N", "comments": 3, "shares": 4, "views": 50}
    assert (post["url"], post["user"]) == ("https://h.example/x/1", item["user"])


async def test_counters_that_nobody_maps_are_found_under_their_usual_names(site: Site) -> None:
    items = [
        {"id": "1", "text": "VinFast", "like_count": 7, "comments": [{"text": "x"}], "viewCount": "80"},
        {"id": "2", "text": "VinFast", "likes": 1, "metrics": {"likes": 5}, "author": "An"},
        {"id": "3", "text": "VinFast"},
    ]
    site.pages["/api"] = Reply(json.dumps(items).encode())
    first, second, third = await posts_of(f"{site.url}/api")
    assert first["metrics"] == {"likes": 7, "views": "80"}
    assert (second["metrics"], second["author"]) == ({"likes": 5}, {"name": "An"})
    assert not {"metrics", "author"} & set(third), "what nobody tells is not there"


async def test_what_the_setting_maps_goes_before_what_the_item_has(site: Site) -> None:
    item = {"id": "1", "text": "VinFast", "metrics": {"likes": 5, "views": 6}, "real": {"likes": 9}}
    site.pages["/api"] = Reply(json.dumps([item]).encode())
    (post,) = await posts_of(f"{site.url}/api#likes=real.likes")
    assert post["metrics"] == {"likes": 9, "views": 6}


async def test_elements_of_any_namespace_are_mapped(site: Site) -> None:
    entry = """<entry><id>1</id><title>VinFast</title><updated>2025-01-02T01:00:00Z</updated><s:Likes>7</s:Likes>
    <s:stat shares="3"/><thr:total>4</thr:total></entry>"""
    spaces = 'xmlns:s="http://s.example/ns" xmlns:thr="http://purl.org/syndication/thread/1.0"'
    site.pages["/atom"] = Reply(f'<feed xmlns="http://www.w3.org/2005/Atom" {spaces}>{entry}</feed>'.encode())
    (post,) = await posts_of(f"{site.url}/atom#likes=s:Likes&shares=s:stat@shares&views=s:none@views")
    assert post["metrics"] == {"likes": "7", "shares": "3", "comments": "4"}


async def test_a_parameter_that_stays_empty_is_left_out(site: Site) -> None:
    site.pages["/s?q=VinFast&kind=all"] = Reply(b"[]")
    task = CrawlTask("p", "t", "news", "VinFast")
    address = "/s?q={keyword}&since={start}&until={end_at}&kind=all"
    assert await posts_of(f"{site.url}{address}", task) == []
    assert site.asked() == ["/s?q=VinFast&kind=all"]
