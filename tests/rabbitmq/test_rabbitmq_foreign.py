"""Programs of others on the same broker: what they made is adopted, what they send is understood."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel
from rabbit_traffic import foreign_channel, names, pages, take

import headrace
from headrace.adapters.rabbitmq import RabbitBus, RabbitOptions, codec
from headrace.core.deliveries import Backlog, Subscription
from headrace.core.errors import NotFound
from headrace.core.events import Event
from headrace.testing.rig.rabbitmq import RabbitServer

ERRORS = "analytics.errors"


async def declare_as_written(channel: AbstractChannel) -> None:
    """What a foreign service declares, by the specification."""
    await channel.declare_exchange("smap.events", ExchangeType.TOPIC, durable=True)
    await channel.declare_queue(ERRORS, durable=True)


async def test_foreign_declarations_work_before_and_after_ours(rabbitmq_vhost: str) -> None:
    async with foreign_channel(rabbitmq_vhost) as channel, headrace.bus(rabbitmq_vhost, "smap.events") as bus:
        await bus.send(ERRORS, [Event("m1", "data.collected")])
        await declare_as_written(channel)
    async with foreign_channel(rabbitmq_vhost) as channel:
        await channel.declare_queue("smap.analytics", durable=True, arguments={"x-queue-type": "quorum"})
        async with headrace.bus(rabbitmq_vhost, "smap.events") as bus:
            await bus.subscribe(Subscription("smap.analytics", ("data.collected",)))
            await bus.send(ERRORS, [Event("m2", "data.collected")])
            assert await bus.publish([Event("m3", "data.collected")]) == [True]
        await declare_as_written(channel)


async def test_a_queue_of_letters_that_is_missing_is_asked_for_once(
    bus: RabbitBus, rabbitmq_server: RabbitServer, rabbitmq_vhost: str
) -> None:
    for _ in range(3):
        assert await bus.backlog("pages") == Backlog()
    host = urlsplit(rabbitmq_vhost).path.strip("/")
    assert rabbitmq_server.log().count(f"no queue 'pages.dead' in vhost '{host}'") == 1
    await bus.publish(pages(1))
    await bus.dead_letter(await take(bus, 1), "broken")
    assert await bus.backlog("pages") == Backlog(dead=1)


async def test_a_quorum_queue_says_how_often_a_message_was_delivered(rabbitmq_vhost: str) -> None:
    async with foreign_channel(rabbitmq_vhost) as channel:
        await channel.declare_queue("pages", durable=True, arguments={"x-queue-type": "quorum"})
    async with headrace.bus(rabbitmq_vhost, prefetch=1) as bus:
        await bus.subscribe(Subscription("pages", ("page.*",)))
        await bus.publish(pages(1))
        for delivered in (1, 2, 3):
            (delivery,) = await take(bus, 1)
            assert delivery.deliveries == delivered
            assert "x-delivery-count" not in delivery.event.headers or delivered > 1
            await bus.requeue([delivery])
        # More room than the prefetch works for quorum queues as well.
        await bus.publish(pages(2, 3))
        assert sorted(names(await take(bus, 3))) == ["m1", "m2", "m3"]


async def test_a_foreign_message_is_an_event(bus: RabbitBus, rabbitmq_vhost: str) -> None:
    moment = datetime(2025, 11, 29, 10, tzinfo=UTC)
    headers = {"traceparent": "00-ab", "tries": 3, "ok": True, "at": moment, "list": ["a", 1], "none": None}
    async with foreign_channel(rabbitmq_vhost) as channel:
        exchange = await channel.get_exchange("headrace.events")
        await exchange.publish(
            Message(b"\xff{}", headers=headers, timestamp=moment, message_id="evt_001"), "page.found"
        )
        plain = Message(b"flat")
        plain.message_id = None
        await exchange.publish(plain, "page.lost")
    first, second = await take(bus, 2)
    assert first.event == Event(
        "evt_001",
        "page.found",
        b"\xff{}",
        headers={
            "traceparent": "00-ab",
            "tries": "3",
            "ok": "true",
            "at": "2025-11-29T10:00:00+00:00",
            "list": '["a", 1]',
            "none": "",
        },
        happened_at=moment.timestamp(),
    )
    assert (second.event.topic, second.event.body) == ("page.lost", b"flat")
    assert second.event.event_id


async def test_our_events_are_plain_messages_for_others(bus: RabbitBus, rabbitmq_vhost: str) -> None:
    await bus.publish([Event("evt_1", "page.found", b"{}", "key", {"traceparent": "00-ab"}, 1_700_000_000.0)])
    async with foreign_channel(rabbitmq_vhost) as channel:
        message = await (await channel.get_queue("pages")).get()
        assert (message.message_id, message.body, message.routing_key) == ("evt_1", b"{}", "page.found")
        assert message.delivery_mode is DeliveryMode.PERSISTENT
        assert message.headers["traceparent"] == "00-ab"
        assert message.timestamp == datetime.fromtimestamp(1_700_000_000, UTC)
        await message.ack()


async def test_a_message_that_always_fails_ends_as_a_dead_letter_and_holds_up_nobody(
    bus: RabbitBus, rabbitmq_vhost: str
) -> None:
    async with foreign_channel(rabbitmq_vhost) as channel:
        exchange = await channel.get_exchange("headrace.events")
        poison = Message(b"\x00poison\xff", headers={"tries": 3}, content_type="text/plain", expiration=60)
        poison.message_id = None
        await exchange.publish(poison, "page.found")
    ended, event_id = [], ""
    for number in range(1, 4):
        await bus.publish(pages(number))
        for delivery in await take(bus, 2):
            if delivery.event.body.startswith(b"\x00"):
                assert delivery.failures == number - 1
                event_id = event_id or delivery.event.event_id
                assert (delivery.event.event_id, delivery.event.topic) == (event_id, "page.found")
                assert await bus.requeue([delivery], reason=f"failure {number}") == [True]
            else:
                ended += names([delivery])
                assert await bus.ack([delivery]) == [True]
    assert ended == ["m1", "m2", "m3"]
    (letter,) = await bus.dead("pages")
    assert (letter.event.event_id, letter.reason, letter.deliveries) == (event_id, "failure 3", 3)
    async with foreign_channel(rabbitmq_vhost) as channel:
        queue = await channel.declare_queue("pages.dead", durable=True)
        message = await queue.get()
        assert (message.body, message.message_id) == (b"\x00poison\xff", event_id)
        assert (message.headers["tries"], message.content_type, message.expiration) == (3, "text/plain", None)
        assert message.headers["x-headrace-reason"] == "failure 3"
        assert message.headers["x-headrace-topic"] == "page.found"
        await message.ack()


async def test_a_message_that_breaks_other_clients_does_not_break_the_line(bus: RabbitBus, rabbitmq_vhost: str) -> None:
    """A time in the far future, as those who write microseconds send it, and a message in another's name."""
    async with foreign_channel(rabbitmq_vhost) as channel:
        exchange = await channel.get_exchange("headrace.events")
        message = Message(b"far", user_id="guest", headers={"bytes": bytearray(b"\xff")})
        await exchange.publish(message, "page.found")
    await bus._publisher.publish([far_away()])
    deliveries = await take(bus, 2)
    assert [delivery.event.body for delivery in deliveries] == [b"far", b"further"]
    assert await bus.requeue(deliveries, reason="again") == [True, True]
    assert sorted(delivery.failures for delivery in await take(bus, 2)) == [1, 1]


def far_away() -> codec.Outgoing:
    flags = codec.FLAGS.pack(codec.HAS_MODE | codec.HAS_ID | codec.HAS_TIME)
    written = flags + codec.PERSISTENT + codec.short("far") + codec.LONG.pack(1_764_410_400_000_000_000)
    return codec.Outgoing("headrace.events", "page.found", "far", written, b"further")


async def test_a_letter_is_sent_to_a_queue_as_it_is(rabbitmq_vhost: str) -> None:
    letter = Event("stable-id", "data.collected", b"\x00original\xff", headers={"reason": "no blob", "attempt": "3"})
    async with headrace.bus(rabbitmq_vhost, "smap.events") as bus, foreign_channel(rabbitmq_vhost) as channel:
        await bus.send(ERRORS, [letter])
        queue = await channel.declare_queue(ERRORS, durable=True)
        message = await queue.get()
        assert (message.body, message.message_id) == (letter.body, "stable-id")
        assert {name: message.headers[name] for name in letter.headers} == dict(letter.headers)
        await message.ack()
        await queue.delete()
        await bus.send(ERRORS, [letter])
        assert (await (await channel.get_queue(ERRORS)).get()).body == letter.body


async def test_dead_letters_go_where_they_are_wanted(rabbitmq_vhost: str) -> None:
    bus = await RabbitBus.open(rabbitmq_vhost, RabbitOptions(dead_letters=ERRORS))
    await bus.subscribe(Subscription("pages", ("page.*",)))
    await bus.publish(pages(1))
    assert await bus.dead_letter(await take(bus, 1), "unreadable") == [True]
    assert [(letter.event.event_id, letter.reason) for letter in await bus.dead("pages")] == [("m1", "unreadable")]
    async with foreign_channel(rabbitmq_vhost) as channel:
        assert (await (await channel.get_queue(ERRORS)).get()).body == b"body 1"
    await bus.close()


async def test_a_queue_of_others_is_consumed_without_a_subscription(rabbitmq_vhost: str) -> None:
    async with foreign_channel(rabbitmq_vhost) as channel, headrace.bus(rabbitmq_vhost) as bus:
        with pytest.raises(NotFound):
            await bus.receive("theirs", "test", 1, 30.0)
        await channel.declare_queue("theirs", durable=True)
        await channel.default_exchange.publish(Message(b"body"), "theirs")
        (delivery,) = await take(bus, 1, "theirs")
        assert delivery.event.body == b"body"
