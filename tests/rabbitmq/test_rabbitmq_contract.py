"""The bus on RabbitMQ keeps the contract of the bus, as far as RabbitMQ can."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import pytest

from headrace.adapters.rabbitmq import RabbitBus, RabbitOptions
from headrace.testing.contracts import BusContract
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.rabbitmq import RabbitServer

HANDLES = 2


@dataclass(frozen=True)
class Place:
    """A handle on the broker, where a store would be."""

    bus: RabbitBus


class TestRabbitBus(BusContract):
    features = RabbitBus.features
    options = RabbitOptions()

    @pytest.fixture(scope="class")
    @classmethod
    def vhost(cls, rabbitmq_server: RabbitServer) -> Iterator[str]:
        """Making a virtual host takes a moment; emptying one does not."""
        with rabbitmq_server.vhost() as url:
            yield url

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage()

    @pytest.fixture
    def store(self, handles: Sequence[Place]) -> Place:
        return handles[0]

    @pytest.fixture
    async def handles(self, vhost: str, rabbitmq_server: RabbitServer) -> AsyncIterator[Sequence[Place]]:
        buses = [await RabbitBus.open(vhost, self.options) for _ in range(HANDLES)]
        yield [Place(bus) for bus in buses]
        for queue in ("pages", "pages.dead", "audit", "both", "late", "new", "wish"):
            await buses[0].unsubscribe(queue)
        for bus in buses:
            await bus.close()


class TestPlainRabbitBus(TestRabbitBus):
    """The driver without a tap keeps the same contract."""

    options = RabbitOptions(plain=True)


def test_what_the_broker_cannot_do_is_no_test_of_it() -> None:
    names = {name for name in dir(TestRabbitBus) if name.startswith("test_") and getattr(TestRabbitBus, name)}
    everything = {name for name in dir(BusContract) if name.startswith("test_")}
    assert everything - names == {
        "test_a_late_consumer_is_refused",
        "test_a_lost_consumers_messages_come_again_one_by_one",
        "test_a_message_published_twice_is_delivered_once",
        "test_a_receive_tells_when_a_hold_may_pass",
        "test_a_renewed_message_stays_in_its_hand",
        "test_only_the_message_that_was_alone_dies_of_lost_consumers",
        "test_what_is_acknowledged_does_not_come_again",
        "test_what_is_given_back_comes_again_and_charges_nobody",
        "test_what_was_dealt_with_lately_is_remembered",
        "test_who_had_a_redriven_letter_before_has_no_say_in_it",
    }
