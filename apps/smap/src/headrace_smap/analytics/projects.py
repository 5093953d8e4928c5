"""What the analysis must know of projects: are they still wanted, and what do they look for? Known for a second."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from headrace_smap.analytics.posts import HandledPost
from headrace_smap.analytics.work import Work
from headrace_smap.collector.task_plan import OrderRefused, read_days
from headrace_smap.database import Database
from headrace_smap.days import VIETNAM, end_of

KNOWN_S = 1.0
PROJECTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of a project. Its days are those of `zone`; `until` is where they end, if it names any."""

    cancelled: bool = False
    deleted: bool = False
    keywords: tuple[str, ...] = ()
    until: datetime | None = None
    zone: ZoneInfo = VIETNAM


class Projects:
    """Asks the database once a second for what is needed, not once per batch."""

    def __init__(self, database: Database, zone: ZoneInfo) -> None:
        self._database, self._zone = database, zone
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
                self._known[name] = (now + KNOWN_S, wish_of(wish, self._zone))
        return {name: self._known[name][1] for name in wanted}


def wish_of(told: Sequence[Any], zone: ZoneInfo) -> Wish:
    """As the row of a project tells it; keywords that are no list of texts are none."""
    cancelled, deleted, keywords, date_range = told
    words = keywords if isinstance(keywords, list) else []
    known = tuple(word for word in words if isinstance(word, str))
    return Wish(bool(cancelled), bool(deleted), known, _until(date_range, zone), zone)


def work_of(post: HandledPost, wish: Wish) -> Work:
    """What is to be done for a post of a project with this wish."""
    about = post.keyword, post.crawled_at, wish.keywords, wish.until, wish.zone.key
    return Work(post.project, post.path, post.raw or b"", *about)


def _until(date_range: Any, zone: ZoneInfo) -> datetime | None:
    """The end of the last day; None of a range that a foreign service wrote in its own way."""
    with suppress(OrderRefused, OverflowError):
        if days := read_days(date_range, zone):
            return end_of(days[1], zone)
    return None
