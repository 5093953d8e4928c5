"""A bus on RabbitMQ: a durable topic exchange, and a durable queue for each subscription.

Two connections: one that publishes and one that consumes, because a broker short of memory stops reading from those who
publish, and acknowledgements must still arrive. What the broker cannot do is not pretended: an event published twice is
delivered twice, and a hold lasts as long as its channel.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from headrace.adapters.rabbitmq import messages as wire
from headrace.adapters.rabbitmq.codec import Arrived, Outgoing, short
from headrace.adapters.rabbitmq.declarations import bind, count, ensure_exchange, ensure_queue
from headrace.adapters.rabbitmq.feeds import PROVE_EVERY_S, Feed, Reading
from headrace.adapters.rabbitmq.lines import Line
from headrace.adapters.rabbitmq.publisher import Publisher
from headrace.adapters.rabbitmq.sessions import ConsumerSession
from headrace.core.deliveries import DELIVERIES_MAX, REASON_CHARS_MAX, RECEIVE_MAX, Delivery, Received, Subscription
from headrace.core.errors import CallerError, NotFound, TooLarge, Unreachable
from headrace.core.events import PUBLISH_EVENTS_MAX, Event, check_event
from headrace.ports.bus import BusFeatures

DEFAULT_EXCHANGE = ""
NO_HEADERS: Mapping[str, str] = {}
PREFETCH = 200
PATIENCE_S = 15.0
PREFETCH_MAX = 10_000
Ending = Callable[[Feed, ConsumerSession, Sequence[Delivery]], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class RabbitOptions:
    """`prefetch` messages come ahead of their acknowledgement, more if more is asked for. `dead_letters` names the
    queue of a subscription's dead letters. An idle consumer is proven to be one every `prove_every_s`. A broker
    that is short of memory or disk is waited for, `patience_s` long. `plain`: by the driver alone, ten times slower."""

    exchange: str = "headrace.events"
    prefetch: int = PREFETCH
    dead_letters: str = "{subscription}.dead"
    prove_every_s: float = PROVE_EVERY_S
    patience_s: float = PATIENCE_S
    plain: bool = False

    def __post_init__(self) -> None:
        if not self.exchange or not 1 <= self.prefetch <= PREFETCH_MAX or not self.dead_letters:
            raise CallerError(f"{self!r} cannot work", f"an exchange, prefetch from 1 to {PREFETCH_MAX:,}, a queue")

    def dead_queue(self, subscription: str) -> str:
        return self.dead_letters.replace("{subscription}", subscription)


class Traffic:
    """`ports.bus.QueueBus` on one broker. `unrouted_count`: events that no subscription wanted."""

    features = BusFeatures(deduplicates=False, holds_expire=False, counts_deliveries=False, fences_deliveries=False)

    def __init__(self, url: str, options: RabbitOptions) -> None:
        self.options = options
        self._consuming = Line(url, "headrace consuming", options.plain)
        self._publishing = Line(url, "headrace publishing", options.plain)
        self._publisher = Publisher(
            self._publishing, lambda: ensure_exchange(self._publishing, options.exchange), options.patience_s
        )
        self._subscriptions: dict[str, Subscription] = {}
        self._feeds: dict[str, Feed] = {}
        self._declared: set[str] = set()
        self._rings: list[Callable[[], None]] = []
        self.unrouted_count = 0

    @classmethod
    async def open(cls, url: str, options: RabbitOptions | None = None) -> Self:
        """Connect, and make the exchange if it is not there. `Unreachable`: nobody answers."""
        bus = cls(url, options or RabbitOptions())
        try:
            await ensure_exchange(bus._publishing, bus.options.exchange)
            bus._consuming.trusted = True
        except BaseException:
            await bus.close()
            raise
        return bus

    async def close(self) -> None:
        """Give back what was not acknowledged."""
        for feed in self._feeds.values():
            await feed.close()
        await self._consuming.close()
        await self._publishing.close()

    # Publishing

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        if len(events) > PUBLISH_EVENTS_MAX:
            raise TooLarge(f"{len(events):,} events are over PUBLISH_EVENTS_MAX = {PUBLISH_EVENTS_MAX:,}")
        for event in events:
            check_event(event)
        exchange = self.options.exchange
        outgoing = [wire.outgoing(exchange, event.topic, event, NO_HEADERS) for event in events]
        routed = await self._publisher.publish(outgoing)
        self.unrouted_count += routed.count(False)
        if any(routed):
            self._ring()
        return routed

    async def send(self, queue: str, events: Sequence[Event]) -> None:
        for event in events:
            check_event(event)
        await self._send(
            queue, [wire.outgoing(DEFAULT_EXCHANGE, queue, event, {wire.TOPIC: event.topic}) for event in events]
        )

    async def _send(self, queue: str, outgoing: Sequence[Outgoing]) -> None:
        """To a queue that is made if it is not there, or no longer."""
        short(queue)
        for _ in range(2):
            if queue not in self._declared:
                await ensure_queue(self._consuming, queue)
                self._declared.add(queue)
            routed = await self._publisher.publish(outgoing)
            outgoing = [message for message, known in zip(outgoing, routed, strict=True) if not known]
            if not outgoing:
                return
            self._declared.discard(queue)
        raise Unreachable(f"the queue {queue} vanishes as soon as it is made")

    # Consuming

    async def subscribe(self, subscription: Subscription) -> None:
        short(subscription.name)
        known = self._subscriptions.get(subscription.name)
        before = set(known.patterns) if known else set()
        await self._declare(subscription, before - set(subscription.patterns))
        self._subscriptions[subscription.name] = subscription

    async def receive(self, subscription: str, consumer: str, room: int, hold_s: float) -> Received:
        feed = self._feeds.get(subscription)
        if feed is None:
            feed = self._feeds.setdefault(subscription, self._new_feed(subscription))
        session, taken = await feed.receive(min(room, RECEIVE_MAX))
        deliveries = [wire.delivery_of(message, subscription, session.fence) for message in taken]
        return Received(tuple(deliveries), session.next_due_s())

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        return await self._each(deliveries, self._ack)

    async def requeue(self, deliveries: Sequence[Delivery], delay_s: float = 0.0, reason: str = "") -> list[bool]:
        if not reason and delay_s <= 0:
            return await self._each(deliveries, self._give_back)

        async def put_back(feed: Feed, session: ConsumerSession, some: Sequence[Delivery]) -> bool:
            last = self._deliveries_max(feed.queue) - 1 if reason else math.inf
            await self._bury(feed, session, [each for each in some if each.failures >= last], reason)
            living = [each for each in some if each.failures < last]
            await self._put_back(feed, session, living, (delay_s, reason))
            return await self._ack(feed, session, some)

        return await self._each(deliveries, put_back)

    async def dead_letter(self, deliveries: Sequence[Delivery], reason: str) -> list[bool]:
        async def bury(feed: Feed, session: ConsumerSession, some: Sequence[Delivery]) -> bool:
            await self._bury(feed, session, some, reason)
            return await self._ack(feed, session, some)

        return await self._each(deliveries, bury)

    async def renew(self, deliveries: Sequence[Delivery], hold_s: float) -> list[bool]:
        return [self._session_of(delivery) is not None for delivery in deliveries]

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        self._rings.append(ring)
        return lambda: self._rings.remove(ring)

    # How deliveries end

    async def _each(self, deliveries: Sequence[Delivery], call: Ending) -> list[bool]:
        """Call for the deliveries of each living session together. False: the session is over."""
        together: dict[tuple[str, int], list[Delivery]] = {}
        for delivery in deliveries:
            together.setdefault((delivery.subscription, delivery.fence), []).append(delivery)
        answers = {}
        for place, some in together.items():
            session = self._session_of(some[0])
            answers[place] = session is not None and await call(self._feeds[place[0]], session, some)
        return [answers[delivery.subscription, delivery.fence] for delivery in deliveries]

    async def _ack(self, feed: Feed, session: ConsumerSession, some: Sequence[Delivery]) -> bool:
        return await feed.acknowledge(session, [each.number for each in some])

    async def _give_back(self, feed: Feed, session: ConsumerSession, some: Sequence[Delivery]) -> bool:
        return await feed.give_back(session, [each.number for each in some])

    async def _put_back(
        self, feed: Feed, session: ConsumerSession, some: Sequence[Delivery], how: tuple[float, str]
    ) -> None:
        """The message goes to the end of its queue with its count, and is confirmed there before it is acknowledged
        here: a crash in between leaves it twice."""
        delay_s, reason = how
        outgoing = []
        for delivery, message in _with_messages(session, some):
            changes = {
                wire.DELIVERIES: str(delivery.deliveries),
                wire.FAILURES: str(delivery.failures + bool(reason)),
                wire.REASON: reason[:REASON_CHARS_MAX] or None,
                wire.DUE_AT: repr(time.time() + delay_s) if delay_s > 0 else None,
                wire.DELAY_S: repr(delay_s) if delay_s > 0 else None,
            }
            outgoing.append(wire.again(message, feed.queue, changes))
        await self._send(feed.queue, outgoing)

    async def _bury(self, feed: Feed, session: ConsumerSession, some: Sequence[Delivery], reason: str) -> None:
        queue = self.options.dead_queue(feed.queue)
        outgoing = []
        for delivery, message in _with_messages(session, some):
            changes = {
                wire.SUBSCRIPTION: delivery.subscription,
                wire.DELIVERIES: str(delivery.deliveries),
                wire.FAILURES: str(delivery.failures),
                wire.REASON: reason[:REASON_CHARS_MAX],
                wire.SHOWN_REASON: reason[:REASON_CHARS_MAX],
                wire.OWN_REASON: delivery.event.headers.get(wire.SHOWN_REASON),
                wire.DIED_AT: repr(time.time()),
                wire.DUE_AT: None,
                wire.DELAY_S: None,
            }
            outgoing.append(wire.again(message, queue, changes))
        await self._send(queue, outgoing)

    # Beside it

    def _new_feed(self, subscription: str) -> Feed:
        async def prepare() -> None:
            known = self._subscriptions.get(subscription)
            if known is not None:
                await self._declare(known, set())
            elif await count(self._consuming, subscription) is None:
                raise NotFound(f"there is no subscription {subscription}")

        reading = Reading(self.options.prefetch, self._ring, self.options.prove_every_s)
        return Feed(self._consuming, subscription, prepare, reading)

    async def _declare(self, subscription: Subscription, no_more: set[str]) -> None:
        await ensure_exchange(self._consuming, self.options.exchange)
        await ensure_queue(self._consuming, subscription.name)
        await bind(self._consuming, self.options.exchange, subscription.name, set(subscription.patterns), no_more)

    def _session_of(self, delivery: Delivery) -> ConsumerSession | None:
        feed = self._feeds.get(delivery.subscription)
        session = feed.session_of(delivery.fence) if feed else None
        return session if session is not None and session.knows(delivery.fence, delivery.number) else None

    def _deliveries_max(self, subscription: str) -> int:
        known = self._subscriptions.get(subscription)
        return known.deliveries_max if known else DELIVERIES_MAX

    def _ring(self) -> None:
        for ring in tuple(self._rings):
            ring()


def _with_messages(session: ConsumerSession, some: Sequence[Delivery]) -> list[tuple[Delivery, Arrived]]:
    """Those that are not dealt with yet: a repeated call changes nothing."""
    return [(each, session.held[each.number]) for each in some if each.number in session.held]
