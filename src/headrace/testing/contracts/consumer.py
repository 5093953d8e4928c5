"""Consuming from a bus: a message is acknowledged after what follows from it, or refused with a reason; none is lost.

Whoever runs it brings a bus that can be looked at, and an inbox. It says more about the consumer than about the bus,
and must hold on every bus: so it runs where messages are kept in memory and where they are with a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.core.consequences import Consequence, Consumed
from headrace.core.deliveries import Backlog, Delivery, Subscription
from headrace.core.errors import (
    HeadraceError,
    MissingExtra,
    OperatorError,
    SchemaMismatch,
    Unreachable,
)
from headrace.core.events import Event
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.retry import RetryPolicy
from headrace.ports.bus import BusFeatures
from headrace.ports.outbox import Inbox
from headrace.ports.parts import StoreBus
from headrace.runtime.consumers.answers import Answers, BatchHandler
from headrace.runtime.consumers.consumer import Consumer
from headrace.runtime.consumers.options import ConsumerOptions
from headrace.testing.contracts.only import only
from headrace.testing.contracts.selection import Selected, needs
from headrace.testing.passage import Passage

NAME = "orders"
SUBSCRIPTION = Subscription(NAME, ("order.*",), deliveries_max=2)
AT_ONCE = RetryPolicy(first_s=0.0)
LIMIT_S = 60.0
LOOK_S = 0.02
CALLS_MAX = 8
"""A handler that failed so often gives in, so that a consumer that never gives up comes to an end too."""


def names(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.event.event_id for delivery in deliveries]


class Consumption:
    """A subscription, and consumers of one kind for it. Every kind of `Consumer` must do; the twins do not."""

    def __init__(self, bus: StoreBus, inbox: Inbox, kind: type[Consumer] = Consumer) -> None:
        self.bus, self.inbox, self._kind = bus, inbox, kind

    async def publish(self, *numbers: int) -> None:
        """Bodies are of any bytes."""
        events = [Event(f"m{number}", "order.placed", b"\x00\xff" + str(number).encode()) for number in numbers]
        await self.bus.publish(events)

    def consumer(self, handle: BatchHandler, inbox: Inbox | None = None, **options: Any) -> Consumer:
        wished = ConsumerOptions(**{"poll_s": LOOK_S, "retry": AT_ONCE, **options})
        return self._kind(self.bus, SUBSCRIPTION, handle, wished, inbox=inbox)

    @asynccontextmanager
    async def consuming(
        self, handle: BatchHandler, inbox: Inbox | None = None, **options: Any
    ) -> AsyncIterator[asyncio.Event]:
        """A consumer beside the block; it is stopped at its end, and has then ended what it had."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.consumer(handle, inbox, **options).run(stop))
        try:
            yield stop
        finally:
            stop.set()
            await asyncio.wait_for(running, LIMIT_S)

    async def consumed(self, handle: BatchHandler, inbox: Inbox | None = None, **options: Any) -> None:
        """Consume until nothing is left."""
        async with self.consuming(handle, inbox, **options), asyncio.timeout(LIMIT_S):
            while not await self._is_empty():
                await asyncio.sleep(LOOK_S)

    async def _is_empty(self) -> bool:
        backlog = await self.bus.backlog(NAME)
        return backlog.waiting == backlog.held == 0

    async def letters(self) -> list[tuple[str, str, bytes]]:
        """Who was refused and why, with the body."""
        found = await self.bus.dead(NAME)
        return sorted((letter.event.event_id, letter.reason, letter.event.body) for letter in found)


class WatchingInbox:
    """An inbox that is asked how many messages are in hand when something is committed."""

    def __init__(self, consumption: Consumption) -> None:
        self._consumption, self.held = consumption, list[int]()

    async def consume(self, subscription: str, event_id: str, consequence: Consequence) -> Consumed:
        self.held.append((await self._consumption.bus.backlog(NAME)).held)
        return await self._consumption.inbox.consume(subscription, event_id, consequence)


class ConsumerContract(Selected):
    """Of `Consumer`. Brings: `bus` (a bus with its operations, on which nobody has subscribed yet), `inbox`, `passage`,
    and says in `features` what the bus can do."""

    features = BusFeatures()

    @pytest.fixture
    async def consumption(self, bus: StoreBus, inbox: Inbox) -> Consumption:
        await bus.subscribe(SUBSCRIPTION)
        return Consumption(bus, inbox)

    # Handling

    async def test_messages_are_acknowledged_after_the_handler(self, consumption: Consumption) -> None:
        seen: list[str] = []
        held: list[bool] = []

        async def handle(deliveries: Sequence[Delivery]) -> None:
            seen.extend(names(deliveries))
            held.append((await consumption.bus.backlog(NAME)).held >= len(deliveries))

        await consumption.publish(*range(25))
        await consumption.consumed(handle, batch_max=10)
        assert sorted(seen) == sorted(f"m{number}" for number in range(25))
        assert all(held)
        assert await consumption.bus.backlog(NAME) == Backlog()

    async def test_no_more_run_and_wait_than_the_options_allow(self, consumption: Consumption) -> None:
        now = most = 0
        sizes: list[int] = []
        held: list[int] = []

        async def handle(deliveries: Sequence[Delivery]) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            sizes.append(len(deliveries))
            held.append((await consumption.bus.backlog(NAME)).held)
            now -= 1

        await consumption.publish(*range(60))
        await consumption.consumed(handle, batch_max=4, lanes=3, prefetch=15)
        assert most <= 3
        assert max(sizes) <= 4
        assert max(held) <= 15

    async def test_lanes_work_at_the_same_time(self, consumption: Consumption) -> None:
        both = asyncio.Barrier(2)

        async def handle(deliveries: Sequence[Delivery]) -> None:
            await both.wait()

        await consumption.publish(1, 2)
        await consumption.consumed(handle, batch_max=1, lanes=2, timeout_s=LIMIT_S / 2)
        assert await consumption.letters() == []

    async def test_what_is_published_while_it_is_idle_is_handled(self, consumption: Consumption) -> None:
        came: asyncio.Queue[str] = asyncio.Queue()

        async def handle(deliveries: Sequence[Delivery]) -> None:
            for name in names(deliveries):
                came.put_nowait(name)

        async with consumption.consuming(handle, poll_s=0.5), asyncio.timeout(LIMIT_S):
            for number in range(3):
                await consumption.publish(number)
                assert await came.get() == f"m{number}"

    # Refusals

    async def test_a_refused_message_is_put_aside_with_its_reason_as_it_was(self, consumption: Consumption) -> None:
        done: list[str] = []

        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            done.extend(name for name in names(deliveries) if name not in ("m1", "m3"))
            reasons = {"m1": Dead("no job_id"), "m3": Dead("a legacy event")}
            return [reasons.get(name) for name in names(deliveries)]

        await consumption.publish(*range(5))
        await consumption.consumed(handle)
        assert sorted(done) == ["m0", "m2", "m4"]
        assert await consumption.letters() == [
            ("m1", "no job_id", b"\x00\xff1"),
            ("m3", "a legacy event", b"\x00\xff3"),
        ]

    async def test_a_refusal_that_is_raised_is_one_of_the_whole_batch(self, consumption: Consumption) -> None:
        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            raise Dead("unwanted")

        await consumption.publish(1, 2)
        await consumption.consumed(handle)
        assert [(name, reason) for name, reason, _ in await consumption.letters()] == [
            ("m1", "unwanted"),
            ("m2", "unwanted"),
        ]

    # Failures

    async def test_one_guilty_message_is_found_and_the_others_are_handled_once(self, consumption: Consumption) -> None:
        done: list[str] = []
        calls: list[int] = []

        async def handle(deliveries: Sequence[Delivery]) -> None:
            calls.append(len(deliveries))
            if "m1" in names(deliveries):
                raise ZeroDivisionError("one")
            done.extend(names(deliveries))

        await consumption.publish(*range(16))
        await consumption.consumed(handle)
        assert sorted(done) == sorted(f"m{number}" for number in range(16) if number != 1)
        assert await consumption.letters() == [("m1", "ZeroDivisionError: one", b"\x00\xff1")]

    async def test_a_message_that_always_fails_is_given_up(self, consumption: Consumption) -> None:
        failures: list[int] = []

        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            failures.extend(delivery.failures for delivery in deliveries)
            return None if len(failures) > CALLS_MAX else [Retry("not yet") for _ in deliveries]

        await consumption.publish(1)
        await consumption.consumed(handle)
        assert failures == [0, 1]
        assert [(name, reason) for name, reason, _ in await consumption.letters()] == [("m1", "not yet")]

    async def test_an_outage_is_waited_out_and_spends_nothing(self, consumption: Consumption) -> None:
        calls: list[tuple[list[str], set[int]]] = []

        async def handle(deliveries: Sequence[Delivery]) -> None:
            calls.append((names(deliveries), {delivery.failures for delivery in deliveries}))
            if len(calls) < 4:
                raise Unreachable("the database is away")

        await consumption.publish(1, 2)
        await consumption.consumed(handle)
        assert calls[:4] == [calls[0]] * 4
        assert {name for seen, _ in calls for name in seen} == {"m1", "m2"}
        assert all(failures == {0} for _, failures in calls)
        assert await consumption.letters() == []

    async def test_what_is_put_off_comes_again_and_spends_nothing(
        self, consumption: Consumption, passage: Passage
    ) -> None:
        failures: list[int] = []

        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            failures.extend(delivery.failures for delivery in deliveries)
            return [Snooze(passage.brief_s if len(failures) % 2 else 0.0) for _ in deliveries]

        await consumption.publish(1)
        async with consumption.consuming(handle), asyncio.timeout(LIMIT_S):
            while len(failures) < CALLS_MAX and not await consumption.letters():
                await passage.past(passage.brief_s)
                await asyncio.sleep(LOOK_S)
        assert failures[:CALLS_MAX] == [0] * CALLS_MAX
        assert await consumption.letters() == []

    @pytest.mark.parametrize("answer", [5, Dead, Dead(ValueError("no text"))])  # type: ignore[arg-type]
    async def test_what_is_no_answer_is_a_failure_of_its_message(self, consumption: Consumption, answer: Any) -> None:
        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            return [answer if name == "m1" else None for name in names(deliveries)]

        await consumption.publish(1, 2)
        await consumption.consumed(handle)
        name, reason, _ = only(await consumption.letters())
        assert (name, reason.startswith("the handler ")) == ("m1", True)

    @pytest.mark.parametrize("answers", [[None], "done", [None] * 9])
    async def test_answers_that_are_nobodys_are_a_failure_of_the_batch(
        self, consumption: Consumption, answers: Any
    ) -> None:
        calls: list[int] = []

        async def handle(deliveries: Sequence[Delivery]) -> Any:
            calls.append(len(deliveries))
            return None if len(deliveries) == 1 else answers

        await consumption.publish(1, 2)
        await consumption.consumed(handle)
        assert sum(count for count in calls if count == 1) >= 2

    async def test_a_handler_that_takes_too_long_has_failed(self, consumption: Consumption) -> None:
        async def handle(deliveries: Sequence[Delivery]) -> None:
            await asyncio.Event().wait()

        await consumption.publish(1)
        await consumption.consumed(handle, timeout_s=0.02)
        assert only(await consumption.letters())[1].startswith("TimeoutError")

    @pytest.mark.parametrize("kind", [SchemaMismatch, MissingExtra, OperatorError])
    async def test_what_only_an_operator_can_change_ends_it_and_loses_nothing(
        self, consumption: Consumption, kind: type[HeadraceError]
    ) -> None:
        async def handle(deliveries: Sequence[Delivery]) -> None:
            raise kind("the tables are older than this program")

        await consumption.publish(1, 2)
        with pytest.raises(kind, match="older than this program"):
            await asyncio.wait_for(consumption.consumer(handle).run(asyncio.Event()), LIMIT_S)
        backlog = await consumption.bus.backlog(NAME)
        assert (backlog.waiting, backlog.held, backlog.dead) == (2, 0, 0)

    # Stopping

    async def test_a_stop_finishes_what_is_started_and_gives_the_rest_back(self, consumption: Consumption) -> None:
        started, go_on = asyncio.Event(), asyncio.Event()
        done: list[str] = []

        async def handle(deliveries: Sequence[Delivery]) -> None:
            started.set()
            await go_on.wait()
            done.extend(names(deliveries))

        await consumption.publish(*range(5))
        async with consumption.consuming(handle, batch_max=1, prefetch=5) as stop, asyncio.timeout(LIMIT_S):
            await started.wait()
            stop.set()
            go_on.set()
        assert done == ["m0"]
        backlog = await consumption.bus.backlog(NAME)
        assert (backlog.waiting, backlog.held, backlog.dead) == (4, 0, 0)

    async def test_a_stop_gives_back_what_an_outage_keeps(self, consumption: Consumption) -> None:
        tried = asyncio.Event()

        async def handle(deliveries: Sequence[Delivery]) -> None:
            tried.set()
            raise Unreachable("for ever")

        await consumption.publish(1)
        async with consumption.consuming(handle), asyncio.timeout(LIMIT_S):
            await tried.wait()
        backlog = await consumption.bus.backlog(NAME)
        assert (backlog.waiting, backlog.held, backlog.dead) == (1, 0, 0)

    # Commit by an inbox

    async def test_with_an_inbox_a_message_is_acknowledged_after_the_commit(self, consumption: Consumption) -> None:
        inbox = WatchingInbox(consumption)

        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            return [Consequence() for _ in deliveries]

        await consumption.publish(1)
        await consumption.consumed(handle, inbox)
        assert inbox.held == [1]

    async def test_with_an_inbox_a_message_that_comes_twice_is_consumed_once(self, consumption: Consumption) -> None:
        async def handle(deliveries: Sequence[Delivery]) -> Answers:
            return [Consequence() for _ in deliveries]

        await consumption.publish(1, 2)
        await consumption.inbox.consume(NAME, "m1", Consequence())
        stop = asyncio.Event()
        consumer = consumption.consumer(handle, consumption.inbox)
        running = asyncio.create_task(consumer.run(stop))
        async with asyncio.timeout(LIMIT_S):
            while sum(consumer.observer.counts[name] for name in ("messages.consumed", "messages.repeated")) < 2:
                await asyncio.sleep(LOOK_S)
        stop.set()
        await running
        counts = consumer.observer.counts
        assert (counts["messages.consumed"], counts["messages.repeated"]) == (1, 1)

    # Losses

    @needs("holds_expire")
    async def test_a_message_whose_consumer_was_lost_runs_alone(
        self, consumption: Consumption, passage: Passage
    ) -> None:
        beside: list[list[str]] = []
        now: list[str] = []

        async def handle(deliveries: Sequence[Delivery]) -> None:
            now.extend(names(deliveries))
            for _ in range(5):
                await consumption.bus.backlog(NAME)
            if deliveries[0].alone:
                beside.append(list(now))
            for name in names(deliveries):
                now.remove(name)

        await consumption.publish(0, 1, 2)
        await consumption.bus.receive(NAME, "lost", 2, passage.brief_s)
        await passage.past(passage.brief_s)
        await consumption.consumed(handle, lanes=3)
        assert sorted(beside) == [["m0"], ["m1"]]
