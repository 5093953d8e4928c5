"""Projects that are crawled again, each time from where the last crawl ended.

A crawl of its own is a project of its own, because a project that is DONE stays so; it names its parent. Its id derives
from the parent and the due time, and the schedule moves on in the transaction that makes it: whoever looks at the same
due time, in whatever process, makes the same project. What fell due while nobody was there is made up for once. A crawl
waits until the one before has ended.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import structlog

from headrace.errors import HeadraceError, NotFound
from headrace.services import rest
from headrace_smap.count.completions import utc_now
from headrace_smap.database import Row
from headrace_smap.envelope import moment
from headrace_smap.project.creator import Creator, RecrawlFiring
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.world import World

LOOK_S = 1.0
ROOM = 100
EVERY_S_MIN = 60
EVERY_S_MAX = 366 * 86_400
_SPACE = uuid.UUID("c0c8a9c6-1f0b-5f37-8f7e-3f0d6a0d2b11")

log = structlog.get_logger("smap")


class Scheduler:
    """Keeps schedules and fires what is due."""

    def __init__(self, world: World, creator: Creator, now: Callable[[], datetime] = utc_now) -> None:
        self._database, self._creator, self._now = world.database, creator, now

    async def set(self, project: str, every_s: int) -> dict[str, Any]:
        """Crawl again every so often, for the first time one such span from now."""
        now = self._now()
        values = {"every_s": every_s, "next_at": now + timedelta(seconds=every_s), "now": now}
        await self._database.rows("schedule_set", project=project, **values)
        found = await self.get(project)
        if found is None:
            raise NotFound(f"there is no project {project}")
        return found

    async def get(self, project: str) -> dict[str, Any] | None:
        for every_s, next_at, last_project, runs in await self._database.rows("schedule_get", project=project):
            return {"every_s": every_s, "next_at": moment(next_at), "last_project": last_project, "runs": runs}
        return None

    async def drop(self, project: str) -> None:
        """Crawl it no more; what has begun goes on."""
        await self._database.rows("schedule_drop", project=project)

    async def run(self, stop: asyncio.Event) -> None:
        """Fire what falls due until the stop."""
        while not stop.is_set():
            try:
                fired = await self.fire_due()
            except HeadraceError as error:
                log.warning("schedule.failing", error=str(error))
                fired = 0
            if fired < ROOM:
                await rest(stop, LOOK_S)

    async def fire_due(self) -> int:
        """Fire what is due now; how many schedules that were."""
        now = self._now()
        rows = await self._database.rows("schedule_due", now=now, room=ROOM)
        for row in rows:
            firing, order = _planned(row, now)
            await self._creator.fire(child_id(firing.parent, firing.due), order, firing)
        return len(rows)


def child_id(parent: str, due: datetime) -> str:
    """One due time is one project."""
    return f"proj_{uuid.uuid5(_SPACE, f'{parent} {due.astimezone(UTC).isoformat()}')}"


def next_range(last: object, created_at: datetime | None, today: date) -> list[str]:
    """From the last day of the crawl before, which may have been looked at before it was over, to today."""
    first = _last_day(last) or (created_at.astimezone(UTC).date() if created_at else today)
    return [min(first, today).isoformat(), today.isoformat()]


def _last_day(days: object) -> date | None:
    """Of a range as we write it; a foreign service may have written anything."""
    match days:
        case [_, str() as last]:
            with suppress(ValueError):
                return date.fromisoformat(last)
    return None


def _planned(row: Row, now: datetime) -> tuple[RecrawlFiring, AcceptedOrder]:
    parent, every_s, due, _, keywords, targets, name, posts_max, last_range, created_at = row
    missed = (now - due) // timedelta(seconds=every_s)
    firing = RecrawlFiring(parent, due, due + timedelta(seconds=every_s) * (missed + 1))
    days = next_range(last_range, created_at, now.astimezone(UTC).date())
    return firing, AcceptedOrder(keywords or [], targets or [], days, name, posts_max, parent)
