"""Projects that are crawled again, each time from where the last crawl ended.

A crawl of its own is a project of its own, because a project that is DONE stays so; it names its parent. When it is due
is a schedule of the engine: any running project service fires it, each moment once, and what fell due while none ran is
made up for once. The job of a moment makes one project, whose id derives from the parent and the moment, so a job that
is repeated finds it made. A job waits until the crawl before has ended; moments that come meanwhile overlap and are
passed over.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import headrace
from headrace.errors import NotFound
from headrace.schedules import Timetable
from headrace_smap.count.completions import utc_now
from headrace_smap.database import Row
from headrace_smap.days import day_of
from headrace_smap.envelope import moment
from headrace_smap.parts import SmapParts
from headrace_smap.project.creator import Creator
from headrace_smap.project.orders import AcceptedOrder

FLOW = "smap-recrawl"
EVERY_S_MIN = 60
EVERY_S_MAX = 366 * 86_400
WAIT_S = 5.0
"""A job looks so often whether the crawl before has ended: next to the minute between two crawls it is little."""
TRIES = 1_000_000
PLAIN_CHARS_MAX = 80
_SPACE = uuid.UUID("c0c8a9c6-1f0b-5f37-8f7e-3f0d6a0d2b11")

Outcome = headrace.Done | headrace.Snooze


@dataclass(frozen=True, slots=True)
class Recrawl:
    """What a schedule submits: whose crawl, and by which timetable, for a later one puts an end to it."""

    project: str
    timetable: str


class Recrawls:
    """Keeps the schedules of projects and makes the crawls that are due."""

    def __init__(self, parts: SmapParts, creator: Creator, now: Callable[[], datetime] = utc_now) -> None:
        self._engine, self._database, self._creator, self._now = parts.engine, parts.database, creator, now
        self._zone = parts.settings.timezone
        self.flow = headrace.Flow(FLOW)

        @self.flow.stage(retry=headrace.backoff(TRIES, cap_s=30.0))
        async def crawl(recrawl: Recrawl, context: headrace.Context) -> Outcome:
            _, _, due = ((await self._engine.job(context.job)).key or "").rpartition("@")
            return await self.crawl(recrawl, datetime.fromisoformat(due))

    async def set(self, project: str, every_s: int) -> dict[str, Any]:
        """Crawl again every so often, for the first time one such span from now."""
        if not await self._database.rows("recrawl_source", project=project):
            raise NotFound(f"there is no project {project}")
        begin = (self._now() + timedelta(seconds=every_s)).astimezone(UTC)
        timetable = f"R/{begin.isoformat(timespec='seconds')}/PT{every_s}S"
        payload = Recrawl(project, timetable)
        name = schedule_name(project)
        await self._engine.schedules.set(name, self.flow, timetable, payload=payload, overlap="skip")
        found = await self.get(project)
        if found is None:
            raise NotFound(f"there is no project {project}")
        return found

    async def get(self, project: str) -> dict[str, Any] | None:
        view = await self._engine.schedules.get(schedule_name(project))
        if view is None:
            return None
        first_ms, second_ms = Timetable(view.schedule.timetable).next(view.handled_ms, 2)
        rows = await self._database.rows("recrawl_runs", project=project)
        last_project, runs = rows[0] if rows else (project, 0)
        next_at = datetime.fromtimestamp(first_ms / 1_000, UTC)
        every_s = (second_ms - first_ms) // 1_000
        return {"every_s": every_s, "next_at": moment(next_at), "last_project": last_project, "runs": runs}

    async def drop(self, project: str) -> None:
        """Crawl it no more; what has begun goes on."""
        await self._engine.schedules.remove(schedule_name(project))

    async def run(self, stop: asyncio.Event) -> None:
        """Fire what falls due, and make its crawls, until the stop."""
        async with self._engine.worker(self.flow):
            await stop.wait()

    async def crawl(self, recrawl: Recrawl, due: datetime) -> Outcome:
        """Make the project of a due time, unless its schedule has gone or changed; not before the last crawl ended."""
        view = await self._engine.schedules.get(schedule_name(recrawl.project))
        if view is None or view.schedule.timetable != recrawl.timetable:
            return headrace.Done()
        rows = await self._database.rows("recrawl_source", project=recrawl.project)
        if not rows:
            # It was scheduled while it was being deleted.
            await self.drop(recrawl.project)
            return headrace.Done()
        child, (last, ended) = child_id(recrawl.project, due), rows[0][:2]
        if last != child and not ended:
            return headrace.Snooze(WAIT_S)
        await self._creator.create_crawl(child, _ordered(recrawl.project, rows[0], self._now(), self._zone))
        return headrace.Done()


def schedule_name(project: str) -> str:
    """With the project's id, where that can be part of a name; ids of foreign services may hold anything."""
    plain = project.isprintable() and len(project) <= PLAIN_CHARS_MAX and not {"/", "@"} & {*project}
    return f"recrawl {project if plain else uuid.uuid5(_SPACE, project)}"


def child_id(parent: str, due: datetime) -> str:
    """One due time is one project."""
    return f"proj_{uuid.uuid5(_SPACE, f'{parent} {due.astimezone(UTC).isoformat()}')}"


def next_range(last: object, created_at: datetime | None, now: datetime, zone: ZoneInfo) -> list[str]:
    """From the last day of the crawl before, which may have been looked at before it was over, to today."""
    today = day_of(now, zone)
    first = _last_day(last) or (day_of(created_at, zone) if created_at else today)
    return [min(first, today).isoformat(), today.isoformat()]


def _last_day(days: object) -> date | None:
    """Of a range as we write it; a foreign service may have written anything."""
    match days:
        case [_, str() as last]:
            with suppress(ValueError):
                return date.fromisoformat(last)
    return None


def _ordered(parent: str, row: Row, now: datetime, zone: ZoneInfo) -> AcceptedOrder:
    _, _, keywords, targets, name, posts_max, last_range, created_at = row
    days = next_range(last_range, created_at, now, zone)
    return AcceptedOrder(keywords or [], targets or [], days, name, posts_max, parent)
