"""Alerts while a crawl goes on: posts of a high risk are told as soon as they are analysed, each once per level.

    analysis.finished → smap_alert, once per post and level → a batch of one project → a notice per receiver → sent

The first alert of a project goes out at once. What comes within the interval after it waits and is one digest, so a
flood is one message. An alert is in one batch for ever, and the batch with its notices is one transaction: a repeated
event or a process that was killed makes no second message, and one that was killed while it sent sends again under the
same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from headrace.errors import HeadraceError
from headrace.ports import Delivery
from headrace.services import rest
from headrace_smap import envelope
from headrace_smap.count.completions import utc_now
from headrace_smap.database import Database
from headrace_smap.envelope import Malformed
from headrace_smap.receivers import ReceiverBook

LEVELS = ("HIGH", "CRITICAL")
OFF = "OFF"
POLL_S = 1.0
PROJECTS_ROOM = 20
POSTS_SHOWN = 5
"""More do not fit into a message of Zalo; the report has them all."""
log = structlog.get_logger("smap")


def read_level(text: str) -> str:
    """The lowest risk that is told, as the setting names it."""
    level = text.upper()
    if level not in (*LEVELS, OFF):
        raise ValueError("is none of HIGH, CRITICAL and off")
    return level


class AlertedPost(NamedTuple):
    """A post that is a risk, as far as it is known: somebody else may keep the results."""

    level: str
    path: str
    platform: str | None
    author: str | None
    text: str | None
    url: str | None
    published_at: datetime | None
    sentiment: str | None
    sentiment_score: float | None
    aspects: dict[str, dict[str, object]] | None
    impact: float | None
    missing: list[str] | None
    simulated: bool | None


@dataclass(frozen=True, slots=True)
class AlertBatch:
    """Posts that are told at once: how many of each level, how many of all were made up, and those that come first."""

    levels: dict[str, int]
    simulated: int
    posts: tuple[AlertedPost, ...]

    @property
    def level(self) -> str:
        """The highest."""
        return next(level for level in reversed(LEVELS) if self.levels.get(level))

    @property
    def count(self) -> int:
        return sum(self.levels.values())


@dataclass(frozen=True, slots=True)
class Alert:
    """A batch as it is told. `id` is the same in every attempt; `name` is what people call the project."""

    id: str
    project: str
    batch: AlertBatch
    report_url: str = ""
    name: str = ""


class Alerts:
    """Records alerts and makes batches of them. Any number may run."""

    def __init__(self, database: Database, receivers: ReceiverBook, level: str, interval_s: float) -> None:
        self._database, self._receivers, self._interval_s = database, receivers, interval_s
        self._levels = LEVELS[LEVELS.index(level) :] if level in LEVELS else ()

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """A batch of `analysis.finished`; what cannot be read is logged where it is counted."""
        rows = [row for delivery in deliveries if (row := self._row(delivery)) is not None]
        if rows:
            await self._database.rows("alert_add", rows=rows, now=utc_now())

    def _row(self, delivery: Delivery) -> dict[str, str] | None:
        try:
            message = envelope.read(delivery.event.body)
            post = envelope.collected(message)
        except Malformed:
            return None
        level = str(message.payload.get("risk") or "").upper()
        return {"project_id": post.project, "item": post.minio_path, "level": level} if level in self._levels else None

    async def run(self, stop: asyncio.Event) -> None:
        """Make batches of what is due until `stop` is set."""
        while not stop.is_set():
            try:
                await self.gather()
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("alerts.failing", error=str(error))
            await rest(stop, POLL_S)

    async def gather(self, now: datetime | None = None) -> int:
        """One batch for every project that has alerts and has had none for the interval; how many."""
        moment = now or utc_now()
        since = moment - timedelta(seconds=self._interval_s)
        due = await self._database.rows("alert_due", since=since, room=PROJECTS_ROOM)
        for (project,) in due:
            await self._batch(project, since, moment)
        return len(due)

    async def _batch(self, project: str, since: datetime, now: datetime) -> None:
        batch = envelope.new_id()
        notices = [
            {
                "channel": to.channel,
                "receiver": to.name,
                "notice_id": envelope.derived_id("alert", batch, to.channel, to.name),
            }
            for to in await self._receivers.of(project)
        ]
        place = {"project": project, "batch": batch, "now": now}
        await self._database.transact(
            ("alert_lock", {"project": project}),
            ("alert_gather", {**place, "since": since}),
            ("alert_notices", {**place, "rows": notices}),
        )


async def batch_of(database: Database, project: str, batch: str) -> AlertBatch:
    """What is in a batch, by now."""
    place = {"project": project, "batch": batch}
    levels = await database.rows("alert_levels", **place)
    posts = await database.rows("alert_posts", **place, room=POSTS_SHOWN)
    return AlertBatch(
        {str(level): int(count) for level, count, _ in levels},
        sum(int(simulated) for *_, simulated in levels),
        tuple(AlertedPost(*row) for row in posts),
    )
