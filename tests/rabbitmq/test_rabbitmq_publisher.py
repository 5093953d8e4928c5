"""Which message a confirmation speaks of, and what is true when one does not come."""

from __future__ import annotations

import asyncio

import pytest
from rabbit_traffic import names, pages, take
from waiting import eventually

from headrace.adapters.rabbitmq import RabbitBus
from headrace.adapters.rabbitmq.codec import Arrived, Outgoing, write_properties
from headrace.adapters.rabbitmq.publisher import Confirmations, PublishBatch
from headrace.core.errors import TooLarge, Unknown
from headrace.core.events import PUBLISH_EVENTS_MAX, Event

SOON_S = 5.0


def batch_of(*ids: str) -> PublishBatch:
    return PublishBatch([Outgoing("e", "topic", message_id, b"", b"") for message_id in ids])


def returned(message_id: str) -> Arrived:
    return Arrived(0, False, "e", "topic", write_properties(message_id, 0, {}))


def expecting(*batches: PublishBatch) -> Confirmations:
    confirmations = Confirmations()
    for batch in batches:
        confirmations.expect(batch)
    return confirmations


async def test_one_confirmation_may_be_for_many_calls() -> None:
    first, second = batch_of("a", "b"), batch_of("c")
    confirmations = expecting(first, second)
    confirmations.confirmed(2, False, True)
    assert not first.done.done()
    confirmations.confirmed(3, True, True)
    assert first.done.done()
    assert second.done.done()
    assert (first.routed, second.routed) == ([True, True], [True])


async def test_what_came_back_was_wanted_by_nobody() -> None:
    first, second = batch_of("a", "b"), batch_of("b")
    confirmations = expecting(first, second)
    confirmations.returned(returned("b"))
    confirmations.confirmed(2, True, True)
    assert (first.done.done(), first.routed) == (True, [True, False])
    confirmations.confirmed(3, False, True)
    assert second.routed == [True]


async def test_a_refusal_is_counted() -> None:
    batch = batch_of("a", "b")
    confirmations = expecting(batch)
    confirmations.confirmed(1, False, False)
    confirmations.confirmed(2, False, True)
    assert batch.done.done()
    assert batch.refused == 1


async def test_what_was_not_confirmed_when_the_channel_went_is_unknown() -> None:
    first, second = batch_of("a"), batch_of("b")
    confirmations = expecting(first, second)
    confirmations.confirmed(1, False, True)
    confirmations.lost("the line was cut")
    assert first.done.result() is None
    with pytest.raises(Unknown, match="the line was cut"):
        await second.done


async def cancel_one(bus: RabbitBus) -> None:
    """A publication that is called off before it has been handed over."""
    channel, _ = await bus._publisher._open()
    async with channel._writing:
        publishing = asyncio.create_task(bus.publish(pages(1)))
        await eventually(lambda: channel._writing._waiters, "it waits for its turn to write")
        publishing.cancel()
        await asyncio.wait([publishing])


async def test_a_publication_that_is_called_off_does_not_confirm_others(bus: RabbitBus) -> None:
    await cancel_one(bus)
    async with asyncio.timeout(SOON_S):
        assert await bus.publish([*pages(2), Event("m3", "nobody.wants.it")]) == [True, False]
        assert await bus.publish([Event("m4", "nobody.wants.it"), *pages(5)]) == [False, True]
    assert names(await take(bus, 2)) == ["m2", "m5"]
    assert bus.unrouted_count == 2


async def test_numbers_given_too_early_are_noticed(bus: RabbitBus) -> None:
    """The broken twin numbers messages before it hands them over, and one of them is then called off."""
    _, confirmations = await bus._publisher._open()
    confirmations.expect(batch_of("called off"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await bus.publish(pages(2))


async def test_a_call_has_a_limit(bus: RabbitBus) -> None:
    with pytest.raises(TooLarge, match="PUBLISH_EVENTS_MAX"):
        await bus.publish(pages(*range(PUBLISH_EVENTS_MAX + 1)))
    assert await bus.publish([]) == []


async def test_a_big_body_travels_in_parts(bus: RabbitBus) -> None:
    body = bytes(range(256)) * 4_000
    await bus.publish([Event("big", "page.found", body)])
    (delivery,) = await take(bus, 1)
    assert delivery.event.body == body


async def test_a_topic_that_cannot_be_written_leaves_the_channel_whole(bus: RabbitBus) -> None:
    with pytest.raises(TooLarge):
        await bus.publish([*pages(1), Event("m2", "ơ" * 200)])
    assert await bus.publish(pages(3)) == [True]
