"""Aggregates per day, platform, keyword and sentiment: each result counts once, however often it is told.

What is told and what was told before are compared and marked in one transaction, so a repeat adds nothing. Day and
keyword are in the result's own row, which is written before anybody is told of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from headrace.ports import Delivery
from headrace_smap import envelope
from headrace_smap.database import Database
from headrace_smap.envelope import Malformed

UNKNOWN = "unknown"
log = structlog.get_logger("smap")


class Aggregator:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """A batch of `analysis.finished`. What cannot be read says so in the log: no count depends on it."""
        rows = [row for delivery in deliveries if (row := _row(delivery)) is not None]
        if rows:
            projects = sorted({row["project_id"] for row in rows})
            await self._database.transact(
                ("aggregate_lock", {"projects": projects}),
                ("aggregate_add", {"rows": rows}),
                ("aggregate_see", {"rows": rows}),
            )

    async def rebuild(self, project: str) -> None:
        """Make a project's aggregates anew from its results, after they were analysed again."""
        name = {"project": project}
        await self._database.transact(
            ("aggregate_lock", {"projects": [project]}),
            ("aggregate_forget", name),
            ("aggregate_see_all", name),
            ("aggregate_count_all", name),
        )


def _row(delivery: Delivery) -> dict[str, str] | None:
    try:
        message = envelope.read(delivery.event.body)
        post = envelope.collected(message)
    except Malformed as wrong:
        log.warning("result.unreadable", event_id=delivery.event.event_id, rule=wrong.rule)
        return None
    return {
        "project_id": post.project,
        "item": post.minio_path,
        "platform": post.platform or UNKNOWN,
        "sentiment": str(message.payload.get("sentiment") or UNKNOWN).lower()[:40],
        "risk": str(message.payload.get("risk") or "").upper()[:40],
    }
