"""The broker dies, lines are cut, queues and consumers vanish: nothing is lost, and the bus consumes again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from urllib.parse import quote

import pytest
from rabbit_traffic import BACK_S_MAX, PASSING, holds, names, pages, surely_publish, take, vhost_of
from waiting import eventually, turn

import headrace
from headrace.adapters.rabbitmq import RabbitBus, RabbitOptions, feeds
from headrace.adapters.rabbitmq.sessions import ConsumerSession
from headrace.core.deliveries import Backlog, Subscription
from headrace.core.errors import Busy, OperatorError, Unknown, Unreachable
from headrace.ports import QueueBus
from headrace.testing.rig import new_server
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.rabbitmq import Queue, RabbitServer

OpenProxy = Callable[[str], Proxy]
EVENTS = 300
CHAOS_S_MAX = 60.0
CALLED_OFF = 40


async def test_a_killed_broker_comes_back_and_nothing_is_lost(bus: RabbitBus, rabbitmq_server: RabbitServer) -> None:
    await bus.publish(pages(*range(1, 10)))
    held = await take(bus, 4)
    await asyncio.to_thread(rabbitmq_server.kill)
    with pytest.raises(PASSING):
        await bus.publish(pages(10))
    with pytest.raises(PASSING):
        await bus.receive("pages", "test", 10, 30.0)
    await asyncio.to_thread(rabbitmq_server.start)

    async def routed() -> bool:
        # A broker that listens again may not know every binding yet; it says so, and the event is published again.
        return await surely_publish(bus, pages(10)) == [True]

    await eventually(routed, "the event has a queue", BACK_S_MAX)
    again = await take(bus, 10)
    assert sorted(names(again)) == sorted(f"m{number}" for number in range(1, 11))
    assert all(delivery.fence > held[0].fence for delivery in again)
    assert await bus.ack(held[:2]) == [False, False]
    assert await bus.renew(held, 30.0) == [False] * 4
    assert await bus.requeue(held[2:3], reason="late") == [False]
    assert await bus.dead_letter(held[3:], "late") == [False]
    assert await bus.renew(again, 30.0) == [True] * 10
    assert await bus.ack(again) == [True] * 10
    assert await bus.backlog("pages") == Backlog()


async def test_a_consumer_that_was_sent_away_consumes_again(
    bus: RabbitBus, rabbitmq_server: RabbitServer, rabbitmq_vhost: str
) -> None:
    await bus.publish(pages(1))
    held = await take(bus, 1)
    for _ in range(2):
        # The broker's list of connections is as old as its list of consumers.
        await holds(rabbitmq_server, rabbitmq_vhost, {"pages": Queue(1, 1, 1)})
        assert await asyncio.to_thread(rabbitmq_server.close_connections) >= 1
        again = await take(bus, 1)
        assert (names(again), again[0].deliveries) == (["m1"], 2)
        assert await bus.ack(held) == [False]
        held = again
    assert await bus.ack(held) == [True]
    await holds(rabbitmq_server, rabbitmq_vhost, {"pages": Queue(0, 0, 1)})


async def test_a_lost_confirmation_is_unknown_and_sent_again(rabbitmq_vhost: str, fault_proxy: OpenProxy) -> None:
    proxy = fault_proxy(rabbitmq_vhost)
    async with headrace.bus(proxy.url) as bus:
        await bus.subscribe(Subscription("pages", ("page.*",)))
        proxy.cut_reply_to(b"body 2")
        with pytest.raises(Unknown):
            await bus.publish(pages(1, 2, 3))
        assert await bus.publish(pages(1, 2, 3)) == [True, True, True]
        found = sorted(names(await take(bus, 6)))
        assert found == ["m1", "m1", "m2", "m2", "m3", "m3"]


async def test_a_message_that_was_cut_short_is_unknown_too(rabbitmq_vhost: str, fault_proxy: OpenProxy) -> None:
    proxy = fault_proxy(rabbitmq_vhost)
    async with headrace.bus(proxy.url) as bus:
        await bus.subscribe(Subscription("pages", ("page.*",)))
        proxy.cut_before(b"body 2")
        with pytest.raises(Unknown):
            await bus.publish(pages(1, 2))
        assert await bus.publish(pages(2)) == [True]
        assert sorted(names(await take(bus, 2))) == ["m1", "m2"]


async def test_what_is_not_confirmed_elsewhere_is_not_acknowledged_here(
    rabbitmq_vhost: str, fault_proxy: OpenProxy
) -> None:
    proxy = fault_proxy(rabbitmq_vhost)
    bus = await RabbitBus.open(proxy.url)
    await bus.subscribe(Subscription("pages", ("page.*",)))
    await bus.publish(pages(1, 2))
    held = await take(bus, 2)
    for end, call in (("dead", bus.dead_letter), ("again", partial(bus.requeue, delay_s=0.0))):
        one = held.pop()
        proxy.cut_reply_to(b"x-headrace-reason")
        with pytest.raises(Unknown):
            await call([one], reason=end)
        assert await bus.renew([one], 30.0) == [True]
        assert one.number in bus._feeds["pages"].session.held
        assert await call([one], reason=end) == [True]
    assert {(letter.event.event_id, letter.reason) for letter in await bus.dead("pages")} == {("m2", "dead")}
    assert {(each.event.event_id, each.failures) for each in await take(bus, 2)} == {("m1", 1)}
    await bus.close()


async def test_a_line_that_breaks_all_the_time_loses_nothing(rabbitmq_vhost: str, fault_proxy: OpenProxy) -> None:
    """Two buses over one line that is reset again and again, at whatever moment that is."""
    proxy, heard = fault_proxy(rabbitmq_vhost), set[str]()
    wanted = {f"m{number}" for number in range(EVENTS)}
    async with headrace.bus(proxy.url, prefetch=20) as first, headrace.bus(proxy.url, prefetch=20) as second:
        await first.subscribe(Subscription("pages", ("page.*",)))

        async def tell() -> None:
            for number in range(0, EVENTS, 10):
                await surely_publish(second, pages(*range(number, number + 10)))

        async def listen(bus: QueueBus) -> None:
            while heard != wanted:
                try:
                    received = await bus.receive("pages", "test", 7, 30.0)
                    await bus.ack(received.deliveries[:-1])
                    await bus.requeue(received.deliveries[-1:])
                    heard.update(names(received.deliveries[:-1] or received.deliveries))
                except PASSING:
                    await turn()

        async def cut() -> None:
            while heard != wanted:
                before = len(heard)
                proxy.reset()
                await eventually(lambda before=before: len(heard) > before or heard == wanted, "more comes", BACK_S_MAX)

        async with asyncio.timeout(CHAOS_S_MAX), asyncio.TaskGroup() as group:
            for task in (tell(), listen(first), listen(second), cut()):
                group.create_task(task)
        assert heard == wanted


async def test_a_deleted_queue_is_made_again(
    bus: RabbitBus, rabbitmq_server: RabbitServer, rabbitmq_vhost: str
) -> None:
    await bus.publish(pages(1))
    assert names(await take(bus, 1)) == ["m1"]
    place = quote(vhost_of(rabbitmq_vhost), safe="")
    await asyncio.to_thread(rabbitmq_server.manage, "DELETE", f"queues/{place}/pages")

    async def heard() -> bool:
        await surely_publish(bus, pages(2))
        return bool((await bus.receive("pages", "test", 10, 30.0)).deliveries)

    await eventually(heard, "the queue is there again and consumed")


async def test_a_deleted_exchange_is_made_again(
    bus: RabbitBus, rabbitmq_server: RabbitServer, rabbitmq_vhost: str
) -> None:
    await bus.publish(pages(1))
    place = quote(vhost_of(rabbitmq_vhost), safe="")
    await asyncio.to_thread(rabbitmq_server.manage, "DELETE", f"exchanges/{place}/headrace.events")
    with pytest.raises(PASSING):
        await bus.publish(pages(2))
    assert await surely_publish(bus, pages(2)) == [False]
    assert bus.unrouted_count == 1
    await bus.subscribe(Subscription("pages", ("page.*",)))
    assert await surely_publish(bus, pages(2)) == [True]


async def deafen(bus: RabbitBus) -> ConsumerSession:
    """Stop the consumer behind the back of its session: nobody tells it, and nothing comes any more."""
    await bus.receive("pages", "test", 1, 30.0)
    feed = bus._feeds["pages"]
    assert feed.session is not None
    assert feed._channel is not None
    await feed._channel.driver.basic_cancel(feed.session._consumer)
    return feed.session


async def test_a_consumer_that_has_become_deaf_is_found_out(bus: RabbitBus) -> None:
    deaf = await deafen(bus)
    await bus.publish(pages(1))
    heard = await take(bus, 1)
    assert names(heard) == ["m1"]
    assert heard[0].fence > deaf.fence


class Trusting(feeds.Feed):
    """The broken twin: it never asks whether it still consumes."""

    async def prove(self, session: ConsumerSession) -> None:
        pass


async def test_a_feed_that_never_asks_stays_deaf(bus: RabbitBus) -> None:
    feed = bus._new_feed("pages")
    bus._feeds["pages"] = Trusting(feed._line, feed.queue, feed._prepare, feed._reading)
    await deafen(bus)
    await bus.publish(pages(1))
    assert [await bus.receive("pages", "test", 1, 30.0) for _ in range(5)][-1].deliveries == ()


async def test_a_channel_that_the_broker_closes_is_opened_again(bus: RabbitBus) -> None:
    """As it does when somebody holds a message for longer than `consumer_timeout`."""
    await bus.publish(pages(1))
    held = await take(bus, 1)
    channel = bus._feeds["pages"]._channel
    assert channel is not None
    await channel.ack([(999, False)])
    again = await take(bus, 1)
    assert (names(again), again[0].deliveries) == (["m1"], 2)
    assert await bus.ack(held) == [False]
    assert await bus.ack(again) == [True]


async def test_calls_that_are_called_off_do_not_cost_the_connection(bus: RabbitBus) -> None:
    """At whatever moment: the driver by itself would close a channel twice, and the broker the connection then."""
    await bus.publish(pages(1))
    held = await take(bus, 1)
    started_at = asyncio.get_running_loop().time()
    await bus.backlog("pages")
    usual_s = asyncio.get_running_loop().time() - started_at
    for number in range(CALLED_OFF):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(usual_s * number / CALLED_OFF):
                await bus.backlog("pages")
    assert await bus.backlog("pages") == Backlog(held=1)
    assert await bus.renew(held, 30.0) == [True]
    assert await bus.ack(held) == [True]


class TestShortOfMemory:
    @pytest.fixture(scope="class")
    @classmethod
    def short(cls) -> Iterator[RabbitServer]:
        """A broker that is short of memory from the start: it lets nobody publish."""
        with new_server("rabbitmq", {"vm_memory_high_watermark.absolute": "1MB"}) as server:
            assert isinstance(server, RabbitServer)
            yield server

    @pytest.fixture
    async def bus(self, short: RabbitServer) -> AsyncIterator[RabbitBus]:
        opened = await RabbitBus.open(short.url, RabbitOptions(patience_s=0.2))
        yield opened
        await opened.close()

    async def test_publishers_are_told_and_consumers_go_on(self, bus: RabbitBus) -> None:
        await bus.subscribe(Subscription("pages", ("page.*",)))
        with pytest.raises(Unknown, match="memory"):
            await bus.publish(pages(1))
        with pytest.raises(Busy, match="memory"):
            await bus.publish(pages(2))
        async with asyncio.timeout(5):
            assert (await bus.receive("pages", "test", 1, 30.0)).deliveries == ()


async def test_nobody_there_is_unreachable_at_once(rabbitmq_vhost: str, fault_proxy: OpenProxy) -> None:
    proxy = fault_proxy(rabbitmq_vhost)
    proxy.refuse()
    with pytest.raises(Unreachable, match="does not answer") as caught:
        await RabbitBus.open(proxy.url)
    assert "guest" not in str(caught.value)


@pytest.mark.parametrize(("part", "wrong"), [("guest:guest", "guest:secret"), ("test-", "nowhere-")])
async def test_who_is_not_let_in_is_told_why(rabbitmq_vhost: str, part: str, wrong: str) -> None:
    with pytest.raises(OperatorError, match="lets nobody in") as caught:
        await RabbitBus.open(rabbitmq_vhost.replace(part, wrong, 1))
    assert "secret" not in str(caught.value)
    assert caught.value.hint
