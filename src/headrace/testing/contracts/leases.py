"""Leases: one holder at a time, and fences that rise over all grants ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.core.errors import CallerError, NotFound
from headrace.ports.parts import Parts
from headrace.testing.passage import Passage

NAME = "bucket-7"


class LeasesContract:
    """`ports.leases.Leases`. Brings: `store` (Parts), `handles`, `passage`."""

    @pytest.fixture
    async def handles(self, store: Parts) -> Sequence[Parts]:
        return [store]

    async def test_a_free_resource_is_granted_and_a_held_one_is_not(self, store: Parts) -> None:
        granted = await store.leases.acquire(NAME, "a", 30.0)
        assert (granted.granted, granted.lease.holder, granted.lease.epoch) == (True, "a", 0)
        assert 29.0 < granted.lease.left_s <= 30.0
        refused = await store.leases.acquire(NAME, "b", 30.0)
        assert (refused.granted, refused.lease.holder, refused.lease.fence) == (False, "a", granted.lease.fence)

    async def test_a_holder_that_asks_again_gets_the_same_lease(self, store: Parts) -> None:
        first = await store.leases.acquire(NAME, "a", 30.0)
        again = await store.leases.acquire(NAME, "a", 30.0)
        assert again.granted
        assert (again.lease.fence, again.lease.epoch) == (first.lease.fence, 0)

    async def test_a_fence_is_minted_above_the_wall_clock(self, store: Parts) -> None:
        lease = (await store.leases.acquire(NAME, "a", 30.0)).lease
        assert lease.fence >= 1_600_000_000_000_000

    async def test_fences_rise_over_releases_and_takeovers(self, store: Parts, passage: Passage) -> None:
        fences, epochs = [], []
        for turn in range(4):
            lease = (await store.leases.acquire(NAME, f"a{turn}", passage.brief_s)).lease
            fences.append(lease.fence)
            epochs.append(lease.epoch)
            if turn % 2:
                await passage.past(passage.brief_s)
                taken = await store.leases.takeover(NAME, f"b{turn}", lease.epoch, 30.0)
                assert taken.granted
                lease = taken.lease
                fences.append(lease.fence)
                epochs.append(lease.epoch)
            assert await store.leases.release(NAME, lease.fence)
        assert fences == sorted(set(fences))
        assert epochs == list(range(6))

    async def test_a_release_keeps_the_fence_and_frees_the_resource(self, store: Parts) -> None:
        lease = (await store.leases.acquire(NAME, "a", 30.0)).lease
        assert await store.leases.release(NAME, lease.fence)
        assert await store.leases.release(NAME, lease.fence)
        free = await store.leases.look(NAME)
        assert free is not None
        assert (free.holder, free.fence, free.free) == ("", lease.fence, True)
        assert not await store.leases.renew(NAME, lease.fence, 30.0)
        again = await store.leases.acquire(NAME, "b", 30.0)
        assert again.granted
        assert again.lease.fence > lease.fence

    async def test_a_renewed_lease_outlives_its_first_hold(self, store: Parts, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        assert await store.leases.renew(NAME, lease.fence, 10 * passage.brief_s)
        await passage.past(passage.brief_s)
        assert not (await store.leases.takeover(NAME, "b", lease.epoch, 30.0)).granted
        assert await store.leases.renew(NAME, lease.fence, 30.0)

    async def test_an_expired_lease_is_not_revived(self, store: Parts, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        assert not await store.leases.renew(NAME, lease.fence, 30.0)
        expired = await store.leases.acquire(NAME, "a", 30.0)
        assert (expired.granted, expired.lease.left_s, expired.lease.free) == (False, 0.0, True)

    async def test_a_live_lease_is_not_taken_over(self, store: Parts) -> None:
        lease = (await store.leases.acquire(NAME, "a", 30.0)).lease
        refused = await store.leases.takeover(NAME, "b", lease.epoch, 30.0)
        assert (refused.granted, refused.lease.holder, refused.lease.fence) == (False, "a", lease.fence)

    async def test_a_takeover_needs_the_epoch_it_saw(self, store: Parts, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        taken = await store.leases.takeover(NAME, "b", lease.epoch, passage.brief_s)
        assert (taken.granted, taken.lease.epoch) == (True, lease.epoch + 1)
        await passage.past(passage.brief_s)
        stale = await store.leases.takeover(NAME, "c", lease.epoch, 30.0)
        assert (stale.granted, stale.lease.holder) == (False, "b")
        assert (await store.leases.takeover(NAME, "c", taken.lease.epoch, 30.0)).granted

    async def test_a_repeated_takeover_gets_the_first_answer(self, store: Parts, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        first = await store.leases.takeover(NAME, "b", lease.epoch, 30.0)
        again = await store.leases.takeover(NAME, "b", lease.epoch, 30.0)
        assert again.granted
        assert (again.lease.fence, again.lease.epoch) == (first.lease.fence, first.lease.epoch)

    async def test_a_late_holder_cannot_release_what_was_taken_over(self, store: Parts, passage: Passage) -> None:
        late = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        taken = (await store.leases.takeover(NAME, "b", late.epoch, 30.0)).lease
        assert not await store.leases.release(NAME, late.fence)
        assert not await store.leases.renew(NAME, late.fence, 30.0)
        now = await store.leases.look(NAME)
        assert now is not None
        assert (now.holder, now.fence) == ("b", taken.fence)

    async def test_what_was_never_held_cannot_be_taken_over(self, store: Parts) -> None:
        assert await store.leases.look(NAME) is None
        with pytest.raises(NotFound, match=NAME):
            await store.leases.takeover(NAME, "a", 0, 30.0)
        with pytest.raises(CallerError):
            await store.leases.acquire("", "a", 30.0)

    async def test_one_of_many_takes_over(self, store: Parts, handles: Sequence[Parts], passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        answers = await asyncio.gather(
            *(handles[n % len(handles)].leases.takeover(NAME, f"b{n}", lease.epoch, 30.0) for n in range(9))
        )
        assert sum(answer.granted for answer in answers) == 1

    async def test_one_of_many_acquires(self, handles: Sequence[Parts]) -> None:
        answers = await asyncio.gather(
            *(handles[n % len(handles)].leases.acquire(NAME, f"b{n}", 30.0) for n in range(9))
        )
        assert sum(answer.granted for answer in answers) == 1
        assert len({answer.lease.fence for answer in answers}) == 1
