"""Posts of a project that match what people ask for, a page at a time.

Everything but words is asked of the database. Words are looked for here, because only so they are found in capitals
and without their marks ("duong" finds "Đường") on every store, and as the exported file finds them.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from headrace.pages import plain
from headrace_smap.database import Database

PAGE_POSTS = 50
PAGES_MAX = 200
SEARCHED_POSTS_MAX = 10_000
"""Words are looked for in so many posts of those that match otherwise."""
SEARCHED_CHARS_MAX = 2_000
FILE_POSTS_MAX = 5_000
CHOICES_MAX = 100
VALUE_CHARS_MAX = 200
RISKY = "RISKY"
"""HIGH or CRITICAL."""
GENUINE, SPAM = "genuine", "spam"
CHOICES = ("sentiment", "risk", "intent", "platform", "keyword", "aspect", "author", "topic")
ORDERS = ("risk", "impact", "engagement", "newest")


@dataclass(frozen=True, slots=True)
class FoundPost:
    path: str
    platform: str
    keyword: str
    author: str
    text: str
    url: str
    sentiment: str
    risk: str
    impact: float | None
    engagement: int | None
    published_at: datetime | None
    day: str
    aspects: list[str]
    hashtags: list[str]
    phrases: list[str]
    is_spam: bool
    simulated: bool
    intent: str


@dataclass(frozen=True, slots=True)
class PostFilters:
    """What is asked for: `given` as it stands in an address, by name, without what means nothing."""

    given: Mapping[str, str] = field(default_factory=dict)
    page: int = 1

    @classmethod
    def read(cls, asked: Mapping[str, str]) -> PostFilters:
        """Out of an address that anybody may have written: what cannot be understood is left out."""
        known = (*CHOICES, "any", "spam", "order", "day.from", "day.to")
        given = {name: plain(value.strip(), VALUE_CHARS_MAX) for name in known if (value := asked.get(f"posts.{name}"))}
        for name in ("day.from", "day.to"):
            if day := _day(given.pop(name, "")):
                given[name] = day.isoformat()
        if given.get("order") not in ORDERS:
            given.pop("order", None)
        page = asked.get("posts.page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 5 else 1
        return cls(given, min(max(number, 1), PAGES_MAX))

    @property
    def values(self) -> dict[str, Any]:
        """The values of the statement."""
        spam = {GENUINE: False, SPAM: True}.get(self.given.get("spam", ""))
        return {
            **{name: self.given.get(name) for name in CHOICES},
            "spam": spam,
            "first": self.given.get("day.from"),
            "last": self.given.get("day.to"),
            "order": self.given.get("order", ORDERS[0]),
        }

    @property
    def words(self) -> list[str]:
        return fold(self.given.get("any", "")).split()


@dataclass(frozen=True, slots=True)
class FoundPosts:
    """A page of posts: how many match (among those that were searched, if there were too many), and its number."""

    posts: Sequence[FoundPost]
    count: int
    page: int = 1
    searched_only: int | None = None

    @property
    def pages(self) -> int:
        return min(-(-self.count // PAGE_POSTS), PAGES_MAX)


async def find(database: Database, project: str, filters: PostFilters) -> FoundPosts:
    """One page of what matches; the first where there are not so many pages."""
    if filters.words:
        return await _search(database, project, filters)
    found, count = await _read(database, project, filters, PAGE_POSTS, (filters.page - 1) * PAGE_POSTS)
    if found or filters.page == 1:
        return FoundPosts(found, count, filters.page)
    return await find(database, project, PostFilters(filters.given))


async def all_posts(database: Database, project: str) -> FoundPosts:
    """As many posts as an exported file holds, the greatest risks first."""
    return FoundPosts(*await _read(database, project, PostFilters(), FILE_POSTS_MAX, 0))


async def choices(database: Database, project: str) -> dict[str, list[str]]:
    """What the filters offer: platforms, keywords, aspects and authors, the most frequent first."""
    rows = await database.rows("post_choices", project=project, posts=FILE_POSTS_MAX, room=CHOICES_MAX)
    offered: dict[str, list[str]] = {}
    for kind, name in rows:
        offered.setdefault(kind, []).append(name)
    return offered


async def _search(database: Database, project: str, filters: PostFilters) -> FoundPosts:
    read, count = await _read(database, project, filters, SEARCHED_POSTS_MAX, 0)
    found = await asyncio.to_thread(_with_words, read, filters.words)
    page = min(filters.page, max(1, -(-len(found) // PAGE_POSTS)))
    shown = found[(page - 1) * PAGE_POSTS : page * PAGE_POSTS]
    return FoundPosts(shown, len(found), page, SEARCHED_POSTS_MAX if count > len(read) else None)


async def _read(
    database: Database, project: str, filters: PostFilters, room: int, skip: int
) -> tuple[list[FoundPost], int]:
    rows = await database.rows(
        "post_list", project=project, chars=SEARCHED_CHARS_MAX, room=room, skip=skip, **filters.values
    )
    posts = [FoundPost(*row[:-1]) for row in rows]
    return posts, int(rows[0][-1]) if rows else 0


def _with_words(posts: Sequence[FoundPost], words: Sequence[str]) -> list[FoundPost]:
    """Those that hold every word in one of their columns."""
    found = []
    for post in posts:
        tags = (f"#{tag}" for tag in post.hashtags)
        columns = (post.text, post.author, post.platform, post.keyword, *post.aspects, *tags, *post.phrases)
        text = fold(" ".join(columns))
        if all(word in text for word in words):
            found.append(post)
    return found


def fold(text: str) -> str:
    """Letters without their marks, in lower case, as the script of a page compares them."""
    letters = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).replace("đ", "d")


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
