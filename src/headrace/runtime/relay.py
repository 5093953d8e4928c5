"""The relay: outbox → bus. What was committed is told, at least once and in order per key.

    relay = Relay(store.outbox, bus)
    await relay.run()           # until somebody calls relay.drain()

Any number may run. One that is killed between telling and noting it leaves a batch that another tells again, under the
same event ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.claims import HOLD_S
from headrace.core.errors import CallerError, HeadraceError, suppress_healing
from headrace.core.events import PUBLISH_EVENTS_MAX, Batch, Event
from headrace.core.topics import check_topic
from headrace.ports.bus import Bus
from headrace.ports.outbox import Outbox
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import Pace
from headrace.runtime.seams import Seams

REFUSED_DELAY_S = 60.0


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """`batch_max` events are held for `hold_s` at a time. `poll_s`: how long an idle relay trusts that it would be
    woken. `topics`: it publishes events of these only, in order per key among them; empty: all. `id` is made up when
    it is empty."""

    batch_max: int = 500
    hold_s: float = HOLD_S
    poll_s: float = 0.25
    topics: tuple[str, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.batch_max <= PUBLISH_EVENTS_MAX or min(self.hold_s, self.poll_s) <= 0:
            raise CallerError(f"{self!r} cannot work", f"times above 0, batch_max from 1 to {PUBLISH_EVENTS_MAX}")
        for topic in self.topics:
            check_topic(topic)


class Relay:
    """Tells a bus what an outbox holds. `run` is for one use."""

    def __init__(
        self, outbox: Outbox, bus: Bus, seams: Seams | None = None, options: RelayOptions | None = None
    ) -> None:
        seams, self._options = seams or Seams(), options or RelayOptions()
        self.id = self._options.id or seams.identity.new()
        self.observer = Observer(self.id)
        self._outbox, self._bus = outbox, bus
        self._pace = Pace(seams, self.observer)

    def drain(self) -> None:
        """Claim nothing more; `run` returns when the batch in hand is told."""
        self._pace.drain()

    async def run(self) -> None:
        """Relay until drained. Raises what made going on impossible."""
        pace = self._pace
        pace.start()
        unsubscribe = self._outbox.on_wake(pace.ring)
        try:
            while not pace.draining:
                pace.listen()
                try:
                    told = await self.relay_once()
                except HeadraceError as error:
                    if not error.heals:
                        raise
                    await pace.back_off("relay.failing", error)
                    continue
                pace.recovered()
                if not told:
                    await pace.rest(self._options.poll_s)
        finally:
            unsubscribe()

    async def relay_once(self) -> int:
        """Tell one batch; the number of events that were told."""
        options = self._options
        batch = await self._outbox.claim(self.id, options.batch_max, options.hold_s, options.topics)
        if not batch.events:
            return 0
        try:
            told = await self._tell(batch)
        except HeadraceError as error:
            if error.heals:
                # What is not given back comes again when the hold has passed.
                with suppress_healing():
                    await self._outbox.release(batch.fence, ids(batch.events))
            raise
        if told:
            await self._pace.surely(self._outbox.published, batch.fence, ids(told))
            self.observer.count("events.told", len(told))
        return len(told)

    async def _tell(self, batch: Batch) -> Sequence[Event]:
        try:
            self._note_unrouted(batch.events, await self._bus.publish(batch.events))
            return batch.events
        except CallerError:
            return await self._tell_one_by_one(batch)

    async def _tell_one_by_one(self, batch: Batch) -> Sequence[Event]:
        """The bus refuses one of them for good: that one waits, and all of its key behind it; the others go."""
        told: list[Event] = []
        kept: list[Event] = []
        for event in batch.events:
            if event.key and any(event.key == other.key for other in kept):
                kept.append(event)
                continue
            try:
                self._note_unrouted([event], await self._bus.publish([event]))
                told.append(event)
            except CallerError as error:
                self.observer.event("event.refused", event_id=event.event_id, topic=event.topic, detail=str(error))
                kept.append(event)
        await self._outbox.release(batch.fence, ids(kept), REFUSED_DELAY_S)
        return told

    def _note_unrouted(self, events: Sequence[Event], routed: Sequence[bool]) -> None:
        self.observer.count("events.unrouted", sum(not known for known in routed[: len(events)]))


def ids(events: Sequence[Event]) -> list[str]:
    return [event.event_id for event in events]
