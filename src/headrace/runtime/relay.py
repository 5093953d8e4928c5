"""The relay: outbox → bus. What was committed is told, at least once and in order per key.

    relay = Relay(store.outbox, bus)
    await relay.run()           # until somebody calls relay.drain()

Any number may run. One that is killed between telling and noting it leaves a batch that another tells again, under the
same event ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headrace.core.claims import HOLD_S
from headrace.core.errors import CallerError, HeadraceError, suppress_healing
from headrace.core.events import PUBLISH_EVENTS_MAX, Event
from headrace.core.topics import check_topic
from headrace.ports.bus import EventPublisher
from headrace.ports.outbox import Outbox
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import Pace
from headrace.runtime.seams import Seams

REFUSED_DELAY_S = 60.0
# A subscriber that starts together with the relay is there within a second; one that is installed later finds its
# events within the longest pause, and until then they cost one batch every so often.
UNROUTED_DELAY_S_MIN = 0.5
UNROUTED_DELAY_S_MAX = 5.0

BeforePublish = Callable[[Sequence[Event]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """`batch_max` events are held for `hold_s` at a time. `poll_s`: how long an idle relay trusts that it would be
    woken. `topics`: it publishes events of these only, in order per key among them; empty: all. `keep_unrouted`: what
    nobody subscribes to is published again after growing pauses, and holds up only its key; otherwise it counts as
    published. `before` is awaited with the events that are about to be published, again with every repeat: whoever
    receives one finds done what it did. `id` is made up when it is empty."""

    batch_max: int = 500
    hold_s: float = HOLD_S
    poll_s: float = 0.25
    topics: tuple[str, ...] = ()
    keep_unrouted: bool = False
    before: BeforePublish | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.batch_max <= PUBLISH_EVENTS_MAX or min(self.hold_s, self.poll_s) <= 0:
            raise CallerError(f"{self!r} cannot work", f"times above 0, batch_max from 1 to {PUBLISH_EVENTS_MAX}")
        for topic in self.topics:
            check_topic(topic)


class Relay:
    """Tells a bus what an outbox holds. `run` is for one use."""

    def __init__(
        self, outbox: Outbox, bus: EventPublisher, seams: Seams | None = None, options: RelayOptions | None = None
    ) -> None:
        seams, self._options = seams or Seams(), options or RelayOptions()
        self.id = self._options.id or seams.identity.new()
        self.observer = Observer(self.id)
        self._outbox, self._bus, self._clock = outbox, bus, seams.clock
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
        answers = BusAnswers()
        try:
            for events in runs(batch.events) if options.keep_unrouted else [batch.events]:
                await self._publish(events, answers)
        except HeadraceError as error:
            if error.heals:
                # What is not given back comes again when the hold has passed.
                with suppress_healing():
                    await self._outbox.release(batch.fence, ids(batch.events))
            raise
        await self._note(batch.fence, answers)
        return len(answers.told)

    async def _publish(self, events: Sequence[Event], answers: BusAnswers) -> None:
        """Ask the bus to take them; one by one if it refuses one of them for good, so that the others go."""
        ready = answers.ready(events)
        if not ready:
            return
        try:
            if self._options.before is not None:
                await self._options.before(ready)
            routed = await self._bus.publish(ready)
        except CallerError as error:
            if len(ready) > 1:
                for event in ready:
                    await self._publish([event], answers)
                return
            (event,) = ready
            self.observer.event("event.refused", event_id=event.event_id, topic=event.topic, detail=str(error))
            answers.keep(event, answers.refused)
            return
        for event, known in zip(ready, routed, strict=True):
            if known or not self._options.keep_unrouted:
                answers.told.append(event)
            else:
                answers.keep(event, answers.unrouted)
        self.observer.count("events.unrouted", routed.count(False))

    async def _note(self, fence: int, answers: BusAnswers) -> None:
        if answers.refused:
            await self._outbox.release(fence, ids(answers.refused), REFUSED_DELAY_S)
        if answers.unrouted:
            first = answers.unrouted[0]
            self.observer.event("events.kept", events=len(answers.unrouted), topic=first.topic, detail="no subscriber")
            youngest_at = max(event.happened_at for event in answers.unrouted)
            await self._outbox.release(fence, ids(answers.unrouted), unrouted_pause_s(self._clock.wall() - youngest_at))
        if answers.told:
            await self._pace.surely(self._outbox.published, fence, ids(answers.told))
            self.observer.count("events.told", len(answers.told))


class BusAnswers:
    """What the bus did with the events of one batch so far. What it does not have is kept, with all of its key behind
    it."""

    __slots__ = ("_behind", "refused", "told", "unrouted")

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.refused: list[Event] = []
        self.unrouted: list[Event] = []
        self._behind: dict[str, list[Event]] = {}

    def ready(self, events: Sequence[Event]) -> list[Event]:
        """Those that stand behind no event that was kept."""
        found = []
        for event in events:
            if event.key in self._behind:
                self._behind[event.key].append(event)
            else:
                found.append(event)
        return found

    def keep(self, event: Event, kept: list[Event]) -> None:
        kept.append(event)
        if event.key:
            self._behind[event.key] = kept


def runs(events: Sequence[Event]) -> list[list[Event]]:
    """Split so that the events of a key in one part have one topic: whether anybody subscribes to it is known before
    the next topic of the key is published."""
    parts: list[list[Event]] = []
    last: dict[str, tuple[str, int]] = {}
    for event in events:
        topic, number = last.get(event.key, (event.topic, 0)) if event.key else (event.topic, 0)
        number += topic != event.topic
        last[event.key] = (event.topic, number)
        if number == len(parts):
            parts.append([])
        parts[number].append(event)
    return parts


def unrouted_pause_s(age_s: float) -> float:
    """As long again as it has waited: the pauses double, and nobody has to count them."""
    return min(max(age_s, UNROUTED_DELAY_S_MIN), UNROUTED_DELAY_S_MAX)


def ids(events: Sequence[Event]) -> list[str]:
    return [event.event_id for event in events]
