"""The outbox on PostgreSQL: events leave with the change they tell of."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.adapters.postgres.calls import Row, one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.notifications import Notifications
from headrace.core.events import Batch, Event, Lag, check_event

EVENTS_KEPT_S = 7 * 86_400.0
INBOX_KEPT_S = 30 * 86_400.0
ACCOUNTS_KEPT_S = 30 * 86_400.0
RETAIN_EVERY_S = 60.0
# So many rows of a table go at once. If a piece is full, more may come than goes: then the next call takes another.
RETAIN_PIECE = 500
CLAIM_WINDOW = 5_000


class PostgresOutbox:
    """`ports.outbox.Outbox` in one database."""

    def __init__(self, lanes: Lanes, notifications: Notifications) -> None:
        self._lanes, self._notifications = lanes, notifications
        self._retained_at = float("-inf")

    async def add(self, events: Sequence[Event]) -> list[bool]:
        if not events:
            return []
        for event in events:
            check_event(event)
        added = await self._lanes.write(lambda connection: add_events(connection, events))
        if any(added):
            self._notifications.ring()
        return added

    async def claim(self, relay: str, room: int, hold_s: float, topics: Sequence[str] = ()) -> Batch:
        await self.retain_some()
        values = (room, max(CLAIM_WINDOW, 2 * room), hold_s, list(topics))
        found = await self._lanes.write(lambda connection: rows(connection, "claim_events", values))
        return Batch(found[0][0], tuple(_event(row) for row in found)) if found else Batch()

    async def published(self, fence: int, event_ids: Sequence[str]) -> int:
        return int(await self._on_events("publish_events", (fence, list(event_ids))))

    async def release(self, fence: int, event_ids: Sequence[str], delay_s: float = 0.0) -> None:
        await self._on_events("release_events", (fence, list(event_ids), delay_s))

    async def forget(self, key: str) -> int:
        return int((await self._lanes.write(lambda connection: one(connection, "forget_events", (key,))))[0])

    async def lag(self, topics: Sequence[str] = ()) -> Lag:
        wanted = (list(topics), list(topics))
        return Lag(*await self._lanes.read(lambda connection: one(connection, "outbox_lag", wanted)))

    async def retain_some(self) -> None:
        """A piece of retention, now and then. Workers ask for it as well: units leave marks where no relay runs."""
        if time.monotonic() - self._retained_at > RETAIN_EVERY_S and await self.retain() < RETAIN_PIECE:
            self._retained_at = time.monotonic()

    async def retain(self) -> int:
        kept = (EVENTS_KEPT_S, INBOX_KEPT_S, ACCOUNTS_KEPT_S)
        return int((await self._lanes.write(lambda connection: one(connection, "retain_told", kept)))[0])

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._notifications.on_wake(ring)

    async def _on_events(self, name: str, values: Sequence[object]) -> int:
        if not values[1]:
            return 0
        return (await self._lanes.write(lambda connection: one(connection, name, values)))[0] or 0


def add_events(connection: Connection, events: Sequence[Event]) -> list[bool]:
    """Commit events with whatever else the transaction does."""
    return list(one(connection, "add_events", event_values(events))[0])


def event_values(events: Sequence[Event]) -> tuple[list[Any], ...]:
    """Events as the account takes them. One without a key stands in a line of its own."""
    return (
        [event.event_id for event in events],
        [event.topic for event in events],
        [event.key or _alone(event.event_id) for event in events],
        [event.body for event in events],
        [json.dumps(dict(event.headers)) for event in events],
    )


def _alone(event_id: str) -> str:
    return f"event {event_id}"


def _event(row: Row) -> Event:
    _, event_id, topic, key, body, headers, happened_at = row
    own_key = "" if key == _alone(event_id) else key
    return Event(event_id, topic, bytes(body), own_key, json.loads(headers) if headers else {}, happened_at)
