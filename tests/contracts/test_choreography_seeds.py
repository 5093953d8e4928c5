"""Outbox and bus against a model: any order of calls, late hands and lost answers included, from a seed.

The model knows only what the ports promise. A run in which nothing was taken over would prove nothing, so that is
counted over all seeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.deliveries import Backlog, Delivery, Subscription
from headrace.core.events import Batch, Event
from headrace.testing.passage import ManualClock

SEEDS = 80
STEPS = 120
HOLD_S = 10.0
KEYS = ("a", "b", "")


@dataclass(slots=True)
class BusModel:
    """Consumers that answer late, twice or never."""

    clock: ManualClock
    store: SqliteStore
    chance: Random
    taken: list[Delivery] = field(default_factory=list)
    live: dict[str, tuple[int, float]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    published: set[str] = field(default_factory=set)
    takeovers: int = 0

    async def step(self) -> None:
        await self.chance.choice((self.publish, self.receive, self.receive, self.answer, self.answer, self.wait))()

    async def publish(self) -> None:
        names = [f"m{self.chance.randrange(40)}" for _ in range(self.chance.randint(1, 3))]
        assert all(await self.store.bus.publish([Event(name, "a.b") for name in names]))
        self.published.update(names)

    async def receive(self, room: int | None = None) -> list[Delivery]:
        asked = room or self.chance.randint(1, 4)
        received = (await self.store.bus.receive("s", "consumer", asked, HOLD_S)).deliveries
        assert len(received) <= asked
        assert not any(each.alone for each in received) or len(received) == 1
        for delivery in received:
            name = delivery.event.event_id
            assert name not in self.done, f"{name} comes again after it was dealt with"
            if name in self.live:
                fence, until = self.live[name]
                assert until < self.clock.monotonic(), f"{name} is in two hands"
                assert delivery.fence > fence
                self.takeovers += 1
            self.live[name] = delivery.fence, self.clock.monotonic() + HOLD_S
        self.taken += received
        return list(received)

    async def answer(self) -> None:
        if not self.taken:
            return
        delivery = self.chance.choice(self.taken)
        name, bus = delivery.event.event_id, self.store.bus
        last = self.live.get(name, (0, 0.0))[0] == delivery.fence
        verb = self.chance.choice(("ack", "ack", "fail", "give back", "bury", "renew"))
        if verb == "renew":
            if (await bus.renew([delivery], HOLD_S))[0]:
                assert self.live[name][1] >= self.clock.monotonic(), f"{name} was revived"
                self.live[name] = delivery.fence, self.clock.monotonic() + HOLD_S
            return
        if verb == "ack":
            (accepted,) = await bus.ack([delivery])
            self.done |= {name} if accepted else set()
        elif verb == "bury":
            (accepted,) = await bus.dead_letter([delivery], "buried")
        else:
            reason = "failed" if verb == "fail" else ""
            (accepted,) = await bus.requeue([delivery], self.chance.choice((0.0, 5.0)), reason)
        assert accepted <= last, f"{name} was answered for by somebody who had lost it"
        if accepted:
            # Whoever answers has no hold any more; the fence stays the last one until somebody else gets the message.
            self.live[name] = delivery.fence, float("-inf")

    async def wait(self) -> None:
        self.clock.advance(self.chance.choice((1.0, 4.0, HOLD_S + 1.0)))

    async def heal(self) -> None:
        """No more faults: everything ends, done or dead."""
        for _ in range(500):
            received = await self.receive(room=100)
            assert all(await self.store.bus.ack(received))
            self.done.update(delivery.event.event_id for delivery in received)
            if not received:
                self.clock.advance(HOLD_S + 1.0)
            backlog = await self.store.bus.backlog("s")
            if backlog == Backlog(dead=backlog.dead):
                break
        dead = {letter.event.event_id for letter in await self.store.bus.dead("s")}
        assert dead | self.done == self.published
        assert not dead & self.done


@dataclass(slots=True)
class OutboxModel:
    """Relays that tell late, twice or never."""

    clock: ManualClock
    store: SqliteStore
    chance: Random
    added: list[Event] = field(default_factory=list)
    held: list[tuple[Batch, float]] = field(default_factory=list)
    owners: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    unnoted: list[tuple[int, list[str]]] = field(default_factory=list)
    takeovers: int = 0

    async def step(self) -> None:
        verbs = (self.add, self.claim, self.claim, self.tell, self.tell, self.note, self.give_back, self.wait)
        await self.chance.choice(verbs)()

    async def add(self) -> None:
        start = len(self.added)
        events = [Event(f"e{n}", "a.b", key=self.chance.choice(KEYS)) for n in range(start, start + 3)]
        assert await self.store.outbox.add(events) == [True] * 3
        self.added += events

    async def claim(self) -> Batch:
        batch = await self.store.outbox.claim("relay", self.chance.randint(1, 5), HOLD_S)
        names = {event.event_id for event in batch.events}
        for other, until in self.held:
            mine = names & {event.event_id for event in other.events}
            assert not mine or until < self.clock.monotonic(), f"{mine} are held twice"
            self.takeovers += len(mine)
        self.held.append((batch, self.clock.monotonic() + HOLD_S))
        self.owners.update(dict.fromkeys(names, batch.fence))
        return batch

    async def tell(self) -> None:
        """A relay tells the start of its batch while it holds it, and notes that later, if it is not killed before."""
        if not self.held:
            return
        batch, until = self.chance.choice(self.held)
        if until >= self.clock.monotonic():
            part = [event.event_id for event in batch.events[: self.chance.randint(0, len(batch.events))]]
            self.told += part
            if self.chance.random() < 0.8:
                self.unnoted.append((batch.fence, part))

    async def note(self) -> None:
        if self.unnoted:
            fence, names = self.unnoted.pop(self.chance.randrange(len(self.unnoted)))
            own = sum(self.owners[name] == fence for name in names)
            assert await self.store.outbox.published(fence, names) == own, "what another relay holds was noted"

    async def give_back(self) -> None:
        if self.held:
            batch, _ = self.held.pop(self.chance.randrange(len(self.held)))
            names = [event.event_id for event in batch.events]
            await self.store.outbox.release(batch.fence, names, self.chance.choice((0.0, 5.0)))

    async def wait(self) -> None:
        self.clock.advance(self.chance.choice((1.0, 4.0, HOLD_S + 1.0)))

    async def heal(self) -> None:
        for _ in range(500):
            self.clock.advance(HOLD_S + 1.0)
            batch = await self.store.outbox.claim("relay", 50, HOLD_S)
            names = [event.event_id for event in batch.events]
            self.told += names
            assert await self.store.outbox.published(batch.fence, names) == len(names)
            if not names:
                break
        assert set(self.told) == {event.event_id for event in self.added}
        first = list(dict.fromkeys(self.told))
        for key in filter(None, KEYS):
            line = [event.event_id for event in self.added if event.key == key]
            assert [name for name in first if name in line] == line, f"the order of {key!r} was lost"


async def run(model: type[BusModel] | type[OutboxModel], seed: int) -> int:
    clock = ManualClock()
    store = SqliteStore(InlineDatabase(), clock)
    await store.bus.subscribe(Subscription("s", ("#",), deliveries_max=3))
    world = model(clock, store, Random(seed))
    for _ in range(STEPS):
        await world.step()
    await world.heal()
    return world.takeovers


@pytest.mark.parametrize("model", [BusModel, OutboxModel])
async def test_no_order_of_calls_loses_or_doubles_anything(model: type[BusModel] | type[OutboxModel]) -> None:
    fired: Counter[bool] = Counter()
    for seed in range(SEEDS):
        try:
            fired[await run(model, seed) > 0] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert fired[True] > SEEDS // 2, "hardly anything was taken over: these seeds prove nothing"
