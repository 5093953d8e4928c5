"""The simulated platform makes up the same posts everywhere, as many as one likes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headrace.errors import CallerError
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import PoliteFetcher
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.crawlers.simulated import SimulatedCrawler, Simulation, made_up, open_simulated
from headrace_smap.collector.tasks import Crawler, CrawlFailed, CrawlTask, Page, Post
from headrace_smap.collector.wishes import CrawlWishes, read_choices

NOTHING = CrawlWishes((), {})
KIT = CrawlKit(NOTHING, PoliteFetcher(NOTHING))
THEIRS = """
from headrace_smap.collector.tasks import Page, Post


class Theirs:
    def __init__(self, argument):
        self.argument = argument

    async def pages(self, task, cursor):
        yield Page([Post("1", self.argument.encode())])

    async def close(self):
        pass


def open_crawler(argument, kit):
    return Theirs(argument)
"""
TASK = CrawlTask("p", "t", "tiktok", "VinFast", start="2025-01-02", end="2025-01-02")


async def pages_of(crawler: Crawler, task: CrawlTask, cursor: str | None = None) -> list[Page]:
    return [page async for page in crawler.pages(task, cursor)]


async def posts_of(crawler: Crawler, task: CrawlTask) -> list[Post]:
    return [post for page in await pages_of(crawler, task) for post in page.posts]


async def test_the_same_task_gives_the_same_posts_in_pages_of_any_size() -> None:
    small = await posts_of(open_simulated("posts=250&page=7", KIT), TASK)
    large = await posts_of(open_simulated("posts=250&page=100", KIT), TASK)
    assert small == large
    assert len({post.id for post in small}) == 250


async def test_a_cursor_goes_on_where_the_page_ended() -> None:
    crawler = open_simulated("posts=25&page=10", KIT)
    first, second, third = await pages_of(crawler, TASK)
    assert await pages_of(crawler, TASK, first.cursor) == [second, third]
    assert (len(third.posts), third.cursor) == (5, None)


async def test_seed_platform_keyword_and_day_make_other_posts() -> None:
    def ids(task: CrawlTask, seed: int = 1) -> set[str]:
        return {made_up(Simulation(seed=seed), task, number).id for number in range(50)}

    others = [
        CrawlTask("p", "t", "facebook", "VinFast", start="2025-01-02", end="2025-01-02"),
        CrawlTask("p", "t", "tiktok", "VF3", start="2025-01-02", end="2025-01-02"),
        CrawlTask("p", "t", "tiktok", "VinFast", start="2025-01-03", end="2025-01-03"),
        CrawlTask("p", "t", "youtube", url="https://a.example", start="2025-01-01", end="2025-01-31"),
    ]
    found = [ids(TASK), ids(TASK, seed=2), *(ids(task) for task in others)]
    assert len(set.union(*found)) == 50 * 6
    assert ids(TASK) == ids(CrawlTask("another", "name", "tiktok", "VinFast", start="2025-01-02", end="2025-01-02"))


@pytest.mark.parametrize("platform", ["tiktok", "facebook", "youtube", "elsewhere"])
def test_a_post_has_the_agreed_shape(platform: str) -> None:
    task = CrawlTask("p", "t", platform, "VinFast", start="2025-01-02", end="2025-01-02")
    for number in range(200):
        post = json.loads(made_up(Simulation(), task, number).body)
        assert (post["platform"], post["keyword"], post["simulated"]) == (platform, "VinFast", True)
        assert post["text"].strip()
        assert {"id", "name", "followers"} == set(post["author"])
        assert post["author"]["name"].endswith(" (simulated)")
        assert all(isinstance(post["metrics"][name], int) for name in ("likes", "comments", "shares", "views"))
        assert post["published_at"].startswith("2025-01-02T")
        # Nothing that was made up leads to what somebody may have written.
        assert str(urlsplit(post["url"]).hostname).endswith(".example")


def test_posts_are_of_two_languages_and_of_many_kinds() -> None:
    texts = [json.loads(made_up(Simulation(), TASK, number).body)["text"] for number in range(500)]
    for sign in ("giá", "the battery", "pin ", "http://", " ko ", "😍", "👎", "#VinFast"):
        assert sum(sign in text for text in texts) >= 3, sign


def test_a_post_of_an_address_lies_in_the_days_of_its_project() -> None:
    task = CrawlTask("p", "t", "tiktok", url="u", start="2025-01-30", end="2025-02-02", keywords=("a", "b"))
    posts = [json.loads(made_up(Simulation(), task, number).body) for number in range(100)]
    assert {post["published_at"][:10] for post in posts} == {"2025-01-30", "2025-01-31", "2025-02-01", "2025-02-02"}
    assert {post["keyword"] for post in posts} == {"a", "b"}


def test_some_posts_are_found_by_every_keyword() -> None:
    other = CrawlTask("p", "t", "tiktok", "VF3", start="2025-01-02", end="2025-01-02")
    simulation = Simulation(overlap=0.3)
    mine, theirs = ({made_up(simulation, task, number).id for number in range(400)} for task in (TASK, other))
    assert 80 < len(mine & theirs) < 160


def test_a_share_of_the_posts_is_broken_in_every_way() -> None:
    bodies = [made_up(Simulation(broken=0.5, huge=100_000), TASK, number).body for number in range(300)]
    kinds = {"huge": 0, "encoding": 0, "json": 0, "fields": 0, "sound": 0}
    for body in bodies:
        try:
            post = json.loads(body.decode("utf-8"))
            kind = "fields" if "text" not in post else "huge" if len(body) > 90_000 else "sound"
        except UnicodeDecodeError:
            kind = "encoding"
        except ValueError:
            kind = "json"
        kinds[kind] += 1
    assert all(count >= 15 for count in kinds.values()), kinds
    assert 120 <= kinds["sound"] <= 180


def test_a_wrong_word_about_the_simulation_is_told_at_the_start() -> None:
    for argument in ("post=3", "posts=many", "posts=-1", "page=0"):
        with pytest.raises(CallerError, match="simulated"):
            Crawlers(CrawlWishes((), read_choices(f"*=simulated:{argument}"))).check()


def test_a_platform_that_nobody_serves_is_a_task_that_failed() -> None:
    with pytest.raises(CrawlFailed, match="SMAP_CRAWLERS"):
        Crawlers(CrawlWishes((), read_choices("tiktok=simulated"))).serving("facebook")


def test_a_crawler_that_nobody_has_is_told_at_the_start() -> None:
    with pytest.raises(CallerError, match="there is no crawler 'mine'"):
        Crawlers(CrawlWishes((), read_choices("tiktok=mine"))).check()


async def test_crawlers_of_others_are_opened_once_and_closed() -> None:
    opened: list[str] = []

    class Mine(SimulatedCrawler):
        async def close(self) -> None:
            opened.append("closed")

    def open_mine(argument: str, kit: CrawlKit) -> Crawler:
        opened.append(argument)
        return Mine(Simulation())

    crawlers = Crawlers(CrawlWishes((), read_choices("a=mine:x,b=mine:x,c=mine:y")), {"mine": open_mine})
    assert crawlers.serving("a") is crawlers.serving("b")
    assert crawlers.serving("a") is not crawlers.serving("c")
    await crawlers.close()
    assert opened == ["x", "y", "closed", "closed"]


async def test_crawlers_of_others_register_by_entry_point(tmp_path: Path, own_modules: None) -> None:
    (tmp_path / "their_crawler.py").write_text(THEIRS)
    (tmp_path / "theirs-1.dist-info").mkdir()
    (tmp_path / "theirs-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    points = "[headrace.smap.crawlers]\ntheirs = their_crawler:open_crawler\n"
    (tmp_path / "theirs-1.dist-info" / "entry_points.txt").write_text(points)
    sys.path.insert(0, str(tmp_path))
    crawlers = Crawlers(CrawlWishes((), read_choices("forum=theirs:hello")))
    crawlers.check()
    assert await pages_of(crawlers.serving("forum"), TASK) == [Page([Post("1", b"hello")])]
    await crawlers.close()
