"""The inlet consumes every message once, and no message holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from runtime_bench import Bench, Heard
from waiting import PATIENCE_S, eventually

import headrace
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.consequences import Consequence, Consumed
from headrace.core.deliveries import Backlog, Delivery, Subscription
from headrace.core.errors import CallerError, Unknown, Unreachable
from headrace.core.events import Event
from headrace.core.ledgers import Account, Entry, Settle
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.retry import RetryPolicy
from headrace.runtime.consumers.answers import MessageHandler, one_by_one
from headrace.runtime.consumers.consumer import Consumer
from headrace.runtime.consumers.options import INLET, ConsumerOptions
from headrace.runtime.relay import Relay, RelayOptions
from headrace.testing.passage import RealPassage

ALL = Subscription("all", ("#",), deliveries_max=2)
AT_ONCE = RetryPolicy(first_s=0.0)
QUICK = replace(INLET, hold_s=2.0, poll_s=0.02, retry=AT_ONCE)


class Faulty:
    """A port that does what it is asked and then, the first `times`, loses the answer of one verb."""

    def __init__(self, port: Any, verb: str, times: int, before: bool = False) -> None:
        self._port, self._verb, self._left, self._before = port, verb, times, before

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)
        return self._unlucky(call) if name == self._verb else call

    def _unlucky(self, call: Any) -> Any:
        async def attempt(*values: Any, **named: Any) -> Any:
            if self._left and self._before:
                self._left -= 1
                raise Unreachable("nothing was sent")
            answer = await call(*values, **named)
            if self._left:
                self._left -= 1
                raise Unknown("the answer was lost")
            return answer

        return attempt


class Wordless(Dead):
    """An outcome that leaves its fields away."""

    def __init__(self) -> None:
        pass


@asynccontextmanager
async def running(
    store: SqliteStore, handler: MessageHandler, options: ConsumerOptions = QUICK, **ports: Any
) -> AsyncIterator[Consumer]:
    bus, inbox = ports.get("bus", store.bus), ports.get("inbox", store.inbox)
    inlet = Consumer(bus, ports.get("subscription", ALL), one_by_one(handler), options, inbox=inbox)
    task = asyncio.ensure_future(inlet.run())
    try:
        yield inlet
    finally:
        inlet.drain()
        await asyncio.wait_for(task, PATIENCE_S)


def message(number: int, topic: str = "page.found") -> Event:
    return Event(f"m{number}", topic, str(number).encode())


async def publish(store: SqliteStore, count: int, first: int = 0) -> None:
    await store.bus.subscribe(ALL)
    await store.bus.publish([message(number) for number in range(first, first + count)])


async def empty(store: SqliteStore) -> bool:
    backlog = await store.bus.backlog("all")
    return backlog.waiting == backlog.held == 0


async def count(delivery: Delivery) -> Consequence:
    return Consequence(postings=(Settle("acme/p1", (Entry(delivery.event.event_id),)),))


async def counted(store: SqliteStore) -> int:
    tally = await store.ledger.tally("acme/p1")
    assert tally is not None
    return tally.done


@pytest.fixture
async def ledger(store: SqliteStore) -> None:
    await store.ledger.open(Account("acme/p1"))


async def test_an_event_closes_a_stage_and_the_end_of_the_job_is_told(store: SqliteStore, bench: Bench) -> None:
    flow = headrace.Flow("orders")

    @flow.stage
    async def read(order: int) -> None: ...

    flow.external("approve", after="read")

    async def approve(delivery: Delivery) -> Consequence:
        return Consequence(closes=((delivery.event.body.decode(), "approve"),))

    job = await bench.submit(flow, 1)
    await store.bus.subscribe(Subscription("ends", ("job.completed",)))
    relay = Relay(store.outbox, store.bus, options=RelayOptions(poll_s=0.02))
    relaying = asyncio.ensure_future(relay.run())
    approvals = Subscription("approvals", ("order.approved",))
    async with bench.worker(flow), running(store, approve, subscription=approvals):
        await store.outbox.add(
            [Event("a1", "order.approved", job.encode()), Event("a2", "order.approved", job.encode())]
        )
        await bench.ended(job)
        await eventually(lambda: told(store), "the end of the job is told")
    relay.drain()
    await relaying
    (end,) = (await store.bus.receive("ends", "test", 10, 30.0)).deliveries
    assert end.event.event_id == f"{job}.1.completed"


async def told(store: SqliteStore) -> bool:
    return (await store.outbox.lag()).unpublished == 0


async def test_every_message_is_consumed_and_acknowledged(store: SqliteStore, ledger: None) -> None:
    await publish(store, 100)
    async with running(store, count) as inlet:
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 100
    assert inlet.observer.counts["messages.consumed"] == 100


async def test_a_message_published_while_idle_is_consumed_at_once(store: SqliteStore, ledger: None) -> None:
    await publish(store, 1)
    async with running(store, count, replace(INLET, poll_s=600.0)):
        await eventually(lambda: empty(store), "every message is consumed")
        await publish(store, 1, first=1)
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 2


@pytest.mark.parametrize("before", [True, False])
async def test_a_lost_answer_of_the_store_consumes_once(store: SqliteStore, ledger: None, before: bool) -> None:
    await publish(store, 5)
    async with running(store, count, inbox=Faulty(store.inbox, "consume", 3, before)) as inlet:
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 5
    counts = inlet.observer.counts
    assert counts["messages.consumed"] + counts["messages.repeated"] == 5
    assert counts["messages.repeated"] == (0 if before else 3)


@pytest.mark.parametrize("verb", ["receive", "ack", "subscribe"])
async def test_a_bus_that_loses_answers_costs_time_only(store: SqliteStore, ledger: None, verb: str) -> None:
    await publish(store, 5)
    options = replace(QUICK, hold_s=0.3)
    async with running(store, count, options, bus=Faulty(store.bus, verb, 2)):
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 5
    assert not await store.bus.dead("all")


async def test_an_acknowledgement_that_never_arrives_brings_a_repeat(store: SqliteStore, ledger: None) -> None:
    await publish(store, 3)
    options = replace(QUICK, hold_s=0.3)
    async with running(store, count, options, bus=Faulty(store.bus, "ack", 6, before=True)) as inlet:
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 3
    assert inlet.observer.counts["messages.repeated"] >= 1


async def test_a_message_that_always_fails_dies_with_its_reason_and_holds_up_nobody(
    store: SqliteStore, ledger: None
) -> None:
    async def handle(delivery: Delivery) -> Consequence:
        if delivery.event.event_id == "m0":
            raise ValueError("cannot be read")
        return await count(delivery)

    await publish(store, 10)
    async with running(store, handle, replace(QUICK, lanes=1, prefetch=1)):
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 9
    (letter,) = await store.bus.dead("all")
    assert (letter.event.event_id, letter.reason, letter.deliveries) == ("m0", "ValueError: cannot be read", 2)


async def test_a_failure_is_logged_with_its_traceback(store: SqliteStore, heard: Heard) -> None:
    async def handle(delivery: Delivery) -> Any:
        if delivery.event.event_id == "m0":
            raise ValueError("cannot be read")
        raise Dead("unwanted")

    await publish(store, 2)
    async with running(store, handle):
        await eventually(lambda: empty(store), "every message is dealt with")
    failed, dead = heard.of("message.failed"), heard.of("message.dead")
    assert [level for level, _ in failed] == ["WARNING", "WARNING"]
    assert all("event_id=m0" in line and "ValueError: cannot be read" in line.splitlines()[-1] for _, line in failed)
    assert [(level, "in handle" in line) for level, line in dead] == [("ERROR", True)]


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, SystemExit, GeneratorExit, Wordless], ids=lambda error: error.__name__
)
async def test_no_lane_ends_of_what_its_handler_raises(
    store: SqliteStore, ledger: None, error: type[BaseException]
) -> None:
    """A lane that ended would not be missed, and its message would be held for ever."""

    async def handle(delivery: Delivery) -> Consequence:
        if delivery.event.event_id == "m0":
            raise error
        return await count(delivery)

    await publish(store, 4)
    async with running(store, handle, replace(QUICK, lanes=1, prefetch=1)):
        await eventually(lambda: empty(store), "every message is consumed")
    assert await counted(store) == 3
    (letter,) = await store.bus.dead("all")
    assert (letter.event.event_id, letter.deliveries) == ("m0", 2)


async def test_a_handler_decides_with_outcomes(store: SqliteStore) -> None:
    seen: list[str] = []

    async def handle(delivery: Delivery) -> Any:
        seen.append(delivery.event.event_id)
        if delivery.event.event_id == "m0":
            return Dead("unwanted")
        if delivery.event.event_id == "m1" and delivery.deliveries < 5:
            raise Snooze(0.01)
        if delivery.event.event_id == "m2" and delivery.deliveries < 2:
            raise Retry("not yet", after_s=0.01)
        return None

    await publish(store, 3)
    async with running(store, handle):
        await eventually(lambda: empty(store), "every message is consumed")
    assert [(letter.event.event_id, letter.reason) for letter in await store.bus.dead("all")] == [("m0", "unwanted")]
    assert sorted(seen) == ["m0"] + ["m1"] * 5 + ["m2"] * 2


async def test_a_message_about_a_job_that_never_comes_is_put_aside(store: SqliteStore) -> None:
    async def handle(delivery: Delivery) -> Consequence:
        return Consequence(closes=(("no-such-job", "approve"),))

    await publish(store, 1)
    async with running(store, handle):
        await eventually(lambda: empty(store), "every message is consumed")
    (letter,) = await store.bus.dead("all")
    assert (letter.deliveries, "no-such-job" in letter.reason) == (2, True)


async def test_a_consequence_that_is_refused_for_good_is_put_aside_at_once(store: SqliteStore) -> None:
    async def handle(delivery: Delivery) -> Consequence:
        return Consequence(events=(Event("e1", "not a topic"),))

    await publish(store, 1)
    async with running(store, handle):
        await eventually(lambda: empty(store), "every message is consumed")
    (letter,) = await store.bus.dead("all")
    assert (letter.deliveries, "not a topic" in letter.reason) == (1, True)


async def test_no_more_run_and_wait_than_the_bounds_allow(store: SqliteStore) -> None:
    running_now, most = 0, 0
    held: list[int] = []

    async def handle(delivery: Delivery) -> None:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        held.append((await store.bus.backlog("all")).held)
        running_now -= 1

    await publish(store, 60)
    async with running(store, handle, replace(INLET, lanes=3, prefetch=7, poll_s=0.02)):
        await eventually(lambda: empty(store), "every message is consumed")
    assert most == 3
    assert max(held) <= 7


async def test_a_message_whose_consumer_was_lost_runs_alone(store: SqliteStore) -> None:
    together: list[tuple[str, ...]] = []
    now: set[str] = set()

    async def handle(delivery: Delivery) -> None:
        now.add(delivery.event.event_id)
        together.append(tuple(sorted(now)) if delivery.alone else ())
        await store.bus.backlog("all")
        now.discard(delivery.event.event_id)

    await publish(store, 3)
    await store.bus.receive("all", "lost", 2, 0.01)
    await eventually(lambda: _lost(store), "the messages of the lost consumer are free")
    async with running(store, handle):
        await eventually(lambda: empty(store), "every message is consumed")
    assert sorted(together) == [(), ("m0",), ("m1",)]


async def _lost(store: SqliteStore) -> bool:
    received = await store.bus.receive("all", "test", 0, 1.0)
    return received.wait_s is None


async def test_draining_gives_back_what_was_not_started(store: SqliteStore) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        started.set()
        await go_on.wait()

    await publish(store, 5)
    async with running(store, handle, replace(INLET, lanes=1, prefetch=5)) as inlet:
        await started.wait()
        inlet.drain()
        await eventually(lambda: _given_back(store), "four are given back")
        go_on.set()
    assert await store.bus.backlog("all") == Backlog(waiting=4)
    (first, *_) = (await store.bus.receive("all", "test", 10, 30.0)).deliveries
    assert (first.failures, first.alone) == (0, False)


async def _given_back(store: SqliteStore) -> bool:
    return (await store.bus.backlog("all")).waiting == 4


async def test_a_long_handler_keeps_its_message(store: SqliteStore) -> None:
    handled: list[str] = []

    async def handle(delivery: Delivery) -> None:
        handled.append(delivery.event.event_id)
        await RealPassage().past(2 * options.hold_s)

    await publish(store, 1)
    options = replace(INLET, hold_s=0.2, poll_s=0.02)
    async with running(store, handle, options), running(store, handle, options):
        await eventually(lambda: empty(store), "every message is consumed")
    assert handled == ["m0"]


async def test_a_handler_that_takes_too_long_has_failed(store: SqliteStore) -> None:
    async def handle(delivery: Delivery) -> None:
        await asyncio.Event().wait()

    await publish(store, 1)
    async with running(store, handle, replace(QUICK, timeout_s=0.02)):
        await eventually(lambda: empty(store), "every message is consumed")
    (letter,) = await store.bus.dead("all")
    assert letter.reason.startswith("TimeoutError")


async def test_what_cannot_go_on_is_raised(store: SqliteStore) -> None:
    class Broken:
        async def consume(self, subscription: str, event_id: str, consequence: Consequence) -> Consumed:
            raise RuntimeError("a bug")

    await publish(store, 1)
    inlet = Consumer(store.bus, ALL, one_by_one(count), QUICK, inbox=Broken())
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(inlet.run(), PATIENCE_S)


@pytest.mark.parametrize(
    "options", [{"lanes": 0}, {"lanes": 9, "prefetch": 8}, {"hold_s": 0.0}, {"batch_max": 0}, {"batch_max": 1_001}]
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CallerError):
        ConsumerOptions(**options)
