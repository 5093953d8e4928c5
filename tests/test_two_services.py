"""Two services on a bus, each with a store of its own, written with public names only.

A project asks for pages; the crawler answers each request with a finding; the reader counts findings in a ledger that
announces its finish to whoever waits for it. Everything is told twice on the way in, and a message that cannot be read
goes aside without holding up the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

import headrace
from headrace.ports import (
    Account,
    Change,
    Consequence,
    Delivery,
    Entry,
    Event,
    Expect,
    Seal,
    Settle,
    Subscription,
)

PAGES = 25
PATIENCE_S = 20.0
ASKED = Subscription("crawler", ("page.asked",))
FOUND = Subscription("reader", ("page.found", "project.*"), deliveries_max=50)
FINISHED = Subscription("owner", ("ledger.finished",))


async def on_asked(delivery: Delivery) -> Consequence:
    """The crawler: each request is answered once, however often it comes."""
    page = delivery.event.event_id
    if not delivery.event.body:
        raise headrace.Dead("a request without an address", rule="empty")
    return Consequence(events=(Event(f"{page}.found", "page.found", delivery.event.body, key=delivery.event.key),))


async def on_found(delivery: Delivery) -> Consequence:
    """The reader: the project says how many there will be, each page counts once."""
    event = delivery.event
    account = f"acme/{event.key}"
    if event.topic == "project.opened":
        count = json.loads(event.body)["pages"]
        return Consequence(postings=(Account(account), Expect(account, count, event.event_id), Seal(account)))
    return Consequence(postings=(Settle(account, (Entry(event.event_id),)),))


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[headrace.Engine]:
    async with headrace.connect(f"sqlite:///{tmp_path / 'bus.db'}") as engine:
        yield engine


def requests(count: int) -> list[Event]:
    return [Event(f"p1.{number}", "page.asked", f"page {number}".encode(), key="p1") for number in range(count)]


async def next_finish(bus: headrace.Engine, consumer: str) -> Delivery | None:
    """The next announcement, or None once all that can still come has come."""
    received = await bus.bus.receive("owner", consumer, 1, 30.0)
    return received.deliveries[0] if received.deliveries else None


async def test_two_services_finish_one_project_once(bus: headrace.Engine, tmp_path: Path) -> None:
    quick: Any = {"hold_s": 5.0, "poll_s": 0.05, "retry": headrace.backoff(50, first_s=0.01, cap_s=0.05)}
    for subscription in (ASKED, FOUND, FINISHED):
        await bus.bus.subscribe(subscription)
    opened = Event("p1.opened", "project.opened", json.dumps({"pages": PAGES}).encode(), key="p1")
    # A finding that comes before its project is there waits for it.
    await bus.bus.publish([Event("p1.0.found", "page.found", key="p1")])
    for _ in range(2):
        await bus.bus.publish([opened, *requests(PAGES)])
    await bus.bus.publish([Event("p1.empty", "page.asked", key="p1")])
    async with (
        asyncio.timeout(PATIENCE_S),
        headrace.connect(f"sqlite:///{tmp_path / 'crawler.db'}") as crawler,
        headrace.connect(f"sqlite:///{tmp_path / 'reader.db'}") as reader,
        crawler.relay(bus.bus, poll_s=0.05),
        crawler.inlet(ASKED, on_asked, bus=bus.bus, **quick),
        reader.relay(bus.bus, poll_s=0.05),
        reader.inlet(FOUND, on_found, bus=bus.bus, **quick),
    ):
        first = await eventually(lambda: next_finish(bus, "first"), "the finish is announced", PATIENCE_S)
        # What is told again after the end changes nothing.
        assert await reader.outbox.add([Event("acme/p1.finished", "ledger.finished")]) == [False]
        late = Consequence(postings=(Settle("acme/p1", (Entry("one too many"),)),))
        assert not (await reader.inbox.consume("reader", "p1.0.found", late)).new
        tally = await reader.ledger.tally("acme/p1")
    assert first.event.event_id == "acme/p1.finished"
    assert json.loads(first.event.body) == {"account": "acme/p1", "total": PAGES, "done": PAGES, "errors": 0}
    assert tally is not None
    assert (tally.total, tally.done, tally.finished) == (PAGES, PAGES, True)
    assert await bus.bus.ack([first]) == [True]
    assert await next_finish(bus, "second") is None
    assert [letter.reason for letter in await bus.bus.dead("crawler")] == ["a request without an address"]


async def test_a_message_opens_one_job_and_closes_what_waits_for_it(tmp_path: Path) -> None:
    flow, greeted = headrace.Flow("greet"), []
    flow.external("approve", after="greet")

    @flow.stage
    async def greet(name: str) -> None:
        greeted.append(name)

    async with headrace.connect(f"sqlite:///{tmp_path / 'one.db'}") as engine:

        async def on_order(delivery: Delivery) -> Consequence:
            job = engine.submission(flow, delivery.event.body.decode(), key=delivery.event.event_id)
            return Consequence(submissions=(job,))

        async def greeted_all() -> bool:
            jobs = await engine.jobs()
            return bool(jobs) and jobs[0].stages["greet"].closed

        for _ in range(2):
            async with (
                asyncio.timeout(PATIENCE_S),
                engine.worker(flow),
                engine.inlet(Subscription("orders", ("order.*",)), on_order, poll_s=0.05),
            ):
                await engine.bus.publish([Event("o1", "order.placed", b"Lan")])
                await eventually(greeted_all, "the job waits for its approval", PATIENCE_S)
        (job,) = await engine.jobs()
        assert await engine.close_external(job.id, "approve", "mail-1")
        assert not await engine.close_external(job.id, "approve", "mail-2")
        assert (await engine.wait(job.id, PATIENCE_S)).state is headrace.JobState.FINISHED
    assert greeted == ["Lan"]


async def test_effects_are_read_through_the_engine(tmp_path: Path) -> None:
    flow = headrace.Flow("till")
    tables = "CREATE TABLE IF NOT EXISTS sale (cents INTEGER)"
    sink = headrace.sink(f"sqlite:///{tmp_path / 'till.db'}", tables=tables)

    @flow.stage(sink=sink)
    async def sell(cents: int, context: headrace.Context) -> None:
        await sink.once(context.effect(), Change("INSERT INTO sale VALUES (?)", (cents,)))
        if cents == 13:
            raise headrace.Dead("unlucky")

    async with headrace.connect("sqlite://") as engine, engine.worker(flow):
        job = await engine.submit_many(flow, [5, 13])
        await engine.wait(job, PATIENCE_S)
        lines = [line async for line in engine.effects(sink, job)]
        left = [line.effect.key async for line in engine.effects(sink, left_behind=True)]
    await sink.close()
    assert sorted(line.state for line in lines) == ["dead", "done"]
    assert left == [line.effect.key for line in lines if line.state == "dead"]


async def test_a_wish_that_nobody_would_hear_is_refused(bus: headrace.Engine) -> None:
    with pytest.raises(headrace.CallerError, match="pol_s"):
        bus.relay(pol_s=1.0)  # type: ignore[call-arg]
    with pytest.raises(headrace.CallerError, match="concurency"):
        bus.inlet(ASKED, on_asked, concurency=1)  # type: ignore[call-arg]


async def test_a_block_that_raises_leaves_what_was_in_hand_for_others(bus: headrace.Engine) -> None:
    begun = asyncio.Event()

    async def stuck(_: Delivery) -> None:
        begun.set()
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="enough"):
        async with asyncio.timeout(PATIENCE_S), bus.inlet(ASKED, stuck, hold_s=0.2), bus.relay():
            await bus.bus.publish(requests(1))
            await begun.wait()
            raise RuntimeError("enough")

    async def receive() -> Sequence[Delivery]:
        return (await bus.bus.receive("crawler", "next", 1, 30.0)).deliveries

    (delivery,) = await eventually(receive, "the message is given to the next", PATIENCE_S)
    assert delivery.deliveries == 2


async def test_a_relay_that_cannot_go_on_ends_the_block(bus: headrace.Engine) -> None:
    class Broken:
        """A bus that answers with an error nobody can name."""

        async def publish(self, events: list[Event]) -> list[bool]:
            raise ZeroDivisionError("a bug of an adapter")

    await bus.outbox.add(requests(1))
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(PATIENCE_S), bus.relay(Broken()):  # type: ignore[arg-type]
            await asyncio.Event().wait()
