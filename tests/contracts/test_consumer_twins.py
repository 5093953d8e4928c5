"""Every guard of the consumer has a broken twin, and its contract notices it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from headrace.adapters.sqlite.store import SqliteStore
from headrace.consuming import Answers, BatchHandler, Consumer, ConsumerOptions, Dead, Delivery, Retry, Subscription
from headrace.errors import HeadraceError
from headrace.ports import Bus, Inbox
from headrace.testing.contracts import ConsumerContract
from headrace.testing.contracts.consumer import SUBSCRIPTION, Consumption
from headrace.testing.passage import ManualClock, Passage
from headrace.testing.twins import turns_red


class AcknowledgesFirst(Consumer):
    async def _deal_with(self, batch: Sequence[Delivery]) -> None:
        await self._bus.ack(batch)
        await super()._deal_with(batch)


class AcknowledgesBeforeTheInbox(Consumer):
    async def _consume(self, inbox: Inbox, delivery: Delivery, answer: Any) -> None:
        await self._bus.ack([delivery])
        await super()._consume(inbox, delivery, answer)


class DropsRefusals(Consumer):
    async def _refuse(self, deliveries: Sequence[Delivery], dead: Dead) -> None:
        self._acknowledge(deliveries)


class RefusesForOneReason(Consumer):
    async def _refuse(self, deliveries: Sequence[Delivery], dead: Dead) -> None:
        await super()._refuse(deliveries, Dead("refused"))


class LosesHalf(Consumer):
    async def _halve(self, batch: Sequence[Delivery]) -> None:
        middle = len(batch) // 2
        await self._deal_with(batch[:middle])
        self._acknowledge(batch[middle:])


class NeverGivesUp(Consumer):
    async def _fail(self, delivery: Delivery, failed: Retry) -> None:
        await self._give_back([delivery])


class ChargesOutages(Consumer):
    def __init__(
        self, bus: Bus, subscription: Subscription, handle: BatchHandler, options: ConsumerOptions, inbox: Inbox | None
    ) -> None:
        async def charged(deliveries: Sequence[Delivery]) -> Answers:
            try:
                return await handle(deliveries)
            except HeadraceError as error:
                raise ValueError("an outage is a failure like any other") from error

        super().__init__(bus, subscription, charged, options, inbox=inbox)


class ChargesWhatIsPutOff(Consumer):
    async def _settle(self, deliveries: Sequence[Delivery], call: Callable[[], Awaitable[list[bool]]]) -> None:
        await self._bus.requeue(deliveries, 0.0, "not now")
        self._let_go(deliveries)


class LosesWhatWasNotStarted(Consumer):
    async def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        self._acknowledge(deliveries)


class RunsTheLostBesideOthers(Consumer):
    async def _next_batch(self) -> list[Delivery]:
        while not self._pace.draining:
            if batch := self._started():
                return batch
            await self._receive()
        return []


class HoldsWithoutBound(Consumer):
    def _started(self) -> list[Delivery]:
        batch = list(self._ready)
        self._ready.clear()
        return batch


CONTRACT = ConsumerContract
TWINS: list[tuple[type[Consumer], Any]] = [
    (AcknowledgesFirst, CONTRACT.test_messages_are_acknowledged_after_the_handler),
    (AcknowledgesBeforeTheInbox, CONTRACT.test_with_an_inbox_a_message_is_acknowledged_after_the_commit),
    (DropsRefusals, CONTRACT.test_a_refused_message_is_put_aside_with_its_reason_as_it_was),
    (RefusesForOneReason, CONTRACT.test_a_refused_message_is_put_aside_with_its_reason_as_it_was),
    (LosesHalf, CONTRACT.test_one_guilty_message_is_found_and_the_others_are_handled_once),
    (NeverGivesUp, CONTRACT.test_a_message_that_always_fails_is_given_up),
    (ChargesOutages, CONTRACT.test_an_outage_is_waited_out_and_spends_nothing),
    (ChargesWhatIsPutOff, CONTRACT.test_what_is_put_off_comes_again_and_spends_nothing),
    (LosesWhatWasNotStarted, CONTRACT.test_a_stop_finishes_what_is_started_and_gives_the_rest_back),
    (RunsTheLostBesideOthers, CONTRACT.test_a_message_whose_consumer_was_lost_runs_alone),
    (HoldsWithoutBound, CONTRACT.test_no_more_run_and_wait_than_the_options_allow),
]


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(":memory:", clock=clock)
    await store.bus.subscribe(SUBSCRIPTION)
    yield store
    await store.close()


@pytest.mark.parametrize(("twin", "test"), TWINS, ids=[twin.__name__ for twin, _ in TWINS])
async def test_a_broken_consumer_is_noticed(
    store: SqliteStore, passage: Passage, twin: type[Consumer], test: Any
) -> None:
    await turns_red(test, consumption=Consumption(store.bus, store.inbox, twin), passage=passage)
