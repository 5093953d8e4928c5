"""The ready recipes read answers of the shape of their APIs; the counters arrive, and what is not told is named."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from collector_running import LISTENER, collecting, order, sealed
from crawl_site import Reply, Request, Site, open_site
from feed_answers import GRAVE, RSS_COUNTED, YOUTUBE_ATOM, graph_posts, youtube_search, youtube_videos
from prometheus_client import CollectorRegistry

from headrace_smap.analytics.analysts import ThreadAnalyst
from headrace_smap.analytics.modules import AnalysisContext, Draft, pipeline
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.service import handler_of
from headrace_smap.collector.crawlers.feed import FeedCrawler
from headrace_smap.collector.crawlers.feed_options import FeedOptions
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import PoliteFetcher
from headrace_smap.collector.crawlers.recipes import RECIPES
from headrace_smap.collector.tasks import CrawlFailed, CrawlTask
from headrace_smap.collector.wishes import CrawlWishes, read_choices
from headrace_smap.count.accountant import Accountant
from headrace_smap.project.export import NAMES
from headrace_smap.settings import SmapSettings

TOKEN = "EAAB/secret+of|ours=123"
DAYS = {"start": "2025-01-01", "end": "2025-01-31"}
SEARCH = CrawlTask("p", "t", "youtube", "VF3", start="2025-01-02", end="2025-01-02")
PAGE = Path(__file__).parents[3] / "docs" / "smap.md"
BLOCKS = re.findall(r"^```ini\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
UNTIL = AnalysisContext(datetime(2026, 1, 1, tzinfo=UTC), ("VF3",), datetime(2025, 1, 3, tzinfo=UTC))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


def documented(recipe: str) -> tuple[str, dict[str, str]]:
    """The setting that the page shows for a recipe, and its variables with a token of ours."""
    (block,) = [block for block in BLOCKS if f"recipe={recipe}\n" in block or f"recipe={recipe}&" in block]
    lines = dict(line.split("=", 1) for line in block.splitlines())
    ((_, choice),) = read_choices(lines.pop("SMAP_CRAWLERS")).items()
    return choice.argument, dict.fromkeys(lines, TOKEN)


async def crawled(recipe: str, site: Site, task: CrawlTask) -> list[dict[str, Any]]:
    """What the page's own setting brings, if the API were at this site; no cursor holds the token."""
    argument, variables = documented(recipe)
    feed = FeedOptions.read(argument)
    origin = re.match(r"https://[^/]+", feed.address)
    feed = replace(feed, address=feed.address.replace(origin[0], site.url) if origin else feed.address)
    wishes = CrawlWishes((), {}, private=True, interval_s=0.0, environment=variables)
    kit = CrawlKit(wishes, PoliteFetcher(wishes))
    try:
        pages = [page async for page in FeedCrawler(feed, kit).pages(task, None)]
    finally:
        await kit.fetcher.close()
    assert TOKEN not in repr((feed, kit, pages))
    assert "secret" not in "".join(f"{page.cursor}{post.body!r}" for page in pages for post in page.posts)
    return [json.loads(post.body) for page in pages for post in page.posts]


def judged(post: dict[str, Any]) -> Draft:
    return pipeline().apply(post, UNTIL)


def test_every_recipe_is_shown_on_the_page() -> None:
    assert {name for name in RECIPES if f"recipe={name}" in "\n".join(BLOCKS)} == set(RECIPES)


async def test_youtube_data_brings_the_counters_of_what_was_found(site: Site) -> None:
    def search(request: Request) -> Reply:
        asked = parse_qs(urlsplit(request.path).query)
        assert (asked["q"], asked["type"], asked["part"]) == (["VF3"], ["video"], ["snippet"])
        assert asked["publishedAfter"] == ["2025-01-02T00:00:00Z"]
        assert asked["publishedBefore"] == ["2025-01-03T00:00:00Z"]
        return Reply(youtube_search(["c"]) if "pageToken" in asked else youtube_search(["a", "b"], "CAUQAA"))

    def videos(request: Request) -> Reply:
        asked = parse_qs(urlsplit(request.path).query)
        assert set(asked["part"][0].split(",")) == {"snippet", "statistics"}
        return Reply(youtube_videos(asked["id"][0].split(",")))

    site.routes = {"/youtube/v3/search": search, "/youtube/v3/videos": videos}
    posts = await crawled("youtube-data", site, SEARCH)
    assert [post["id"] for post in posts] == ["a", "b", "c"]
    assert {request.headers.get("x-goog-api-key") for request in site.requests} == {TOKEN}
    assert "/robots.txt" not in [request.path for request in site.requests]
    assert posts[0]["text"] == f"{GRAVE}\nXem hết video nhé"
    assert posts[0]["url"] == "https://www.youtube.com/watch?v=a"
    draft = judged(posts[0])
    assert (draft.post.views, draft.post.likes, draft.post.comments) == (5_000_000, 90_000, 20_000)
    assert (draft.post.author_name, draft.missing) == ("Kênh Xe", ["followers", "shares"])
    assert draft.impact is not None
    assert draft.impact > 30


async def test_youtube_atom_brings_views_and_likes_of_a_channel(site: Site) -> None:
    site.pages["/feeds/videos.xml?channel_id=UC1"] = Reply(YOUTUBE_ATOM)
    task = CrawlTask("p", "t", "youtube", url="https://www.youtube.com/channel/UC1", **DAYS)
    (post,) = await crawled("youtube-atom", site, task)
    draft = judged(post)
    assert (draft.post.views, draft.post.likes, draft.post.url) == (
        5_000_000,
        90_000,
        "https://www.youtube.com/watch?v=AAA",
    )
    assert (draft.post.author_name, draft.missing) == ("Kênh Xe", ["followers", "comments", "shares"])
    assert "Xem hết video nhé" in post["text"]


async def test_the_graph_api_is_read_for_the_page_that_a_project_names(site: Site) -> None:
    def posts_of(request: Request) -> Reply:
        asked = parse_qs(urlsplit(request.path).query)
        assert asked["since"] == ["2025-01-01T00:00:00Z"]
        if "after" in asked:
            return Reply(graph_posts(TOKEN, 0, None))
        return Reply(graph_posts(TOKEN, 2, "MTA"))

    site.routes = {"/v23.0/VinFastAuto.Official/posts": posts_of}
    url = "https://www.facebook.com/VinFastAuto.Official/"
    posts = await crawled("graph", site, CrawlTask("p", "t", "facebook", url=url, **DAYS))
    assert len(posts) == 2
    assert [request.headers["authorization"] for request in site.requests] == [f"Bearer {TOKEN}"] * 2
    draft = judged(posts[0])
    assert (draft.post.likes, draft.post.comments, draft.post.shares) == (12_000, 3_400, 900)
    assert (draft.post.author_name, draft.post.url) == ("VinFast", "https://www.facebook.com/100/posts/0")
    assert (draft.missing, draft.risk) == (["followers", "views"], "CRITICAL")


async def test_a_feed_of_news_brings_what_it_tells_and_says_what_it_does_not(site: Site) -> None:
    site.pages["/feed.xml"] = Reply(RSS_COUNTED)
    task = CrawlTask("p", "t", "news", url=f"{site.url}/feed.xml", **DAYS)
    told, untold = [judged(post) for post in await crawled("rss", site, task)]
    assert (told.post.views, told.post.comments, told.post.likes, told.post.url) == (
        800_000,
        340,
        12,
        "https://news.example/1",
    )
    assert told.missing == ["followers", "shares"]
    assert (untold.post.views, untold.impact, untold.missing[0]) == (None, None, "followers")


async def test_a_target_that_names_no_page_is_refused_before_anybody_is_asked(site: Site) -> None:
    for url in ("https://facebook.com/", "https://facebook.com/..", "x/../../me%2Faccounts", "a?id=../me", "http://["):
        with pytest.raises(CrawlFailed, match="target"):
            await crawled("graph", site, CrawlTask("p", "t", "facebook", url=url, **DAYS))
    assert site.requests == []


async def test_what_is_read_page_by_page_is_not_searched(site: Site) -> None:
    with pytest.raises(CrawlFailed, match="name one as a target"):
        await crawled("graph", site, CrawlTask("p", "t", "facebook", "VF3", **DAYS))
    assert await crawled("graph", site, CrawlTask("p", "t", "facebook", "VF3", beside=True, **DAYS)) == []


async def test_the_counters_of_a_feed_arrive_in_the_rows_and_unknown_ones_are_null(
    site: Site, embedded: SmapSettings
) -> None:
    site.pages["/feed.xml"] = Reply(RSS_COUNTED)
    near = {"SMAP_CRAWL_PRIVATE": "1", "SMAP_CRAWL_INTERVAL_S": "0"}
    async with collecting({**embedded.environment, **near}) as parts:
        target = {"platform": "news", "url": f"{site.url}/feed.xml"}
        await order(parts, "p", keywords=["VF3"], targets=[target], date_range=["2025-01-01", "2025-01-31"])
        assert (await sealed(parts, "p")).total == 2
        received = await parts.bus.receive(LISTENER, "test", 10, 30.0)
        apart = replace(parts, registry=CollectorRegistry())
        await handler_of(apart, Accountant(apart), Analysis(ThreadAnalyst(pipeline()), 30.0)).handle(
            received.deliveries
        )
        stored = await parts.database.rows("project_results", project="p", after="", room=9)
    rows = {row["post_id"]: row for row in (dict(zip(NAMES, each, strict=True)) for each in stored)}
    columns = ("views", "comments", "likes", "shares", "followers", "simulated")
    assert [rows["n1"][name] for name in columns] == [800_000, 340, 12, None, None, False]
    assert [rows["n2"][name] for name in columns] == [None, None, None, None, None, False]
    assert rows["n1"]["impact"] > 10
    assert rows["n1"]["missing"] == ["followers", "shares"]
    assert [rows["n2"][name] for name in ("reach", "engagement", "impact")] == [None, None, None]
    assert rows["n2"]["risk"] == "MEDIUM"
