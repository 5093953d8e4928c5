"""What passes between the collector and its crawlers. A crawler of somebody else's needs this file and nothing more.

    class MyCrawler:
        async def pages(self, task: CrawlTask, cursor: str | None) -> AsyncIterator[Page]:
            ...
        async def close(self) -> None: ...

    [project.entry-points."headrace.smap.crawlers"]
    mine = "my_package:open_crawler"      # open_crawler(argument: str, kit: CrawlKit) -> Crawler

A crawl may end at any moment and go on elsewhere from the cursor of its last stored page, so a page may be asked for
twice: its posts are recognised by their ids.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol
from zoneinfo import ZoneInfo

import msgspec

from headrace_smap.days import begin_of, end_of

CURSOR_CHARS_MAX = 10_000


class CrawlTask(msgspec.Struct, frozen=True):
    """One thing to crawl: a keyword on a platform on one day, or a target's address.

    `name` is unique in the project. `start` and `end` are ISO days of `timezone`, both included; empty: any time; the
    moments between are from `start_at` to before `end_at`. `keywords` are those of the whole project, for posts of an
    address that nobody searched for; `posts_max` is its cap (0: none of its own). `beside`: a search on a platform
    where the project names addresses as well, so that a crawler that cannot search is no mistake.
    """

    project: str
    name: str
    platform: str
    keyword: str = ""
    url: str = ""
    start: str = ""
    end: str = ""
    keywords: tuple[str, ...] = ()
    posts_max: int = 0
    beside: bool = False
    timezone: str = "UTC"

    @property
    def day(self) -> str:
        """The one day that is searched; empty for an address, and if the project names no days."""
        return "" if self.url else self.start

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def start_at(self) -> datetime | None:
        return begin_of(date.fromisoformat(self.start), self.zone) if self.start else None

    @property
    def end_at(self) -> datetime | None:
        return end_of(date.fromisoformat(self.end), self.zone) if self.end else None

    def covers(self, day: date) -> bool:
        """Whether a post of this day is wanted."""
        return not self.start or date.fromisoformat(self.start) <= day <= date.fromisoformat(self.end)


@dataclass(frozen=True, slots=True)
class Post:
    """One post as it is stored: a JSON object with `id`, `platform` and `text`, if it is a sound one.

    `id` is the same whenever the post is found again. It may be anything: it is checked before it names a blob.
    """

    id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Posts that were found together, and where to go on after them. Without a cursor it is the last page."""

    posts: Sequence[Post]
    cursor: str | None = None


class CrawlFailed(Exception):
    """This task can never be done: its address is refused, gone, or not what it should be."""


class CrawlLater(Exception):
    """Not now: the source is away or asks for patience. `after_s` if it says for how long."""

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class CrawlBusy(Exception):
    """The source is fine, but not to be asked before `after_s` have passed. That is no failure."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"not before {after_s:g} s have passed")
        self.after_s = after_s


class Crawler(Protocol):
    def pages(self, task: CrawlTask, cursor: str | None) -> AsyncIterator[Page]:
        """The pages of a task from a cursor on (None: from the beginning), each as soon as it is there.

        `CrawlFailed`, `CrawlLater` and `CrawlBusy` say why there is none; any other exception is a failed attempt.
        """

    async def close(self) -> None:
        """Give back what is open."""
