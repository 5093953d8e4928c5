"""The bus: events go to everybody who subscribed, at least once.

Every call may be repeated as it is after a lost answer. Deliveries are pulled, so a consumer's prefetch is what it asks
for. A delivery belongs to its consumer until the hold time passes; then the message is delivered again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.core.deliveries import Backlog, DeadLetter, Delivery, Received, Subscription
from headrace.core.events import Event


@dataclass(frozen=True, slots=True)
class BusFeatures:
    """What a bus cannot do is said here, and the contract suite leaves out the tests that need it.

    `deduplicates`: an event published twice is delivered once. `holds_expire`: a hold ends with its time, also while
    its consumer lives, and what was lost comes alone. `counts_deliveries`: every delivery is counted, also of what was
    given back without a reason. `fences_deliveries`: who had a message before it was redriven is refused by name.
    """

    deduplicates: bool = True
    holds_expire: bool = True
    counts_deliveries: bool = True
    fences_deliveries: bool = True


class EventPublisher(Protocol):
    """What a relay needs of a bus. Whatever takes events under their ids, and knows a repeat, can be one."""

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        """Hand events to all subscriptions that match their topic, all events or none, in this order.

        An `event_id` that a subscription has had is not delivered to it again. False: nobody subscribes to the topic.
        """


class Bus(EventPublisher, Protocol):
    async def subscribe(self, subscription: Subscription) -> None:
        """Open a durable subscription: what is published from now on waits for its consumers. Again with the same
        name: the patterns are replaced, what waits stays."""

    async def receive(self, subscription: str, consumer: str, room: int, hold_s: float) -> Received:
        """Take up to `room` messages, oldest first, and hold them for `hold_s`. `NotFound`: no such subscription.

        What an expired hold had comes again, `alone`: it is then the only one of its answer. An expired hold of
        one that was alone is a failure.
        """

    async def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """These messages are dealt with. False: the hold passed and the message is with somebody else."""

    async def requeue(self, deliveries: Sequence[Delivery], delay_s: float = 0.0, reason: str = "") -> list[bool]:
        """Give messages back, to come again after `delay_s`. With a reason that is a failure, and the one that is its
        subscription's `deliveries_max`th makes a dead letter with that reason. False as in `ack`."""

    async def dead_letter(self, deliveries: Sequence[Delivery], reason: str) -> list[bool]:
        """Put messages aside for people. False as in `ack`."""

    async def renew(self, deliveries: Sequence[Delivery], hold_s: float) -> list[bool]:
        """Hold on for another `hold_s`. False: lost; an expired hold is not revived."""

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` (from any thread, soon and seldom) when there may be messages; the answer unsubscribes. A
        lost ring is made up for by polling."""


class QueueBus(Bus, Protocol):
    """A bus of queues that others use too, and that they must be able to find under a name."""

    async def send(self, queue: str, events: Sequence[Event]) -> None:
        """Put events into the one queue of this name, past all subscriptions; a plain durable queue is made if there
        is none. They are safe there when this returns. Again after a lost answer: they may be there twice."""


class BusOperations(Protocol):
    """What operators do to subscriptions."""

    async def subscriptions(self) -> Sequence[Subscription]:
        """By name."""

    async def unsubscribe(self, subscription: str) -> bool:
        """Forget a subscription and everything that waits in it. False: there was none."""

    async def backlog(self, subscription: str) -> Backlog:
        """What is before a subscription. `NotFound`: no such subscription."""

    async def dead(self, subscription: str, limit: int = 100) -> Sequence[DeadLetter]:
        """Dead letters, oldest first."""

    async def redrive(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        """Deliver dead letters again, all or these, with no failure counted; how many."""

    async def purge(self, subscription: str, event_ids: Sequence[str] | None = None) -> int:
        """Forget dead letters, all or these; how many."""

    async def retain(self) -> int:
        """Drop a bounded number of messages that all subscriptions have dealt with a day ago; the number of rows."""
