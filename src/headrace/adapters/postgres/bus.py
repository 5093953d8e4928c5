"""A bus inside PostgreSQL: durable subscriptions, each with a copy of what it subscribes to.

Every verb is one statement in autocommit; `sql/functions/bus.sql` has the theory.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence

from headrace.adapters.postgres.calls import Row, Values, one, rows
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.notifications import Notifications
from headrace.core.deliveries import (
    CONSUMER_LOST,
    REASON_CHARS_MAX,
    RECEIVE_MAX,
    Backlog,
    DeadLetter,
    Delivery,
    Received,
    Subscription,
)
from headrace.core.errors import NotFound, TooLarge
from headrace.core.events import PUBLISH_EVENTS_MAX, Event, check_event

MESSAGES_KEPT_S = 86_400.0
RETAIN_EVERY_S = 60.0


class PostgresBus:
    """`ports.bus.Bus` and `ports.bus.BusOperations` in one database."""

    def __init__(self, lanes: Lanes, notifications: Notifications) -> None:
        self._lanes, self._notifications = lanes, notifications
        self._retained_at = float("-inf")

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        if len(events) > PUBLISH_EVENTS_MAX:
            raise TooLarge(f"{len(events):,} events are over PUBLISH_EVENTS_MAX = {PUBLISH_EVENTS_MAX:,}")
        if not events:
            return []
        for event in events:
            check_event(event)
        values = (
            [event.event_id for event in events],
            [event.topic for event in events],
            [event.key for event in events],
            [json.dumps(dict(event.headers)) for event in events],
            [event.happened_at for event in events],
            [event.body for event in events],
        )
        routed, rang = await self._call("bus_publish", values)
        if rang:
            self._notifications.ring()
        return list(routed)

    async def subscribe(self, subscription: Subscription) -> None:
        patterns = list(subscription.patterns)
        expressions = [expression(pattern) for pattern in patterns]
        await self._call("bus_subscribe", (subscription.name, patterns, expressions, subscription.deliveries_max))

    async def receive(self, subscription: str, consumer: str, room: int, hold_s: float) -> Received:
        if time.monotonic() - self._retained_at > RETAIN_EVERY_S:
            self._retained_at = time.monotonic()
            await self.retain()
        values = (subscription, consumer, min(room, RECEIVE_MAX), hold_s, CONSUMER_LOST)
        found = await self._lanes.write(lambda connection: rows(connection, "bus_receive", values))
        if not found:
            raise _missing(subscription)
        *taken, last = found
        return Received(tuple(_delivery(subscription, row) for row in taken), last[-1])

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return await self._decide("bus_ack", deliveries)

    async def requeue(self, deliveries: Sequence[Delivery], delay_s: float = 0.0, reason: str = "") -> list[bool]:
        answers = await self._decide("bus_requeue", deliveries, delay_s, reason[:REASON_CHARS_MAX])
        if any(answers):
            self._notifications.ring()
        return answers

    async def dead_letter(self, deliveries: Sequence[Delivery], reason: str) -> list[bool]:
        return await self._decide("bus_dead_letter", deliveries, reason[:REASON_CHARS_MAX])

    async def renew(self, deliveries: Sequence[Delivery], hold_s: float) -> list[bool]:
        return await self._decide("bus_renew", deliveries, hold_s)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._notifications.on_wake(ring)

    async def subscriptions(self) -> Sequence[Subscription]:
        found = await self._lanes.read(lambda connection: rows(connection, "bus_subscriptions"))
        return [Subscription(name, tuple(patterns), most) for name, patterns, most in found]

    async def unsubscribe(self, subscription: str) -> bool:
        return bool((await self._call("bus_unsubscribe", (subscription,)))[0])

    async def backlog(self, subscription: str) -> Backlog:
        found = await self._lanes.read(lambda connection: rows(connection, "bus_backlog", (subscription,)))
        if not found:
            raise _missing(subscription)
        return Backlog(*found[0])

    async def dead(self, subscription: str, limit: int = 100) -> Sequence[DeadLetter]:
        found = await self._lanes.read(lambda connection: rows(connection, "bus_dead", (subscription, limit)))
        return [DeadLetter(subscription, _event(row[:6]), *row[6:]) for row in found]

    async def redrive(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        again = int((await self._call("bus_redrive", _chosen(subscription, event_ids)))[0])
        self._notifications.ring()
        return again

    async def purge(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        return int((await self._call("bus_purge", _chosen(subscription, event_ids)))[0])

    async def retain(self) -> int:
        return int((await self._call("bus_retain", (MESSAGES_KEPT_S,)))[0])

    async def _decide(self, name: str, deliveries: Sequence[Delivery], *values: object) -> list[bool]:
        """Whether each delivery was still the last one of its message."""
        if not deliveries:
            return []
        places = (
            [delivery.subscription for delivery in deliveries],
            [delivery.number for delivery in deliveries],
            [delivery.fence for delivery in deliveries],
        )
        accepted = set((await self._call(name, (*places, *values)))[0])
        return [at in accepted for at in range(1, len(deliveries) + 1)]

    async def _call(self, name: str, values: Values) -> Row:
        return await self._lanes.write(lambda connection: one(connection, name, values))


def expression(pattern: str) -> str:
    """A pattern as a regular expression over a topic with a dot before it."""
    words = {"*": r"\.[^.]+", "#": r"(\.[^.]+)*"}
    return "^" + "".join(words.get(word, r"\." + re.escape(word)) for word in pattern.split(".")) + "$"


def _missing(subscription: str) -> NotFound:
    return NotFound(f"there is no subscription {subscription!r}", "subscribe first")


def _chosen(subscription: str, event_ids: Sequence[str] | None) -> dict[str, object]:
    return {"name": subscription, "all": event_ids is None, "ids": list(event_ids or [""])}


def _delivery(subscription: str, row: Row) -> Delivery:
    number, fence, *event, deliveries, failures, suspect, _ = row
    return Delivery(subscription, number, fence, _event(event), deliveries, failures, suspect)


def _event(row: Sequence[object]) -> Event:
    event_id, topic, body, key, headers, happened_at = row
    return Event(str(event_id), str(topic), bytes(body), str(key), json.loads(str(headers)), float(str(happened_at)))  # type: ignore[call-overload]
