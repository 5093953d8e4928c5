"""The consumer keeps its contract on RabbitMQ, with and without a tap; what it refuses, others can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from rabbit_traffic import foreign_channel
from waiting import turn

import headrace
from headrace.adapters.rabbitmq import RabbitBus, RabbitOptions
from headrace.adapters.rabbitmq.plain_channels import PlainChannel
from headrace.consuming import Answers, Dead, Delivery, Event
from headrace.ports import Inbox
from headrace.testing.contracts import ConsumerContract
from headrace.testing.contracts.consumer import NAME, SUBSCRIPTION, Consumption
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.rabbitmq import RabbitServer


class TestConsumerOnRabbit(ConsumerContract):
    features = RabbitBus.features
    options = RabbitOptions()

    @pytest.fixture(scope="class")
    @classmethod
    def vhost(cls, rabbitmq_server: RabbitServer) -> Iterator[str]:
        with rabbitmq_server.vhost() as url:
            yield url

    @pytest.fixture
    async def bus(self, vhost: str) -> AsyncIterator[RabbitBus]:
        bus = await RabbitBus.open(vhost, self.options)
        yield bus
        for queue in (NAME, f"{NAME}.dead"):
            await bus.unsubscribe(queue)
        await bus.close()

    @pytest.fixture
    async def inbox(self) -> AsyncIterator[Inbox]:
        async with headrace.connect("sqlite:///:memory:") as engine:
            yield engine.inbox

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage()


class TestConsumerOnPlainRabbit(TestConsumerOnRabbit):
    options = RabbitOptions(plain=True)


async def refuse(deliveries: Sequence[Delivery]) -> Answers:
    return [Dead("no job_id") for _ in deliveries]


@pytest.mark.parametrize("plain", [False, True])
async def test_a_refused_message_lies_in_a_queue_of_all_with_its_reason_in_a_header(
    rabbitmq_vhost: str, plain: bool
) -> None:
    options = RabbitOptions("shop.events", dead_letters="shop.dead", plain=plain)
    bus = await RabbitBus.open(rabbitmq_vhost, options)
    async with headrace.connect("sqlite:///:memory:") as engine:
        await bus.subscribe(SUBSCRIPTION)
        theirs = {"reason": "theirs", "kept": "yes"}
        await bus.publish([Event("a", "order.placed", b'{"job":\x00\xff', headers=theirs)])
        await bus.publish([Event("b", "order.placed", b"")])
        await Consumption(bus, engine.inbox).consumed(refuse)
    async with foreign_channel(rabbitmq_vhost) as channel:
        queue = await channel.declare_queue("shop.dead", passive=True)
        letters = [await queue.get() for _ in range(2)]
        assert [letter.body for letter in letters] == [b'{"job":\x00\xff', b""]
        assert [letter.headers["reason"] for letter in letters] == ["no job_id"] * 2
    assert {letter.event.event_id: letter.event.headers for letter in await bus.dead(NAME)} == {"a": theirs, "b": {}}
    assert await bus.redrive(NAME) == 2
    received = await bus.receive(NAME, "test", 10, 30.0)
    assert sorted((each.event.event_id, dict(each.event.headers)) for each in received.deliveries) == [
        ("a", theirs),
        ("b", {}),
    ]
    await bus.close()


@pytest.mark.parametrize("plain", [False, True])
async def test_a_message_that_is_published_twice_at_once_and_wanted_by_no_queue_is_known_twice(
    rabbitmq_vhost: str, plain: bool
) -> None:
    """The driver knows what comes back by its id."""
    async with headrace.bus(rabbitmq_vhost, plain=plain) as bus:
        await bus.subscribe(SUBSCRIPTION)
        events = [Event("same", topic) for topic in ("page.found", "order.placed", "page.found", "order.placed")]
        assert sorted(await bus.publish(events[::2])) == [False, False]
        assert await bus.publish(events[1::2]) == [True, True]


async def test_a_plain_publish_that_is_cut_off_shifts_no_confirmation(rabbitmq_vhost: str) -> None:
    """A message waits for the answer to another one of its id when whoever sends it goes away."""
    events = [Event(event_id, "order.placed") for event_id in ("same", "same", "other")]
    bus = await RabbitBus.open(rabbitmq_vhost, RabbitOptions(plain=True))
    await bus.subscribe(SUBSCRIPTION)
    channel, _ = await bus._publisher._open()
    assert isinstance(channel, PlainChannel)
    cut = asyncio.ensure_future(bus.publish(events))
    while not channel._on_the_way:
        await turn()
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    async with asyncio.timeout(10.0):
        assert await bus.publish([Event("last", "order.placed")]) == [True]
    await bus.close()
