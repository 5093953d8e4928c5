"""Wake-ups travel between handles as they would between processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Again, Settlement, Want
from headrace.core.jobs import Submission
from headrace.testing.contracts.bench import flow, parcel, work

FLOW = flow(work("a", "b"), work("b"))
SOON_S = 10.0


@pytest.fixture
async def listener(postgres_url: str) -> AsyncIterator[PostgresStore]:
    listener = await PostgresStore.open(postgres_url)
    yield listener
    await listener.close()


class Ear:
    """Rings as events of the loop."""

    def __init__(self, store: PostgresStore) -> None:
        loop, self._heard = asyncio.get_running_loop(), asyncio.Event()
        self.forget = store.on_wake(lambda: loop.call_soon_threadsafe(self._heard.set))

    async def hear(self) -> None:
        await asyncio.wait_for(self._heard.wait(), SOON_S)
        self._heard.clear()


async def test_a_submit_wakes_another_handle(store: PostgresStore, listener: PostgresStore) -> None:
    ear = Ear(listener)
    await ear.hear()
    await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 1),)))
    await ear.hear()


async def test_what_a_settlement_sends_or_returns_wakes_another_handle(
    store: PostgresStore, listener: PostgresStore
) -> None:
    await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 2),)))
    (claim,) = (await store.claim("w", [Want(FLOW.name, "a", 2, 2)], 60.0)).claims
    ear = Ear(listener)
    await ear.hear()
    await store.settle([Settlement(claim.fence, 1, done=1, sends=(parcel("b", 1),), end=False)])
    await ear.hear()
    await store.settle([Settlement(claim.fence, 2, again=(Again(1, 0.0, 1),))])
    await ear.hear()


async def test_a_handle_wakes_itself_without_the_server(store: PostgresStore) -> None:
    ear = Ear(store)
    await ear.hear()
    await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 1),)))
    await ear.hear()


async def test_nobody_is_woken_after_unsubscribing(store: PostgresStore) -> None:
    rings = []
    forget = store.on_wake(lambda: rings.append(1))
    forget()
    forget()
    await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 1),)))
    assert rings == []
