"""The relay tells a bus everything that was committed, in order, whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest
from runtime_bench import Bench
from waiting import PATIENCE_S, eventually, turn

import headrace
from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.deliveries import Subscription
from headrace.core.errors import CallerError, Unknown, Unreachable
from headrace.core.events import Event
from headrace.ports.bus import Bus
from headrace.runtime.relay import UNROUTED_DELAY_S_MAX, UNROUTED_DELAY_S_MIN, Relay, RelayOptions, runs
from headrace.runtime.seams import Seams
from headrace.testing.passage import ManualClock

QUICK = RelayOptions(batch_max=5, hold_s=30.0, poll_s=0.02)


class Tap:
    """A bus that remembers what passed, and fails as told: `down` before publishing, `deaf` after it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.heard: list[str] = []
        self.down = self.deaf = 0
        self.refuses: set[str] = set()

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        if self.down:
            self.down -= 1
            raise Unreachable("the bus is down")
        if refused := self.refuses & {event.event_id for event in events}:
            raise CallerError(f"{refused} cannot be published")
        answer = await self._bus.publish(events)
        self.heard += [event.event_id for event in events]
        if self.deaf:
            self.deaf -= 1
            raise Unknown("the answer was lost")
        return answer


def told(number: int, key: str = "") -> Event:
    return Event(f"e{number}", "order.placed", b"", key)


@pytest.fixture
async def tap(store: SqliteStore) -> Tap:
    await store.bus.subscribe(Subscription("all", ("#",)))
    return Tap(store.bus)


@asynccontextmanager
async def running(store: SqliteStore, tap: Tap, options: RelayOptions = QUICK) -> AsyncIterator[Relay]:
    relay = Relay(store.outbox, tap, options=options)
    task = asyncio.ensure_future(relay.run())
    try:
        yield relay
    finally:
        relay.drain()
        await asyncio.wait_for(task, PATIENCE_S)


async def received(store: SqliteStore) -> list[str]:
    found = (await store.bus.receive("all", "test", 1_000, 30.0)).deliveries
    return [delivery.event.event_id for delivery in found]


async def quiet(store: SqliteStore) -> bool:
    return (await store.outbox.lag()).unpublished == 0


async def test_the_end_of_a_job_reaches_the_bus(store: SqliteStore, bench: Bench, tap: Tap) -> None:
    flow = headrace.Flow("digest")

    @flow.stage
    async def read(page: int) -> None: ...

    async with running(store, tap):
        job = await bench.submit(flow, 1, 2, 3)
        async with bench.worker(flow):
            await bench.ended(job)
        await eventually(lambda: quiet(store), "every event is told")
    assert await received(store) == [f"{job}.1.completed"]


async def test_many_batches_keep_the_order(store: SqliteStore, tap: Tap) -> None:
    await store.outbox.add([told(number, "k") for number in range(23)])
    async with running(store, tap):
        await eventually(lambda: quiet(store), "every event is told")
    assert tap.heard == [f"e{number}" for number in range(23)]


async def test_an_event_added_later_wakes_the_relay(store: SqliteStore, tap: Tap) -> None:
    async with running(store, tap, RelayOptions(poll_s=600.0)):
        await turn()
        await store.outbox.add([told(1)])
        await eventually(lambda: quiet(store), "every event is told")
    assert tap.heard == ["e1"]


async def test_a_bus_that_is_down_costs_time_and_nothing_else(store: SqliteStore, tap: Tap) -> None:
    await store.outbox.add([told(number) for number in range(8)])
    tap.down = 3
    async with running(store, tap) as relay:
        await eventually(lambda: quiet(store), "every event is told")
    assert relay.observer.counts["relay.failing"] == 3
    assert await received(store) == [f"e{number}" for number in range(8)]


async def test_a_lost_answer_is_told_again_and_heard_once(store: SqliteStore, tap: Tap) -> None:
    await store.outbox.add([told(1), told(2)])
    tap.deaf = 2
    async with running(store, tap):
        await eventually(lambda: quiet(store), "every event is told")
    assert tap.heard == ["e1", "e2"] * 3
    assert await received(store) == ["e1", "e2"]


async def test_a_refused_event_holds_up_its_own_key_only(store: SqliteStore, tap: Tap) -> None:
    await store.outbox.add([told(1, "k"), told(2, "k"), told(3, "other"), told(4)])
    tap.refuses = {"e1"}
    async with running(store, tap) as relay:
        await eventually(lambda: relay.observer.counts["events.told"] == 2, "the other two are told")
    assert tap.heard == ["e3", "e4"]
    assert relay.observer.counts["event.refused"] == 1
    assert (await store.outbox.lag()).unpublished == 2


async def test_what_nobody_subscribes_to_is_counted(store: SqliteStore) -> None:
    await store.outbox.add([told(1)])
    async with running(store, Tap(store.bus)) as relay:
        await eventually(lambda: quiet(store), "every event is told")
    assert relay.observer.counts["events.unrouted"] == 1


async def test_what_nobody_subscribes_to_is_kept_and_holds_up_only_its_key() -> None:
    clock = ManualClock()
    store = SqliteStore(InlineDatabase(), clock)
    await store.bus.subscribe(Subscription("all", ("order.*",)))
    tap = Tap(store.bus)
    relay = Relay(store.outbox, tap, Seams(clock=clock), replace(QUICK, batch_max=500, keep_unrouted=True))
    await store.outbox.add([Event("c1", "client.new", key="k"), told(1, "k"), told(2, "other"), told(3)])
    assert await relay.relay_once() == 2
    assert await received(store) == ["e2", "e3"]
    await store.bus.subscribe(Subscription("all", ("#",)))
    assert await relay.relay_once() == 0
    clock.advance(UNROUTED_DELAY_S_MIN + 0.1)
    assert await relay.relay_once() == 2
    assert await received(store) == ["c1", "e1"]
    assert await quiet(store)


async def test_an_event_without_a_subscriber_waits_longer_each_time() -> None:
    clock = ManualClock()
    store = SqliteStore(InlineDatabase(), clock)
    tap = Tap(store.bus)
    relay = Relay(store.outbox, tap, Seams(clock=clock), replace(QUICK, keep_unrouted=True))
    await store.outbox.add([told(1)])
    tries = []
    for tenth in range(300):
        before = len(tap.heard)
        await relay.relay_once()
        if len(tap.heard) > before:
            tries.append(tenth / 10)
        clock.advance(0.1)
    pauses = [later - sooner for sooner, later in pairwise(tries)]
    assert pauses[0] < 1.0
    assert all(later >= sooner - 0.11 for sooner, later in pairwise(pauses))
    assert UNROUTED_DELAY_S_MAX <= pauses[-1] <= UNROUTED_DELAY_S_MAX + 0.11
    assert (await store.outbox.lag()).unpublished == 1


async def test_what_must_be_done_before_is_done_before_every_publish(store: SqliteStore, tap: Tap) -> None:
    done: list[str] = []

    async def before(events: Sequence[Event]) -> None:
        assert tap.heard == []
        done.extend(event.event_id for event in events)
        if len(done) <= 2:
            raise Unreachable("the ledger is down")

    await store.outbox.add([told(1), told(2)])
    async with running(store, tap, replace(QUICK, before=before)):
        await eventually(lambda: quiet(store), "every event is told")
    assert tap.heard == ["e1", "e2"]
    assert done == ["e1", "e2"] * 2


@pytest.mark.parametrize(
    ("events", "parts"),
    [
        ("", []),
        ("xa xb yc", [["xa", "xb", "yc"]]),
        ("xk xk yk xk zk", [["xk", "xk"], ["yk"], ["xk"], ["zk"]]),
        ("xk yk xm ym x. y.", [["xk", "xm", "x.", "y."], ["yk", "ym"]]),
    ],
)
def test_a_part_has_one_topic_per_key(events: str, parts: list[list[str]]) -> None:
    given = [Event(name, name[0], key=name[1].strip(".")) for name in events.split()]
    assert [[event.event_id for event in part] for part in runs(given)] == parts


async def test_a_relay_killed_before_it_noted_what_it_told_is_followed_by_another() -> None:
    clock = ManualClock()
    store = SqliteStore(InlineDatabase(), clock)
    await store.bus.subscribe(Subscription("all", ("#",)))
    tap = Tap(store.bus)
    await store.outbox.add([told(1, "k"), told(2, "k")])
    killed = await store.outbox.claim("killed", 1, QUICK.hold_s)
    await tap.publish(killed.events)
    heir = Relay(store.outbox, tap, options=QUICK)
    assert await heir.relay_once() == 0
    clock.advance(QUICK.hold_s + 1)
    assert await heir.relay_once() == 2
    assert tap.heard == ["e1", "e1", "e2"]
    assert await received(store) == ["e1", "e2"]


async def test_two_relays_share_the_work(store: SqliteStore, tap: Tap) -> None:
    await store.outbox.add([told(number, f"k{number % 3}") for number in range(60)])
    async with running(store, tap), running(store, tap):
        await eventually(lambda: quiet(store), "every event is told")
    assert sorted(tap.heard) == sorted(f"e{number}" for number in range(60))
    for key in range(3):
        line = [int(name[1:]) for name in tap.heard if int(name[1:]) % 3 == key]
        assert line == sorted(line)


async def test_a_relay_of_some_topics_leaves_the_others(store: SqliteStore, tap: Tap) -> None:
    await store.outbox.add([Event("e1", "job.completed", key="k"), told(2, "k"), told(3)])
    async with running(store, tap, replace(QUICK, topics=("order.placed",))) as relay:
        await eventually(lambda: relay.observer.counts["events.told"] == 2, "its own are told")
    assert tap.heard == ["e2", "e3"]
    assert (await store.outbox.lag()).unpublished == 1


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(CallerError, match="batch_max"):
        RelayOptions(batch_max=0)
    with pytest.raises(CallerError, match="topic"):
        RelayOptions(topics=("order.*",))
