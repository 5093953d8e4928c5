"""Who has which message, and how acknowledgements are put together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from rabbit_traffic import holds, names, pages, take
from waiting import turn

from headrace.adapters.rabbitmq import RabbitBus
from headrace.adapters.rabbitmq.codec import Arrived, write_properties
from headrace.adapters.rabbitmq.sessions import ConsumerSession
from headrace.testing.rig.rabbitmq import Queue, RabbitServer

MESSAGES = 60


def session_with(count: int, kind: type[ConsumerSession] = ConsumerSession) -> ConsumerSession:
    session = kind("queue", 1, lambda: None)
    for tag in range(1, count + 1):
        session.arrived(Arrived(tag, False, "", "topic", write_properties(f"m{tag}", 0, {})))
    return session


class Broker:
    """What a broker makes of acknowledgements."""

    def __init__(self, count: int) -> None:
        self.open = set(range(1, count + 1))

    def hear(self, answers: Sequence[tuple[int, bool]]) -> set[int]:
        gone: set[int] = set()
        for tag, multiple in answers:
            named = {each for each in self.open if each <= tag} if multiple else {tag}
            assert tag in self.open, f"an unknown delivery tag, {tag}, closes the channel"
            self.open -= named
            gone |= named
        return gone


def acknowledge_in_lanes(kind: type[ConsumerSession], seed: int) -> None:
    """Lanes of different sizes finish in any order; the broker must hear of exactly what each has finished."""
    random, session, broker = Random(seed), session_with(MESSAGES, kind), Broker(MESSAGES)
    lanes: list[list[int]] = []
    while len(taken := [message.tag for message in session.take(random.randint(1, 12))]):
        lanes.append(taken)
    random.shuffle(lanes)
    for lane in lanes:
        random.shuffle(lane)
        assert broker.hear(session.acknowledge(lane)) == set(lane)
        assert session.acknowledge(lane) == []
    assert broker.open == set()
    assert not session.held


@pytest.mark.parametrize("seed", range(20))
def test_lanes_finish_in_any_order(seed: int) -> None:
    acknowledge_in_lanes(ConsumerSession, seed)


class Hasty(ConsumerSession):
    """The broken twin: everything up to the newest of a batch, whoever has it."""

    def acknowledge(self, tags: Sequence[int]) -> list[tuple[int, bool]]:
        gone = [tag for tag in tags if self.held.pop(tag, None) is not None]
        return [(max(gone), True)] if gone else []


def test_a_session_that_acknowledges_what_others_have_is_noticed() -> None:
    with pytest.raises(AssertionError):
        acknowledge_in_lanes(Hasty, 0)


def test_a_batch_with_nothing_older_open_is_one_frame() -> None:
    session = session_with(10)
    assert session.acknowledge([message.tag for message in session.take(5)]) == [(5, True)]
    assert session.acknowledge([6]) == [(6, False)]


def test_what_is_above_an_open_message_is_acknowledged_one_by_one() -> None:
    session = session_with(6)
    first, second = session.take(2), session.take(2)
    assert session.acknowledge([message.tag for message in second]) == [(3, False), (4, False)]
    assert session.acknowledge([message.tag for message in first]) == [(2, True)]


def test_a_session_that_is_over_knows_nothing() -> None:
    session = session_with(2)
    assert session.knows(1, 2)
    assert not session.knows(1, 3)
    assert not session.knows(2, 2)
    session.end()
    assert not session.knows(1, 2)
    assert session.take(10) == []


async def test_two_lanes_of_one_queue_do_not_acknowledge_for_each_other(
    bus: RabbitBus, rabbitmq_server: RabbitServer, rabbitmq_vhost: str
) -> None:
    await bus.publish(pages(*range(20)))
    first, second = await take(bus, 10), await take(bus, 10)
    assert await bus.ack(second) == [True] * 10
    await holds(rabbitmq_server, rabbitmq_vhost, {"pages": Queue(10, 10, 1)})
    assert await bus.ack(first[3:]) == [True] * 7
    await holds(rabbitmq_server, rabbitmq_vhost, {"pages": Queue(3, 3, 1)})
    await bus.close()
    await holds(rabbitmq_server, rabbitmq_vhost, {"pages": Queue(3, 0, 0)})
    other = await RabbitBus.open(rabbitmq_vhost)
    again = await take(other, 3)
    assert names(again) == ["m0", "m1", "m2"]
    assert [delivery.deliveries for delivery in again] == [2, 2, 2]
    await other.close()


async def test_what_somebody_gave_up_giving_back_is_not_acknowledged_with_the_rest(
    bus: RabbitBus, rabbitmq_server: RabbitServer, rabbitmq_vhost: str
) -> None:
    await bus.publish(pages(1, 2, 3))
    held = await take(bus, 3)
    channel = bus._feeds["pages"]._channel
    assert channel is not None
    async with channel._writing:
        giving = asyncio.create_task(bus.requeue(held[:1]))
        await turn()
        giving.cancel()
        await asyncio.wait([giving])
    assert await bus.ack(held[1:]) == [True, True]
    await bus.close()
    await holds(rabbitmq_server, rabbitmq_vhost, {"pages": Queue(1, 0, 0)})


async def test_whoever_asks_gets_more_than_the_prefetch(bus: RabbitBus) -> None:
    await bus.publish(pages(*range(1_000)))
    held = [await take(bus, 400), await take(bus, 400)]
    assert [len(taken) for taken in held] == [400, 400]
    assert all(await bus.ack([*held[1], *held[0]]))
    assert names(await take(bus, 200)) == [f"m{number}" for number in range(800, 1_000)]


async def test_idle_lanes_stay_in_one_session(bus: RabbitBus) -> None:
    await bus.publish(pages(1))
    (first,) = await take(bus, 1)
    for _ in range(5):
        received = await asyncio.gather(*(bus.receive("pages", f"lane-{number}", 10, 30.0) for number in range(8)))
        assert [each.deliveries for each in received] == [()] * 8
    await bus.publish(pages(2))
    (second,) = await take(bus, 1)
    assert second.fence == first.fence
    assert await bus.ack([first, second]) == [True, True]
