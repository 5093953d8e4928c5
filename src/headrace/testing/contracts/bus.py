"""The bus: a copy for everybody who subscribed, in one hand at a time, until it is dealt with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import pytest

from headrace.core.deliveries import CONSUMER_LOST, Backlog, Delivery, Subscription
from headrace.core.errors import CallerError, NotFound
from headrace.core.events import Event
from headrace.ports.bus import BusFeatures
from headrace.ports.parts import StoreBus
from headrace.testing.contracts.only import only
from headrace.testing.contracts.selection import Selected, needs
from headrace.testing.passage import Passage


class HasBus(Protocol):
    """Whatever has a bus: a store, or a place for one."""

    @property
    def bus(self) -> StoreBus: ...


def message(number: int, topic: str = "page.found") -> Event:
    return Event(f"m{number}", topic, f"body {number}".encode(), "", {"traceparent": f"00-{number}"})


def names(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.event.event_id for delivery in deliveries]


async def take(bus: StoreBus, subscription: str = "pages", room: int = 100, hold_s: float = 30.0) -> list[Delivery]:
    return list((await bus.receive(subscription, "consumer-1", room, hold_s)).deliveries)


class BusContract(Selected):
    """`ports.bus.Bus` and `ports.bus.BusOperations`. Brings: `store` (what has a `bus`), `handles`, `passage`, and says
    in `features` what it can do; tests of what it cannot do are not its tests."""

    features = BusFeatures()

    @pytest.fixture
    async def bus(self, store: HasBus) -> StoreBus:
        await store.bus.subscribe(Subscription("pages", ("page.*",), deliveries_max=2))
        return store.bus

    @pytest.fixture
    async def handles(self, store: HasBus) -> Sequence[HasBus]:
        return [store]

    # Routing

    @pytest.mark.parametrize(
        ("pattern", "topic", "wanted"),
        [
            ("page.found", "page.found", True),
            ("page.found", "page.found.twice", False),
            ("page.*", "page.found", True),
            ("page.*", "page", False),
            ("page.*", "page.found.twice", False),
            ("*.found", "page.found", True),
            ("page.#", "page", True),
            ("page.#", "page.found.twice", True),
            ("#", "anything.at.all", True),
            ("#.found", "found", True),
            ("a.#.z", "a.z", True),
            ("a.#.z", "a.b.c.z", True),
            ("a.#.z", "a.b.c", False),
            ("a.*.#.z", "a.z", False),
            ("a.*.#.z", "a.b.z", True),
            ("page.found+", "page.foundd", False),
            ("#.#", "one", True),
        ],
    )
    async def test_a_pattern_gets_its_topics(self, store: HasBus, pattern: str, topic: str, wanted: bool) -> None:
        await store.bus.subscribe(Subscription("wish", (pattern,)))
        assert await store.bus.publish([message(1, topic)]) == [wanted]
        assert names(await take(store.bus, "wish")) == (["m1"] if wanted else [])

    async def test_every_subscription_gets_a_copy_and_its_consumers_share_it(self, bus: StoreBus) -> None:
        await bus.subscribe(Subscription("audit", ("#",)))
        await bus.publish([message(1), message(2), message(3, "other")])
        first, second = await take(bus, room=1), await take(bus)
        assert (names(first), names(second)) == (["m1"], ["m2"])
        assert names(await take(bus, "audit")) == ["m1", "m2", "m3"]

    async def test_two_patterns_that_match_bring_one_copy(self, bus: StoreBus) -> None:
        await bus.subscribe(Subscription("both", ("page.*", "#")))
        await bus.publish([message(1)])
        assert names(await take(bus, "both")) == ["m1"]

    async def test_a_message_arrives_as_it_was_published(self, bus: StoreBus) -> None:
        event = Event("m1", "page.found", b"\x00\xff", "k", {"traceparent": "00-ab"}, 1_700_000_000.5)
        await bus.publish([event])
        delivery = only(await take(bus))
        assert delivery.event == event
        assert (delivery.subscription, delivery.deliveries, delivery.failures, delivery.alone) == ("pages", 1, 0, False)

    async def test_what_was_published_before_a_subscription_is_not_for_it(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        await bus.subscribe(Subscription("late", ("page.*",)))
        await bus.publish([message(2)])
        assert names(await take(bus, "late")) == ["m2"]

    async def test_subscribing_again_replaces_the_patterns_and_keeps_what_waits(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        await bus.subscribe(Subscription("pages", ("image.#",), deliveries_max=3))
        assert await bus.publish([message(2), message(3, "image.found")]) == [False, True]
        assert names(await take(bus)) == ["m1", "m3"]
        assert list(await bus.subscriptions()) == [Subscription("pages", ("image.#",), 3)]

    @needs("deduplicates")
    async def test_a_message_published_twice_is_delivered_once(self, bus: StoreBus) -> None:
        assert await bus.publish([message(1), message(1)]) == [True, True]
        delivery = only(await take(bus))
        assert await bus.publish([message(1)]) == [True]
        assert await bus.ack([delivery]) == [True]
        assert await bus.publish([message(1)]) == [True]
        assert await take(bus) == []

    async def test_an_unknown_subscription_is_named(self, bus: StoreBus) -> None:
        with pytest.raises(NotFound, match="nobody"):
            await bus.receive("nobody", "consumer-1", 10, 30.0)

    @pytest.mark.parametrize("pattern", ["", "a..b", "a.b*", "a b", "##"])
    async def test_a_pattern_that_cannot_match_is_refused(self, bus: StoreBus, pattern: str) -> None:
        with pytest.raises(CallerError):
            await bus.subscribe(Subscription("wrong", (pattern,)))

    # Holding

    async def test_a_message_is_in_one_hand_at_a_time(self, bus: StoreBus) -> None:
        await bus.publish([message(number) for number in range(5)])
        first, second = await take(bus, room=3), await take(bus)
        assert (names(first), names(second)) == (["m0", "m1", "m2"], ["m3", "m4"])
        assert await take(bus) == []
        assert await bus.backlog("pages") == Backlog(held=5)

    @needs("holds_expire")
    async def test_what_is_acknowledged_does_not_come_again(self, bus: StoreBus, passage: Passage) -> None:
        await bus.publish([message(1), message(2)])
        taken = await take(bus, hold_s=passage.brief_s)
        assert await bus.ack(taken[:1]) == [True]
        assert await bus.ack(taken[:1]) == [True]
        await passage.past(passage.brief_s)
        assert names(await take(bus)) == ["m2"]

    @needs("holds_expire")
    async def test_a_lost_consumers_messages_come_again_one_by_one(self, bus: StoreBus, passage: Passage) -> None:
        await bus.publish([message(1), message(2), message(3)])
        lost = await take(bus, room=2, hold_s=passage.brief_s)
        await passage.past(passage.brief_s)
        again = [await take(bus), await take(bus), await take(bus)]
        assert [names(taken) for taken in again] == [["m1"], ["m2"], ["m3"]]
        assert [taken[0].alone for taken in again] == [True, True, False]
        assert [taken[0].deliveries for taken in again] == [2, 2, 1]
        assert again[0][0].fence > lost[0].fence

    @needs("holds_expire")
    async def test_a_late_consumer_is_refused(self, bus: StoreBus, passage: Passage) -> None:
        await bus.publish([message(1)])
        late = await take(bus, hold_s=passage.brief_s)
        await passage.past(passage.brief_s)
        assert await bus.renew(late, 30.0) == [False]
        taken = await take(bus)
        assert await bus.ack(late) == [False]
        assert await bus.requeue(late, reason="late") == [False]
        assert await bus.dead_letter(late, "late") == [False]
        assert await bus.renew(late, 30.0) == [False]
        assert await bus.ack(taken) == [True]

    @needs("holds_expire")
    async def test_a_renewed_message_stays_in_its_hand(self, bus: StoreBus, passage: Passage) -> None:
        await bus.publish([message(1)])
        taken = await take(bus, hold_s=passage.brief_s)
        assert await bus.renew(taken, 10 * passage.brief_s) == [True]
        await passage.past(passage.brief_s)
        assert await take(bus) == []
        assert await bus.ack(taken) == [True]

    @needs("holds_expire")
    async def test_a_receive_tells_when_a_hold_may_pass(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        received = await bus.receive("pages", "consumer-1", 10, 30.0)
        assert received.wait_s is not None
        assert 29.0 < received.wait_s <= 30.0

    async def test_a_receive_tells_when_something_may_come_back(self, bus: StoreBus) -> None:
        assert (await bus.receive("pages", "consumer-1", 10, 30.0)).wait_s is None
        await bus.publish([message(1)])
        received = await bus.receive("pages", "consumer-1", 10, 30.0)
        await bus.requeue(received.deliveries, delay_s=20.0)
        later = await bus.receive("pages", "consumer-1", 10, 30.0)
        assert later.wait_s is not None
        assert 19.0 < later.wait_s <= 20.0

    # Requeue and dead letters

    async def test_what_is_given_back_comes_again(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        assert await bus.requeue(await take(bus)) == [True]
        again = only(await take(bus))
        assert (again.event.event_id, again.deliveries, again.failures) == ("m1", 2, 0)

    async def test_an_acknowledgement_may_be_repeated(self, bus: StoreBus) -> None:
        await bus.publish([message(1), message(2)])
        taken = await take(bus)
        assert await bus.ack(taken[:1]) == [True]
        assert await bus.ack(taken) == [True, True]
        assert await bus.backlog("pages") == Backlog()

    @needs("counts_deliveries")
    async def test_what_is_given_back_comes_again_and_charges_nobody(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        for round_ in range(4):
            taken = await take(bus)
            assert (taken[0].deliveries, taken[0].failures, taken[0].alone) == (round_ + 1, 0, False)
            assert await bus.requeue(taken) == [True]
            assert await bus.requeue(taken) == [True]

    async def test_a_delayed_message_waits_for_its_time(self, bus: StoreBus, passage: Passage) -> None:
        await bus.publish([message(1), message(2)])
        taken = await take(bus, room=1)
        assert await bus.requeue(taken, delay_s=passage.brief_s) == [True]
        assert names(await take(bus)) == ["m2"]
        assert await bus.backlog("pages") == Backlog(waiting=1, held=1)
        await passage.past(passage.brief_s)
        assert names(await take(bus)) == ["m1"]

    async def test_the_last_allowed_failure_makes_a_dead_letter(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        for reason in ("first", "second"):
            assert await bus.requeue(await take(bus), reason=reason) == [True]
        await bus.publish([message(2)])
        letter = only(await bus.dead("pages"))
        assert (letter.event.event_id, letter.event.body, letter.reason) == ("m1", b"body 1", "second")
        assert letter.died_at > 0
        assert names(await take(bus)) == ["m2"]

    async def test_a_repeated_requeue_is_one_failure(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        taken = await take(bus)
        assert await bus.requeue(taken, reason="broken") == [True]
        assert await bus.requeue(taken, reason="broken") == [True]
        again = only(await take(bus))
        assert again.failures == 1

    @needs("holds_expire")
    async def test_only_the_message_that_was_alone_dies_of_lost_consumers(
        self, bus: StoreBus, passage: Passage
    ) -> None:
        await bus.publish([message(number) for number in range(4)])
        await take(bus, hold_s=passage.brief_s)
        ended: list[str] = []
        for _ in range(20):
            await passage.past(passage.brief_s)
            while taken := await take(bus, hold_s=passage.brief_s):
                assert len(taken) == 1
                if names(taken) == ["m1"]:
                    break
                await bus.ack(taken)
                ended += names(taken)
            if not taken:
                break
        assert sorted(ended) == ["m0", "m2", "m3"]
        letter = only(await bus.dead("pages"))
        assert (letter.event.event_id, letter.reason, letter.deliveries) == ("m1", CONSUMER_LOST, 3)

    async def test_a_dead_letter_is_put_aside_with_its_reason(self, bus: StoreBus) -> None:
        await bus.publish([message(1), message(2)])
        taken = await take(bus)
        assert await bus.dead_letter(taken[:1], "cannot be read") == [True]
        assert await bus.dead_letter(taken[:1], "cannot be read") == [True]
        assert [(letter.event.event_id, letter.reason) for letter in await bus.dead("pages")] == [
            ("m1", "cannot be read")
        ]
        assert await bus.backlog("pages") == Backlog(held=1, dead=1)

    async def test_dead_letters_are_redriven_or_purged_by_choice(self, bus: StoreBus) -> None:
        await bus.publish([message(number) for number in range(4)])
        await bus.dead_letter(await take(bus), "broken")
        assert await bus.redrive("pages", ["m1", "m9"]) == 1
        again = only(await take(bus))
        assert (again.event.event_id, again.failures, again.alone) == ("m1", 0, False)
        assert await bus.purge("pages", ["m0"]) == 1
        assert [letter.event.event_id for letter in await bus.dead("pages")] == ["m2", "m3"]
        assert await bus.redrive("pages") == 2
        assert await bus.purge("pages") == 0
        assert names(await take(bus)) == ["m2", "m3"]

    @needs("fences_deliveries")
    async def test_who_had_a_redriven_letter_before_has_no_say_in_it(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        before = await take(bus)
        await bus.dead_letter(before, "broken")
        assert await bus.redrive("pages") == 1
        assert await bus.ack(before) == [False]
        assert await bus.dead_letter(before, "broken") == [False]
        assert names(await take(bus)) == ["m1"]

    async def test_an_ended_subscription_forgets_what_waits(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        assert await bus.unsubscribe("pages")
        assert not await bus.unsubscribe("pages")
        assert await bus.publish([message(2)]) == [False]
        await bus.subscribe(Subscription("pages", ("page.*",)))
        assert await take(bus) == []

    @needs("deduplicates")
    async def test_what_was_dealt_with_lately_is_remembered(self, bus: StoreBus) -> None:
        await bus.publish([message(1)])
        await bus.ack(await take(bus))
        assert await bus.retain() == 0
        await bus.publish([message(1)])
        assert await take(bus) == []

    # Many hands

    async def test_many_consumers_get_every_message_once(self, bus: StoreBus, handles: Sequence[HasBus]) -> None:
        heard: list[str] = []

        async def publisher(store: HasBus, first: int) -> None:
            for number in range(first, first + 50, 5):
                await store.bus.publish([message(each) for each in range(number, number + 5)])

        async def consumer(store: HasBus, name: str) -> None:
            for _ in range(500):
                received = await store.bus.receive("pages", name, 7, 30.0)
                heard.extend(names(received.deliveries))
                assert all(await store.bus.ack(received.deliveries))
                if len(heard) >= 200:
                    return

        hands = [publisher(handles[n % len(handles)], 50 * n) for n in range(4)]
        hands += [consumer(handles[n % len(handles)], f"consumer-{n}") for n in range(4)]
        await asyncio.gather(*hands)
        assert sorted(heard) == sorted(f"m{number}" for number in range(200))
        assert await bus.backlog("pages") == Backlog()

    async def test_consumers_that_start_at_once_share_one_subscription(self, handles: Sequence[HasBus]) -> None:
        async def start(store: HasBus, number: int) -> bool:
            await store.bus.subscribe(Subscription("new", ("page.*",)))
            return (await store.bus.publish([message(number)]))[0]

        assert all(await asyncio.gather(*(start(handles[n % len(handles)], n) for n in range(9))))
        assert await handles[0].bus.backlog("new") == Backlog(waiting=9)

    async def test_a_publish_rings(self, bus: StoreBus) -> None:
        rung = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(rung.set)

        forget = bus.on_wake(ring)
        await bus.publish([message(1)])
        async with asyncio.timeout(10):
            await rung.wait()
        forget()
