"""The bus on RabbitMQ, with what operators do to it.

Dead letters lie in a queue. To look at them is to take them and to give them back: for a moment they are not there for
others. A subscription is known to those who made it; the broker keeps its queue and bindings, and tells nobody.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from headrace.adapters.rabbitmq import messages as wire
from headrace.adapters.rabbitmq.channels import SinkChannel
from headrace.adapters.rabbitmq.codec import Arrived, read_brief
from headrace.adapters.rabbitmq.declarations import count
from headrace.adapters.rabbitmq.lines import quietly
from headrace.adapters.rabbitmq.sessions import ConsumerSession
from headrace.adapters.rabbitmq.traffic import RabbitOptions, Traffic
from headrace.core.deliveries import Backlog, DeadLetter, Subscription
from headrace.core.errors import NotFound

LETTERS_MAX = 10_000
LETTERS_S_MAX = 10.0
# A question for a queue that is missing is an error in the broker's log: who asks every few seconds would fill it.
MISSING_S = 60.0
OF_A_PASSAGE = (wire.FAILURES, wire.DELIVERIES, wire.REASON, wire.SUBSCRIPTION, wire.DUE_AT, wire.DELAY_S)


class RabbitBus(Traffic):
    """`ports.bus.QueueBus` and `ports.bus.BusOperations` on one broker."""

    def __init__(self, url: str, options: RabbitOptions) -> None:
        super().__init__(url, options)
        self._missing: dict[str, float] = {}

    async def subscriptions(self) -> Sequence[Subscription]:
        """Those that were opened here."""
        return [self._subscriptions[name] for name in sorted(self._subscriptions)]

    async def unsubscribe(self, subscription: str) -> bool:
        known = await count(self._consuming, subscription)
        self._subscriptions.pop(subscription, None)
        feed = self._feeds.pop(subscription, None)
        if feed is not None:
            await feed.close()
        if known is None:
            return False
        await self._consuming.aside(lambda channel: channel.queue_delete(subscription))
        return True

    async def backlog(self, subscription: str) -> Backlog:
        """`held` is what is in hand here; what other processes hold nobody tells. The first dead letter of another
        process may be counted up to a minute late."""
        waiting = await count(self._consuming, subscription)
        if waiting is None:
            raise NotFound(f"there is no subscription {subscription}")
        dead = await self._dead_count(self.options.dead_queue(subscription))
        feed = self._feeds.get(subscription)
        session = feed.session if feed else None
        if feed is None or session is None or session.ended:
            return Backlog(waiting, 0, dead)
        # What was on its way to us at the first answer is here at the second.
        for _ in range(2):
            _, waiting = await feed.ask(session)
        here = session.ready + session.delayed
        return Backlog(waiting + here, len(session.held) - here, dead)

    async def _dead_count(self, queue: str) -> int:
        now = time.monotonic()
        if queue not in self._declared and now < self._missing.get(queue, now):
            return 0
        found = await count(self._consuming, queue)
        if found is None:
            self._missing[queue] = now + MISSING_S
        return found or 0

    async def dead(self, subscription: str, limit: int = 100) -> Sequence[DeadLetter]:
        async with self._letters(subscription, limit) as (_, letters):
            return [_letter(subscription, letter) for letter in letters]

    async def redrive(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        async with self._letters(subscription, LETTERS_MAX) as (channel, letters):
            chosen = _chosen(letters, event_ids)
            await self._send(subscription, [wire.again(letter, subscription, _as_new(letter)) for letter in chosen])
            await channel.ack((letter.tag, False) for letter in chosen)
            return len(chosen)

    async def purge(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        async with self._letters(subscription, LETTERS_MAX) as (channel, letters):
            chosen = _chosen(letters, event_ids)
            await channel.ack((letter.tag, False) for letter in chosen)
            return len(chosen)

    async def retain(self) -> int:
        """The broker forgets what is acknowledged by itself."""
        return 0

    @contextlib.asynccontextmanager
    async def _letters(self, subscription: str, limit: int) -> AsyncIterator[tuple[SinkChannel, list[Arrived]]]:
        """Dead letters, oldest first, in our hands; those that are not acknowledged go back to their places."""
        queue = self.options.dead_queue(subscription)
        expected = min(limit, await count(self._consuming, queue) or 0, LETTERS_MAX)
        session = ConsumerSession(queue, 0, lambda: None)
        channel = await self._consuming.sink_channel(session, confirms=False)
        try:
            if expected:
                await self._consuming.call(session.consume(channel, expected))
                until = time.monotonic() + LETTERS_S_MAX
                while session.ready < expected and time.monotonic() < until:
                    await session.more()
            yield channel, session.take(expected)
            # An acknowledgement that was only written may still be lost with the channel; an answered call follows it.
            await self._consuming.call(channel.driver.basic_qos(prefetch_count=1))
        finally:
            await quietly(channel.driver)


def _chosen(letters: Sequence[Arrived], event_ids: Sequence[str] | None) -> list[Arrived]:
    return [each for each in letters if event_ids is None or wire.event_of(each).event_id in event_ids]


def _as_new(letter: Arrived) -> dict[str, str | None]:
    """What to change in the headers of a dead letter: it is what it was before it came here."""
    headers = read_brief(letter.written).headers or {}
    changes: dict[str, str | None] = dict.fromkeys(OF_A_PASSAGE)
    if wire.DIED_AT in headers:
        changes |= {wire.DIED_AT: None, wire.OWN_REASON: None, wire.SHOWN_REASON: headers.get(wire.OWN_REASON)}
    return changes


def _letter(subscription: str, message: Arrived) -> DeadLetter:
    headers = read_brief(message.written).headers or {}
    reason = wire.text_of(headers.get(wire.REASON) or headers.get(wire.SHOWN_REASON))
    deliveries = int(wire.number_of(headers.get(wire.DELIVERIES), 1.0))
    died_at = wire.number_of(headers.get(wire.DIED_AT))
    event = wire.event_of(message)
    if wire.DIED_AT in headers:
        own = {wire.SHOWN_REASON: wire.text_of(headers[wire.OWN_REASON])} if wire.OWN_REASON in headers else {}
        told = {name: value for name, value in event.headers.items() if name != wire.SHOWN_REASON}
        event = replace(event, headers={**told, **own})
    return DeadLetter(subscription, event, reason, deliveries, died_at)
