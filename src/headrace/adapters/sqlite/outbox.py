"""The outbox: events leave with the change they tell of.

A relay's hold is written on the events themselves. It stays there after they are published, so a repeat is recognised,
and a later event of the same key is not granted while an earlier one is held by somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from headrace.adapters.sqlite.retention import RETAIN_EVERY_S, RETAIN_PIECE, retain_told
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Row, Transaction
from headrace.core.events import Batch, Event, Lag, check_event

CLAIM_WINDOW = 5_000


class SqliteOutbox:
    """`ports.outbox.Outbox` on one file."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._retain_at = 0.0

    async def add(self, events: Sequence[Event]) -> list[bool]:
        for event in events:
            check_event(event)
        return await self._transactions.write(lambda tx: [add_event(tx, event) for event in events])

    async def claim(self, relay: str, room: int, hold_s: float, topics: Sequence[str] = ()) -> Batch:
        return await self._transactions.write(lambda tx: self._claim(tx, room, hold_s, json.dumps(list(topics))))

    async def published(self, fence: int, event_ids: Sequence[str]) -> int:
        chosen = json.dumps(list(event_ids))
        return await self._transactions.write(
            lambda tx: tx.run("outbox_published", fence=fence, event_ids=chosen, now=tx.wall())
        )

    async def release(self, fence: int, event_ids: Sequence[str], delay_s: float = 0.0) -> None:
        chosen = json.dumps(list(event_ids))

        def work(tx: Transaction) -> None:
            until = tx.now() + delay_s if delay_s > 0 else 0.0
            tx.run("outbox_release", fence=fence, event_ids=chosen, until=until)

        await self._transactions.write(work)

    async def forget(self, key: str) -> int:
        return await self._transactions.write(lambda tx: tx.run("outbox_forget_key", key=key))

    async def lag(self, topics: Sequence[str] = ()) -> Lag:
        return await self._transactions.read(lambda tx: _lag(tx, json.dumps(list(topics))))

    async def retain(self) -> int:
        return await self._transactions.write(retain_told)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._transactions.on_wake(ring)

    def _claim(self, tx: Transaction, room: int, hold_s: float, topics: str) -> Batch:
        if tx.now() >= self._retain_at and retain_told(tx) < RETAIN_PIECE:
            self._retain_at = tx.now() + RETAIN_EVERY_S
        now = {"now": tx.now(), "boot": tx.boot}
        if not (tx.value("outbox_any", **now) if topics == "[]" else tx.value("outbox_any_of", topics=topics, **now)):
            return Batch()
        fence = tx.value("fence_mint", now_us=int(tx.wall() * 1_000_000))
        rows = tx.all(
            "outbox_claim",
            fence=fence,
            room=room,
            window=max(CLAIM_WINDOW, 2 * room),
            until=tx.now() + hold_s,
            topics=topics,
            **now,
        )
        return Batch(fence, tuple(_event(row) for row in sorted(rows)))


def add_event(tx: Transaction, event: Event) -> bool:
    """Commit one event with whatever else the transaction does. One without a key stands in a line of its own."""
    added = tx.value(
        "outbox_add",
        event_id=event.event_id,
        topic=event.topic,
        key=event.key or f"event {event.event_id}",
        payload=event.body,
        headers=json.dumps(dict(event.headers)),
        now=tx.wall(),
    )
    tx.rang = tx.rang or added is not None
    return added is not None


def _event(row: Row) -> Event:
    _, event_id, topic, key, body, payload, headers, happened_at = row
    whole = body.encode() if payload is None else payload
    alone = key == f"event {event_id}"
    return Event(event_id, topic, whole, "" if alone else key, json.loads(headers) if headers else {}, happened_at)


def _lag(tx: Transaction, topics: str) -> Lag:
    row = tx.one("outbox_lag", topics=topics)
    assert row is not None, "a count is always there"
    count, oldest_at = row
    return Lag(count, max(0.0, tx.wall() - oldest_at) if count else 0.0)
