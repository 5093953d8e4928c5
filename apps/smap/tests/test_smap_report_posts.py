"""The list of posts finds what was asked for, whatever stands in the address, on both stores alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from smap_results import AT, post, store

from headrace_smap.database import Database
from headrace_smap.insight.report import posts
from headrace_smap.insight.report.posts import PAGES_MAX, PostFilters, all_posts, choices, find, fold
from headrace_smap.insight.report.reader import ReportReader

POSTS = 120


@pytest.fixture
async def stored(database: Database) -> Database:
    await store(database, *map(_post, range(POSTS)))
    return database


def _post(number: int) -> dict[str, Any]:
    return post(
        number,
        published_at=(AT + timedelta(minutes=number)).isoformat(),
        risk_score=number % 7 / 7,
        engagement=None if number % 10 == 9 else number,
        author_name=f"Tác giả {number % 5}",
        aspects=["battery"] if number % 4 == 0 else ["price", "app"],
        phrases=["sạc chậm"] if number % 6 == 0 else [],
        hashtags=["VF3"] if number % 8 == 0 else [],
        keyword="" if number == 3 else "VF3",
        intent="" if number == 5 else "complaint" if number % 9 == 0 else "praise",
    )


async def numbers(stored: Database, **asked: str) -> list[int]:
    """The posts of the first page, by number."""
    found = await find(stored, "p", PostFilters.read({f"posts.{name}": value for name, value in asked.items()}))
    return [int(each.path.split("/")[-1].removesuffix(".json")) for each in found.posts]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"sentiment": "negative"}, lambda n: n % 3 == 1),
        ({"sentiment": "unknown"}, lambda n: False),
        ({"risk": "HIGH"}, lambda n: n == 4),
        ({"intent": "complaint"}, lambda n: n % 9 == 0),
        ({"intent": "unknown"}, lambda n: n == 5),
        ({"risk": "RISKY", "sentiment": "negative"}, lambda n: n == 4),
        ({"platform": "facebook", "risk": "LOW"}, lambda n: n % 2),
        ({"keyword": "unknown"}, lambda n: n == 3),
        ({"aspect": "app"}, lambda n: n % 4),
        ({"author": "Tác giả 2"}, lambda n: n % 5 == 2),
        ({"topic": "sạc chậm"}, lambda n: n % 6 == 0),
        ({"topic": "#vf3"}, lambda n: n % 8 == 0),
        ({"day.from": "2025-01-02", "day.to": "2025-01-03"}, lambda n: n % 4 in (1, 2)),
        ({"spam": "spam"}, lambda n: n == 7),
        ({"spam": "genuine", "any": "pin YEU", "author": "Tác giả 1"}, lambda n: n % 3 == 1 and n % 5 == 1 and n != 7),
        ({"any": "tac gia 4 dep"}, lambda n: n % 5 == 4 and n % 3 == 0),
        ({"any": "TikTok #vf3"}, lambda n: n % 8 == 0),
        ({"any": "%"}, lambda n: False),
    ],
)
async def test_every_filter_finds_what_it_says(stored: Database, asked: dict[str, str], wanted: Any) -> None:
    found = await find(stored, "p", PostFilters.read({f"posts.{name}": value for name, value in asked.items()}))
    expected = [number for number in range(POSTS) if wanted(number)]
    assert found.count == len(expected)
    assert set(await numbers(stored, **asked)) <= set(expected)
    assert len(found.posts) == min(len(expected), posts.PAGE_POSTS)


async def test_pages_follow_each_other_and_hold_each_post_once(stored: Database) -> None:
    seen: list[str] = []
    for page in ("1", "2", "3"):
        found = await find(stored, "p", PostFilters.read({"posts.page": page}))
        seen += [each.path for each in found.posts]
        assert (found.count, found.page, found.pages) == (POSTS, int(page), 3)
    assert len(set(seen)) == len(seen) == POSTS
    beyond = await find(stored, "p", PostFilters.read({"posts.page": "9"}))
    assert (beyond.page, len(beyond.posts)) == (1, posts.PAGE_POSTS)
    searched = await find(stored, "p", PostFilters.read({"posts.any": "pin", "posts.page": "9"}))
    assert (searched.page, searched.count, len(searched.posts)) == (1, 40, 40)


async def test_posts_come_in_the_order_that_was_asked_for(stored: Database) -> None:
    assert (await numbers(stored, order="newest"))[:2] == [119, 118]
    assert (await numbers(stored, order="impact"))[:2] == [119, 118]
    assert (await numbers(stored, order="engagement"))[:2] == [118, 117], "what is unknown is not the most"
    assert [number % 7 for number in (await numbers(stored))[:17]] == [6] * 17


async def test_a_file_has_them_all_and_the_form_offers_what_there_is(stored: Database) -> None:
    assert (await all_posts(stored, "p")).count == len((await all_posts(stored, "p")).posts) == POSTS
    offered = await choices(stored, "p")
    assert offered["platform"] == ["facebook", "tiktok"]
    assert set(offered["aspect"]) == {"battery", "price", "app"}
    assert len(offered["author"]) == 5
    page = str(await ReportReader(stored).posts("p", {"posts.aspect": "app", "posts.any": '"><script>alert(1)'}))
    assert '<option value="app" selected>app</option>' in page
    assert "<script>alert(1)" not in page
    assert await ReportReader(stored).posts("nobody", {}) is None


def test_an_address_that_anybody_wrote_asks_for_nothing_odd() -> None:
    odd = {
        "posts.any": "a\x00b" + "c" * 999,
        "posts.day.from": "yesterday",
        "posts.day.to": "2025-W01-1",
        "posts.order": "DROP TABLE",
        "posts.page": "99999999999",
        "posts.sentiment": "",
        "posts.spam": "perhaps",
        "password": "x",
    }
    filters = PostFilters.read(odd)
    assert set(filters.given) == {"any", "day.to", "spam"}
    assert (filters.given["day.to"], filters.page) == ("2024-12-30", 1)
    assert len(filters.given["any"]) == posts.VALUE_CHARS_MAX
    assert "\x00" not in filters.given["any"]
    assert filters.values["spam"] is None
    assert [PostFilters.read({"posts.page": page}).page for page in ("9999", "-1", "²", "0")] == [PAGES_MAX, 1, 1, 1]


def test_letters_are_compared_without_their_marks() -> None:
    assert fold("ĐƯỜNG Phố Yếu") == "duong pho yeu"
