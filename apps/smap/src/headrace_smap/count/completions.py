"""Listening for the end of projects: when somebody else has announced one, we do not announce it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from headrace.consuming import Consumer, Delivery, Subscription
from headrace_smap.database import Database
from headrace_smap.envelope import COMPLETIONS_QUEUE, JOB_COMPLETED, Malformed, read
from headrace_smap.parts import SmapParts


def utc_now() -> datetime:
    return datetime.now(UTC)


class Completions:
    """Writes down which projects were announced, by whomever and in whichever form."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database, self._now = database, now

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        projects = set()
        for delivery in deliveries:
            try:
                projects.add(read(delivery.event.body).project)
            except Malformed:
                # It names no project, so there is nothing that it could have announced.
                continue
        if projects:
            await self._database.rows("truth_completed_seen", projects=tuple(sorted(projects)), now=self._now())


def completions(parts: SmapParts) -> Consumer:
    """The consumer that runs in every process of ours."""
    subscription = Subscription(COMPLETIONS_QUEUE, (JOB_COMPLETED,))
    return Consumer(parts.bus, subscription, Completions(parts.database).handle)
