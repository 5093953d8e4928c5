"""A consumer brings every message to its end, whatever its handler meets on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

import headrace
from headrace import HeadraceError, OperatorError
from headrace.errors import MissingExtra, SchemaMismatch
from headrace.ports import Backlog, Delivery, Event, StoreBus, StoreFull, Subscription, Unknown, Unreachable
from headrace.services import bare_errors
from headrace_smap.consumer import BatchIntake, Consumer, Handle

SUBSCRIPTION = Subscription("posts", ("data.collected",), deliveries_max=2)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[StoreBus]:
    async with headrace.connect(f"sqlite:///{tmp_path / 'bus.db'}") as engine:
        await engine.bus.subscribe(SUBSCRIPTION)
        yield engine.bus


class Wrapped:
    """A bus with something about it."""

    def __init__(self, bus: StoreBus) -> None:
        self.bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bus, name)


@asynccontextmanager
async def consuming(bus: Any, handle: Handle, **options: float) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    intake = BatchIntake(SUBSCRIPTION, handle, room=int(options.get("room", 10)), lanes=int(options.get("lanes", 1)))
    running = asyncio.create_task(Consumer(bus, intake, "test").run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(running, 60)


async def publish(bus: StoreBus, *numbers: int) -> None:
    await bus.publish([Event(f"e{number}", "data.collected", str(number).encode()) for number in numbers])


async def empty(bus: StoreBus) -> bool:
    left = await bus.backlog("posts")
    return left.waiting + left.held == 0


async def test_messages_come_in_batches_and_are_acknowledged_after_the_handler(bus: StoreBus) -> None:
    batches: list[list[str]] = []

    async def handle(deliveries: Sequence[Delivery]) -> None:
        batches.append([delivery.event.body.decode() for delivery in deliveries])
        assert (await bus.backlog("posts")).held == len(deliveries)

    await publish(bus, *range(25))
    async with consuming(bus, handle):
        await eventually(lambda: empty(bus), "all is consumed")
    assert [len(batch) for batch in batches] == [10, 10, 5]


@pytest.mark.parametrize("kind", [Unreachable, Unknown, StoreFull])
async def test_a_failure_that_passes_is_met_by_the_same_call_again(bus: StoreBus, kind: type[HeadraceError]) -> None:
    calls: list[int] = []

    async def handle(deliveries: Sequence[Delivery]) -> None:
        calls.append(len(deliveries))
        if len(calls) < 3:
            raise kind("the database is away")

    await publish(bus, 1, 2)
    async with consuming(bus, handle):
        await eventually(lambda: empty(bus), "all is consumed")
    assert calls == [2, 2, 2]
    assert await bus.backlog("posts") == Backlog()


@pytest.mark.parametrize("kind", [SchemaMismatch, MissingExtra, OperatorError])
@pytest.mark.parametrize("where", ["handler", "bus"])
async def test_a_failure_that_needs_an_operator_ends_the_consumer_with_its_words(
    bus: StoreBus, kind: type[HeadraceError], where: str
) -> None:
    async def handle(deliveries: Sequence[Delivery]) -> None:
        raise kind("the tables are older than this program")

    await publish(bus, 1, 2)
    faced: Any = bus if where == "handler" else _Refusing(bus, kind("the tables are older than this program"))
    with pytest.raises(kind, match="older than this program"), bare_errors():
        await asyncio.wait_for(Consumer(faced, BatchIntake(SUBSCRIPTION, handle), "test").run(asyncio.Event()), 60)
    assert await bus.backlog("posts") == Backlog(waiting=2)


class _Refusing(Wrapped):
    """A bus that gives no messages, for this reason."""

    def __init__(self, bus: StoreBus, error: HeadraceError) -> None:
        super().__init__(bus)
        self.error = error

    async def receive(self, *values: Any) -> Any:
        raise self.error


async def test_one_guilty_message_is_found_and_laid_aside(bus: StoreBus) -> None:
    ended: list[str] = []

    async def handle(deliveries: Sequence[Delivery]) -> None:
        bodies = [delivery.event.body.decode() for delivery in deliveries]
        if "3" in bodies:
            raise ZeroDivisionError("three")
        ended.extend(bodies)

    await publish(bus, 1, 2, 3, 4)
    async with consuming(bus, handle):
        await eventually(lambda: empty(bus), "all is consumed")
    assert sorted(ended) == ["1", "2", "4"]
    (letter,) = await bus.dead("posts")
    assert (letter.event.event_id, letter.reason) == ("e3", "ZeroDivisionError: three")


class _Mute(Wrapped):
    """A bus that cannot count failures for now."""

    async def requeue(self, deliveries: Sequence[Delivery], delay_s: float = 0.0, reason: str = "") -> list[bool]:
        if reason:
            raise Unreachable("nothing can be published")
        return await self.bus.requeue(deliveries, delay_s)


async def test_a_failure_that_cannot_be_counted_leaves_nothing_in_hand(bus: StoreBus) -> None:
    calls: list[str] = []

    async def handle(deliveries: Sequence[Delivery]) -> None:
        calls.append(deliveries[0].event.event_id)
        if len(calls) == 1:
            raise ZeroDivisionError("once")

    await publish(bus, 1)
    async with consuming(_Mute(bus), handle):
        await eventually(lambda: empty(bus), "it came again at once, and is consumed")
    assert calls == ["e1", "e1"]


async def test_a_stop_gives_back_what_cannot_be_finished(bus: StoreBus) -> None:
    tried = asyncio.Event()

    async def handle(deliveries: Sequence[Delivery]) -> None:
        tried.set()
        raise Unreachable("for ever")

    await publish(bus, 1)
    async with consuming(bus, handle):
        await asyncio.wait_for(tried.wait(), 60)
    assert await bus.backlog("posts") == Backlog(waiting=1)


async def test_lanes_work_at_the_same_time(bus: StoreBus) -> None:
    both = asyncio.Barrier(2)

    async def handle(deliveries: Sequence[Delivery]) -> None:
        await asyncio.wait_for(both.wait(), 60)

    await publish(bus, 1, 2)
    async with consuming(bus, handle, room=1, lanes=2):
        await eventually(lambda: empty(bus), "all is consumed")
