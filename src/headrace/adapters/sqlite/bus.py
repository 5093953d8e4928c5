"""A bus inside the store: durable subscriptions, each with a copy of what it subscribes to.

A message is written once; a narrow delivery row per subscription says how it stands there. Nothing is shared between
messages, so consumers and publishers meet on no row. Of all who had a message, the one with the last fence decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from headrace.adapters.sqlite.retention import RETAIN_EVERY_S
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Row, Transaction
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
from headrace.core.topics import matches

MESSAGES_KEPT_S = 86_400.0


class SqliteBus:
    """`ports.bus.Bus` and `ports.bus.BusOperations` on one file."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._retain_at = 0.0

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        if len(events) > PUBLISH_EVENTS_MAX:
            raise TooLarge(f"{len(events):,} events are over PUBLISH_EVENTS_MAX = {PUBLISH_EVENTS_MAX:,}")
        for event in events:
            check_event(event)
        return await self._transactions.write(lambda tx: publish(tx, events))

    async def subscribe(self, subscription: Subscription) -> None:
        patterns = json.dumps(subscription.patterns)
        name, most = subscription.name, subscription.deliveries_max
        await self._transactions.write(
            lambda tx: tx.run("bus_subscribe", name=name, patterns=patterns, deliveries_max=most)
        )

    async def receive(self, subscription: str, consumer: str, room: int, hold_s: float) -> Received:
        def work(tx: Transaction) -> Received:
            if tx.now() >= self._retain_at:
                self._retain_at = tx.now() + RETAIN_EVERY_S
                retain(tx)
            return receive(tx, (subscription, consumer), min(room, RECEIVE_MAX), hold_s)

        return await self._transactions.write(work)

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return await self._transactions.write(
            lambda tx: [bool(tx.value("bus_ack", now=tx.wall(), **_identity(delivery))) for delivery in deliveries]
        )

    async def requeue(self, deliveries: Sequence[Delivery], delay_s: float = 0.0, reason: str = "") -> list[bool]:
        return await self._transactions.write(
            lambda tx: [requeue(tx, delivery, delay_s, reason) for delivery in deliveries]
        )

    async def dead_letter(self, deliveries: Sequence[Delivery], reason: str) -> list[bool]:
        return await self._transactions.write(lambda tx: [dead_letter(tx, delivery, reason) for delivery in deliveries])

    async def renew(self, deliveries: Sequence[Delivery], hold_s: float) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            moment = {"now": tx.now(), "boot": tx.boot, "until": tx.now() + hold_s}
            return [bool(tx.value("bus_renew", **_identity(delivery), **moment)) for delivery in deliveries]

        return await self._transactions.write(work)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._transactions.on_wake(ring)

    async def subscriptions(self) -> Sequence[Subscription]:
        return await self._transactions.read(_subscriptions)

    async def unsubscribe(self, subscription: str) -> bool:
        return await self._transactions.write(lambda tx: unsubscribe(tx, subscription))

    async def backlog(self, subscription: str) -> Backlog:
        return await self._transactions.read(lambda tx: _backlog(tx, subscription))

    async def dead(self, subscription: str, limit: int = 100) -> Sequence[DeadLetter]:
        rows = await self._transactions.read(lambda tx: tx.all("bus_dead", name=subscription, limit=limit))
        return [DeadLetter(subscription, _event(row), row[7], row[8], row[9]) for row in rows]

    async def redrive(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        def work(tx: Transaction) -> int:
            tx.rang = True
            return tx.run("bus_redrive", name=subscription, event_ids=_chosen(event_ids))

        return await self._transactions.write(work)

    async def purge(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        chosen = _chosen(event_ids)
        return await self._transactions.write(
            lambda tx: tx.run("bus_purge", name=subscription, event_ids=chosen, now=tx.wall())
        )

    async def retain(self) -> int:
        return await self._transactions.write(retain)


def publish(tx: Transaction, events: Sequence[Event]) -> list[bool]:
    """Each event to everybody who subscribes to its topic."""
    wishes = _subscriptions(tx)
    routed = []
    for event in events:
        names = [wish.name for wish in wishes if any(matches(pattern, event.topic) for pattern in wish.patterns)]
        routed.append(bool(names))
        if names:
            _write_message(tx, event)
            tx.rang = bool(tx.all("bus_route", names=json.dumps(names), event_id=event.event_id)) or tx.rang
    return routed


def _write_message(tx: Transaction, event: Event) -> None:
    tx.run(
        "bus_message",
        event_id=event.event_id,
        topic=event.topic,
        key=event.key,
        headers=json.dumps(dict(event.headers)),
        happened_at=event.happened_at or tx.wall(),
        body=event.body,
    )


def receive(tx: Transaction, who: tuple[str, str], room: int, hold_s: float) -> Received:
    name, consumer = who
    most = _deliveries_max(tx, name)
    tx.run("bus_due", name=name, now=tx.wall())
    moment = {"now": tx.now(), "boot": tx.boot}
    tx.run("bus_lost", name=name, deliveries_max=most, reason=CONSUMER_LOST, wall=tx.wall(), **moment)
    first = tx.one("bus_first", name=name)
    deliveries: tuple[Delivery, ...] = ()
    if first is not None and room > 0:
        fence = tx.value("fence_mint", now_us=int(tx.wall() * 1_000_000))
        taken = tx.all(
            "bus_take",
            name=name,
            consumer=consumer,
            fence=fence,
            until=tx.now() + hold_s,
            boot=tx.boot,
            suspect=first[1],
            room=1 if first[1] else room,
        )
        deliveries = _deliveries(tx, name, fence, taken)
    return Received(deliveries, _wait_s(tx, name))


def _deliveries(tx: Transaction, name: str, fence: int, taken: Sequence[Row]) -> tuple[Delivery, ...]:
    counts = {row[0]: row[1:] for row in taken}
    found = []
    for row in tx.all("bus_read", messages=json.dumps(list(counts))):
        deliveries, failures, suspect = counts[row[0]]
        found.append(Delivery(name, row[0], fence, _event(row), deliveries, failures, bool(suspect)))
    return tuple(found)


def _wait_s(tx: Transaction, name: str) -> float | None:
    due_at, until = tx.value("bus_next_due", name=name), tx.value("bus_next_until", name=name)
    waits = [] if due_at is None else [due_at - tx.wall()]
    waits += [] if until is None else [until - tx.now()]
    return max(0.0, min(waits)) if waits else None


def requeue(tx: Transaction, delivery: Delivery, delay_s: float, reason: str) -> bool:
    changed = tx.run(
        "bus_requeue",
        **_identity(delivery),
        failed=int(bool(reason)),
        reason=reason[:REASON_CHARS_MAX],
        deliveries_max=_deliveries_max(tx, delivery.subscription),
        due_at=tx.wall() + delay_s if delay_s > 0 else None,
        now=tx.wall(),
    )
    tx.rang = tx.rang or bool(changed)
    return bool(changed) or bool(tx.value("bus_had", **_identity(delivery)))


def dead_letter(tx: Transaction, delivery: Delivery, reason: str) -> bool:
    identity = _identity(delivery)
    changed = tx.run("bus_dead_letter", **identity, reason=reason[:REASON_CHARS_MAX], now=tx.wall())
    return bool(changed) or bool(tx.value("bus_had", **identity))


def unsubscribe(tx: Transaction, name: str) -> bool:
    _forget_messages(tx, tx.all("bus_unsubscribe_deliveries", name=name))
    return bool(tx.run("bus_unsubscribe", name=name))


def retain(tx: Transaction) -> int:
    rows = tx.all("bus_forget_deliveries", before=tx.wall() - MESSAGES_KEPT_S)
    return len(rows) + _forget_messages(tx, rows)


def _forget_messages(tx: Transaction, rows: Sequence[Row]) -> int:
    return tx.run("bus_forget_messages", messages=json.dumps([row[0] for row in rows]))


def _subscriptions(tx: Transaction) -> list[Subscription]:
    return [
        Subscription(name, tuple(json.loads(patterns)), most) for name, patterns, most in tx.all("bus_subscriptions")
    ]


def _deliveries_max(tx: Transaction, name: str) -> int:
    most = tx.value("bus_subscription", name=name)
    if most is None:
        raise NotFound(f"there is no subscription {name!r}", "subscribe first")
    return int(most)


def _backlog(tx: Transaction, name: str) -> Backlog:
    _deliveries_max(tx, name)
    counts: dict[int, int] = dict(tx.all("bus_backlog", name=name))
    return Backlog(counts.get(0, 0) + counts.get(1, 0), counts.get(2, 0), counts.get(4, 0))


def _identity(delivery: Delivery) -> dict[str, object]:
    return {"name": delivery.subscription, "message": delivery.number, "fence": delivery.fence}


def _chosen(event_ids: Sequence[str] | None) -> str | None:
    return None if event_ids is None else json.dumps(list(event_ids))


def _event(row: Row) -> Event:
    _, event_id, topic, body, key, headers, happened_at = row[:7]
    return Event(event_id, topic, body, key, json.loads(headers), happened_at)
