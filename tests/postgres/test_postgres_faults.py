"""The server dies under load and comes back: nothing is lost, nothing is counted twice, fences go on rising."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
from waiting import eventually

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Claim, Settlement, Want
from headrace.core.errors import HeadraceError, TryAgain, Unreachable
from headrace.core.jobs import Submission
from headrace.core.recount import recount
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import barrier, flow, parcel, work
from headrace.testing.rig.postgres import PostgresServer

T = TypeVar("T")
FLOW = flow(work("a", "b"), work("b"), barrier("end", "b"))
ITEMS, SENT, HANDS = 600, 2, 6
HOLD_S, ALL_S_MAX = 2.0, 90.0


@pytest.fixture
async def stores(postgres_database: str) -> AsyncIterator[Sequence[PostgresStore]]:
    """On the server with durable settings: it is going to be killed."""
    stores = [await PostgresStore.open(postgres_database) for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


class Crew:
    """Hands that claim, settle and send; a settlement whose answer is lost is sent again until it is answered."""

    def __init__(self, stores: Sequence[PostgresStore]) -> None:
        self._stores = stores
        self.accepted: Counter[tuple[str, int]] = Counter()
        self.fences: list[int] = []
        self.interrupted = 0
        self.settled = asyncio.Event()

    async def work(self, number: int) -> None:
        store = self._stores[number % len(self._stores)]
        wants = [Want(FLOW.name, spec.name, 5, 5) for spec in FLOW.graph.stages]

        async def ended() -> bool:
            while claims := (await self._patiently(lambda: store.claim(f"hand-{number}", wants, HOLD_S))).claims:
                for claim in claims:
                    self.fences.append(claim.fence)
                    await self._settle(store, claim)
            await self._patiently(store.sweep)
            return (await self._patiently(lambda: store.job("j"))).state is not JobState.OPEN

        await eventually(ended, "the job ends", ALL_S_MAX)

    async def _settle(self, store: PostgresStore, claim: Claim) -> None:
        sends = (parcel("b", SENT * claim.count),) if claim.stage == "a" else ()
        settlement = Settlement(claim.fence, 1, done=(1 << claim.count) - 1, sends=sends)
        (answer,) = await self._patiently(lambda: store.settle([settlement]))
        if answer.accepted:
            self.accepted.update((claim.stage, seq) for seq in claim.seqs)
            self.settled.set()

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        async def answered() -> tuple[T] | None:
            try:
                return (await call(),)
            except (TryAgain, Unreachable):
                self.interrupted += 1
                return None

        return (await eventually(answered, "the server answers", ALL_S_MAX))[0]

    async def some_progress(self) -> None:
        self.settled.clear()
        await self.settled.wait()


@pytest.mark.parametrize("how", ["kill", "immediate", "fast"])
async def test_a_server_that_dies_under_load_loses_nothing(
    postgres_server: PostgresServer, stores: Sequence[PostgresStore], how: str
) -> None:
    await stores[0].submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", ITEMS // 2), parcel("a", ITEMS // 2))))
    crew = Crew(stores)
    async with asyncio.timeout(ALL_S_MAX):
        hands = [asyncio.create_task(crew.work(number)) for number in range(HANDS)]
        for _ in range(3):
            await crew.some_progress()
            if how == "kill":
                postgres_server.kill()
            else:
                postgres_server.stop("immediate" if how == "immediate" else "fast")
            postgres_server.start()
        await asyncio.gather(*hands)
    view = await stores[0].job("j")
    assert (view.state, view.stages["a"].done, view.stages["b"].done) == (JobState.FINISHED, ITEMS, ITEMS * SENT)
    assert max(crew.accepted.values()) == 1
    assert sum(crew.accepted.values()) == ITEMS + ITEMS * SENT + 1
    assert len(set(crew.fences)) == len(crew.fences)
    assert crew.interrupted > 0
    assert len(await stores[0].finishes("j")) == 1
    assert recount(await stores[0].audit("j")) == []


async def test_a_stopped_server_is_unreachable_and_a_frozen_one_only_late(
    postgres_server: PostgresServer, stores: Sequence[PostgresStore]
) -> None:
    store = stores[0]
    await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 1),)))
    postgres_server.pause()
    late = asyncio.create_task(store.job("j"))
    assert not (await asyncio.wait([late], timeout=0.3))[0]
    postgres_server.resume()
    assert (await late).id == "j"
    postgres_server.stop()
    with pytest.raises(Unreachable):
        await store.job("j")
    with pytest.raises(HeadraceError):
        await store.submit(Submission("k", FLOW.name, FLOW.graph, (parcel("a", 1),)))
    postgres_server.start()
    assert (await store.job("j")).id == "j"
