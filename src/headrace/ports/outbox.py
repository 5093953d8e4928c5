"""Outbox and inbox: events leave the account and enter it exactly as often as it changes.

An event is committed with the change it tells of, so there is none without a change and no change without its event.
A message is consumed in the transaction that applies its consequence, so a message that comes twice changes nothing
twice. Every call may be repeated as it is after a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.core.consequences import Consequence, Consumed
from headrace.core.events import Batch, Event, Lag


class Outbox(Protocol):
    async def add(self, events: Sequence[Event]) -> list[bool]:
        """Commit events of one's own, all or none. An `event_id` seen before is the same event: False, and the
        first stays as it is."""

    async def claim(self, relay: str, room: int, hold_s: float, topics: Sequence[str] = ()) -> Batch:
        """Take up to `room` unpublished events, oldest first, and hold them for `hold_s` by the store's clock.

        With `topics`, only events of these; those of other topics hold up nothing. Nobody else gets the batch
        meanwhile; a hold that has passed is taken over. An event is not granted before all earlier ones of its key
        (and of `topics`) are published or in the same batch. Nothing to publish is an empty batch.
        """

    async def published(self, fence: int, event_ids: Sequence[str]) -> int:
        """The bus has these events of the batch; how many of them stand as published under this fence. Those that
        somebody has taken over are left to him."""

    async def release(self, fence: int, event_ids: Sequence[str], delay_s: float = 0.0) -> None:
        """Give back events of the batch that the bus does not have; they can be claimed after `delay_s`."""

    async def forget(self, key: str) -> int:
        """Drop the unpublished events of this key that an application added; how many. One that a relay holds may still
        be published. A job's own events stay."""

    async def lag(self, topics: Sequence[str] = ()) -> Lag:
        """How far the bus is behind, in one snapshot; with `topics`, in events of these."""

    async def retain(self) -> int:
        """Drop a bounded number of published events of one's own, consumed inbox rows and finished ledger accounts that
        are past their time; the number of rows. Unpublished events stay. A job's events go with the job."""

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` (from any thread, soon and seldom) when there may be events; the answer unsubscribes. A lost ring
        is made up for by polling."""


class Inbox(Protocol):
    async def consume(self, subscription: str, event_id: str, consequence: Consequence) -> Consumed:
        """Apply the consequence of a message, once per (subscription, event_id): inbox row and consequence are one
        transaction. A consequence that the account or the ledger refuses raises, and the message counts as not
        consumed: `NotFound` if it speaks of a job or an account that is not there."""
