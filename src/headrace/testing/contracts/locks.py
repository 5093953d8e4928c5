"""The lock client: a facade that means the same on every store whose leases it is given."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import NotFound
from headrace.runtime.seams import Seams
from headrace.services.locks import LockClient
from headrace.testing.contracts.leases import HasLeases
from headrace.testing.passage import ManualClock

RESOURCE = "job:7"


class LockClientContract:
    """`services.locks.LockClient`. Brings: `store` (what has `leases`) and the `clock` that it judges by."""

    @pytest.fixture
    def locks(self, store: HasLeases, clock: ManualClock) -> LockClient:
        return LockClient(store.leases, Seams(clock=clock))

    @pytest.fixture
    def others(self, store: HasLeases, clock: ManualClock) -> LockClient:
        return LockClient(store.leases, Seams(clock=clock))

    async def test_a_lock_is_acquired_renewed_and_released(self, locks: LockClient) -> None:
        held = await locks.try_acquire(RESOURCE, "a", 30.0)
        assert held.acquired
        assert await locks.renew(RESOURCE, "a", held.token, 60.0)
        assert await locks.release(RESOURCE, "a", held.token)
        again = await locks.try_acquire(RESOURCE, "b", 30.0)
        assert again.acquired
        assert again.token > held.token

    async def test_a_held_lock_is_refused_also_to_its_holder(self, locks: LockClient, others: LockClient) -> None:
        held = await locks.try_acquire(RESOURCE, "a", 30.0)
        for client, holder in ((locks, "b"), (locks, "a"), (others, "a")):
            refused = await client.try_acquire(RESOURCE, holder, 30.0)
            assert (refused.acquired, refused.token) == (False, held.token)

    async def test_an_expired_lock_is_taken_over_and_its_holder_has_lost_it(
        self, locks: LockClient, clock: ManualClock
    ) -> None:
        lost = await locks.try_acquire(RESOURCE, "a", 30.0)
        clock.advance(30.1)
        taken = await locks.try_acquire(RESOURCE, "b", 30.0)
        assert (taken.acquired, taken.epoch) == (True, lost.epoch + 1)
        assert taken.token > lost.token
        assert not await locks.renew(RESOURCE, "a", lost.token, 30.0)
        assert not await locks.release(RESOURCE, "a", lost.token)

    async def test_a_lock_is_taken_over_by_the_epoch_that_was_seen(self, locks: LockClient, clock: ManualClock) -> None:
        with pytest.raises(NotFound):
            await locks.takeover(RESOURCE, "b", 0, 30.0)
        lost = await locks.try_acquire(RESOURCE, "a", 30.0)
        clock.advance(30.1)
        assert not (await locks.takeover(RESOURCE, "b", lost.epoch + 1, 30.0)).acquired
        assert (await locks.takeover(RESOURCE, "b", lost.epoch, 30.0)).acquired

    async def test_a_token_under_another_name_is_refused(self, locks: LockClient, others: LockClient) -> None:
        held = await locks.try_acquire(RESOURCE, "a", 30.0)
        for client in (locks, others):
            assert not await client.renew(RESOURCE, "b", held.token, 30.0)
            assert not await client.release(RESOURCE, "b", held.token)
            assert not await client.renew(RESOURCE, "a", held.token + 1, 30.0)
        assert await others.renew(RESOURCE, "a", held.token, 30.0)
        assert await others.release(RESOURCE, "a", held.token)

    async def test_an_acquire_waits_for_its_turn(self, store: HasLeases) -> None:
        locks = LockClient(store.leases)
        held = await locks.acquire(RESOURCE, "a", 30.0, 0.0)
        waiting = asyncio.ensure_future(locks.acquire(RESOURCE, "b", 30.0, 20.0))
        assert not (await locks.acquire(RESOURCE, "c", 30.0, 0.0)).acquired
        assert await locks.release(RESOURCE, "a", held.token)
        got = await waiting
        assert got.acquired
        assert await locks.release(RESOURCE, "b", got.token)

    async def test_a_result_is_a_document(self, locks: LockClient) -> None:
        held = await locks.try_acquire(RESOURCE, "a", 30.0)
        document = held.document()
        assert list(document) == ["acquired", "token", "expire_at", "epoch"]
        assert (document["acquired"], document["token"], document["epoch"]) == (True, held.token, held.epoch)
        assert document["expire_at"].endswith("Z")
        refused = await locks.try_acquire(RESOURCE, "b", 30.0)
        assert refused.holder == "a"
        assert {**refused.document(), "expire_at": ""} == {
            **document,
            "acquired": False,
            "token": None,
            "expire_at": "",
        }
