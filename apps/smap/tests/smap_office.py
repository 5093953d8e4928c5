"""A project service for tests: its desk, its HTTP side without a server, and ears on the bus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec

from headrace.adapters.sqlite.clock import MachineClock
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.catalogue import Catalogue
from headrace.http import Options, application
from headrace.ports import Subscription
from headrace.runtime.engine import Engine
from headrace.runtime.seams import Seams
from headrace_smap.analytics.work import COLUMNS
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.progress_routes import progress_routes
from headrace_smap.database import DATABASE_FILE, TABLES, Database
from headrace_smap.envelope import Collected, data_collected
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.project.front import front_routes
from headrace_smap.project.operations import ProjectOperations, desk_of
from headrace_smap.project.routes import project_routes
from headrace_smap.settings import SmapSettings

EXAMPLE = {
    "keywords": ["VinFast", "VF3"],
    "targets": [{"platform": "tiktok", "url": "..."}],
    "date_range": ["2025-01-01", "2025-02-01"],
}
EAR = "ear"
START = datetime(2025, 3, 1, 12, tzinfo=UTC)


class Calendar:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span: float) -> None:
        self.now += timedelta(**span)


class CalendarClock(MachineClock):
    """The calendar as the clock of a SQLite store, whose schedules go by it; leases end by the machine's."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar

    def wall(self) -> float:
        return self._calendar.now.timestamp()


@dataclass
class Office:
    """`client` asks the routes; `calendar` is the clock of everything but PostgreSQL."""

    parts: SmapParts
    desk: ProjectOperations
    client: httpx.AsyncClient
    calendar: Calendar

    async def make(self, **more: Any) -> str:
        answer = await self.client.post("/projects", json={**EXAMPLE, **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def events(self) -> list[dict[str, Any]]:
        """What was told on the bus since the last look."""
        received = await self.parts.bus.receive(EAR, "test", 1_000, 30.0)
        await self.parts.bus.ack(received.deliveries)
        return [
            {"topic": delivery.event.topic, **msgspec.json.decode(delivery.event.body)}
            for delivery in received.deliveries
        ]

    async def crawl(self, project: str, paths: Sequence[str], failed: Sequence[str] = ()) -> None:
        """Everything that happens to a project elsewhere: these posts are found, and all have ended."""
        accountant = Accountant(self.parts, self.calendar)
        await accountant.expect(project, len(paths) + len(failed))
        ends = [ItemEnd(project, path) for path in paths]
        for path in failed:
            body = data_collected(Collected(project, path, "tiktok", rest={"shard": 7}), self.calendar.now).body
            ends.append(ItemEnd(project, path, False, "invalid_json", body))
        await accountant.settle(ends)
        await accountant.seal(project, len(ends))

    async def analyse(self, project: str, paths: Sequence[str], **columns: Any) -> None:
        """Results, as the analytics service writes them."""
        found = [result(project, path, **columns) for path in paths]
        rows = [[one.get(name) for name in COLUMNS] for one in found]
        await self.parts.database.rows("upsert_post_analytics", rows=rows, projects=("none of these is deleted",))


def result(project: str, path: str, **columns: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "project_id": project,
        "minio_path": path,
        "post_id": path,
        "platform": "tiktok",
        "keyword": "VF3",
        "language": "vi",
        "author_id": "a1",
        "author_name": "Nguyễn",
        "followers": 10,
        "likes": 1,
        "comments": None,
        "shares": 3,
        "views": 4,
        "published_at": START.isoformat(),
        "day": "2025-03-01",
        "url": None,
        "text": "xe rất đẹp",
        "hashtags": ["vf3"],
        "intent": "praise",
        "intent_score": 0.5,
        "is_spam": False,
        "spam_score": 0.1,
        "spam_reasons": [],
        "keywords": ["VF3"],
        "phrases": [],
        "aspects": ["design"],
        "sentiment": "positive",
        "sentiment_score": 0.8,
        "aspect_sentiments": {"design": {"label": "positive"}},
        "reach": 100,
        "engagement": 4,
        "engagement_rate": 0.04,
        "impact": 12.5,
        "risk": "LOW",
        "crawled_at": "",
        "analyzed_at": START.isoformat(),
        "model_version": "m1",
        "risk_score": 0.0,
        "missing": ["comments"],
        "simulated": False,
        "uncertain": {},
        "timezone": "Asia/Ho_Chi_Minh",
    }
    return {**row, **columns}


@asynccontextmanager
async def dated(parts: SmapParts, calendar: Calendar) -> AsyncIterator[SmapParts]:
    """The same world, where the engine goes by the calendar; a PostgreSQL goes by its own clock."""
    if parts.settings.pg_dsn:
        yield parts
        return
    clock = CalendarClock(calendar)
    store = await SqliteStore.open(str(parts.settings.home / DATABASE_FILE), clock)
    named = {name: text for each in TABLES for name, text in each.named("sqlite").items()}
    engine = Engine(store, Seams(clock=clock), Catalogue(named))
    try:
        yield replace(parts, engine=engine, database=Database(engine))
    finally:
        await store.close()


@asynccontextmanager
async def open_office(settings: SmapSettings, **options: Any) -> AsyncIterator[Office]:
    """The service in a world of its own, with an ear for everything it tells."""
    calendar = Calendar()
    async with open_parts(settings) as opened, dated(opened, calendar) as parts:
        await parts.bus.subscribe(Subscription(EAR, ("project.created", "data.collected", "job.completed")))
        desk = desk_of(parts, calendar)
        front = front_routes(desk.wishes.simulates, settings.timezone)
        routers = [front, *project_routes(desk), progress_routes(parts, look_s=0.01)]
        app = application(Options("project", idempotency=desk.keys, **options), routers)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            yield Office(parts, desk, client, calendar)
