"""What the analysis must know of projects: are they still wanted, and what do they look for? Known for a second."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace_smap.analytics.posts import HandledPost
from headrace_smap.analytics.work import Work
from headrace_smap.collector.task_plan import OrderRefused, read_days
from headrace_smap.database import Database

KNOWN_S = 1.0
PROJECTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of a project. `until` is where its days end, if it names any."""

    cancelled: bool = False
    deleted: bool = False
    keywords: tuple[str, ...] = ()
    until: datetime | None = None


class Projects:
    """Asks the database once a second for what is needed, not once per batch."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, Wish]] = {}

    async def wishes(self, names: Iterable[str]) -> dict[str, Wish]:
        """A project that nobody knows has no wishes; its posts are analysed and kept."""
        now = time.monotonic()
        wanted = set(names)
        stale = sorted(name for name in wanted if name not in self._known or self._known[name][0] < now)
        if stale:
            if len(self._known) > PROJECTS_MAX:
                self._known.clear()
                stale = sorted(wanted)
            for name, *wish in await self._database.rows("analytics_projects", projects=tuple(stale)):
                self._known[name] = (now + KNOWN_S, wish_of(*wish))
        return {name: self._known[name][1] for name in wanted}


def wish_of(cancelled: bool, deleted: bool, keywords: Any, date_range: Any) -> Wish:
    """As the database tells it; keywords that are no list of texts are none."""
    words = keywords if isinstance(keywords, list) else []
    known = tuple(word for word in words if isinstance(word, str))
    return Wish(bool(cancelled), bool(deleted), known, _until(date_range))


def work_of(post: HandledPost, wish: Wish) -> Work:
    """What is to be done for a post of a project with this wish."""
    return Work(post.project, post.path, post.raw or b"", post.keyword, post.crawled_at, wish.keywords, wish.until)


def _until(date_range: Any) -> datetime | None:
    """The end of the last day; None of a range that a foreign service wrote in its own way."""
    with suppress(OrderRefused, OverflowError):
        if days := read_days(date_range):
            return datetime(days[1].year, days[1].month, days[1].day, tzinfo=UTC) + timedelta(days=1)
    return None
