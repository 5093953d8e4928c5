"""Leases: one holder at a time, and fences that rise over all grants ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import pytest

from headrace.core.errors import CallerError, NotFound
from headrace.core.leases import Lease
from headrace.ports.leases import LeaseFeatures, Leases
from headrace.testing.contracts.selection import Selected, needs
from headrace.testing.passage import Passage

NAME = "bucket-7"
lease_needs = partial(needs, of="lease_features")


class HasLeases(Protocol):
    """Whatever has leases: a store, or a place for them."""

    @property
    def leases(self) -> Leases: ...


class LeasesContract(Selected):
    """`ports.leases.Leases`. Brings: `store` (what has `leases`), `handles`, `passage`, and says in `lease_features`
    what differs; tests of what it does not do are not its tests."""

    lease_features = LeaseFeatures()

    @pytest.fixture
    async def handles(self, store: HasLeases) -> Sequence[HasLeases]:
        return [store]

    async def test_a_free_resource_is_granted_and_a_held_one_is_not(self, store: HasLeases) -> None:
        granted = await store.leases.acquire(NAME, "a", 30.0)
        assert (granted.granted, granted.lease.holder, granted.repeated) == (True, "a", False)
        assert 29.0 < granted.lease.left_s <= 30.0
        refused = await store.leases.acquire(NAME, "b", 30.0)
        assert (refused.granted, refused.lease.holder, refused.lease.fence) == (False, "a", granted.lease.fence)

    async def test_a_holder_that_asks_again_gets_the_same_lease(self, store: HasLeases) -> None:
        first = await store.leases.acquire(NAME, "a", 30.0)
        again = await store.leases.acquire(NAME, "a", 30.0)
        assert again.granted
        assert (again.lease.fence, again.lease.epoch) == (first.lease.fence, first.lease.epoch)

    @lease_needs("tells_repeats")
    async def test_an_answer_that_repeats_a_grant_says_so(self, store: HasLeases, passage: Passage) -> None:
        first = await store.leases.acquire(NAME, "a", passage.brief_s)
        again = await store.leases.acquire(NAME, "a", 30.0)
        assert (first.repeated, again.repeated) == (False, True)
        assert not (await store.leases.acquire(NAME, "b", 30.0)).repeated
        await passage.past(passage.brief_s)
        taken = await store.leases.takeover(NAME, "b", first.lease.epoch, 30.0)
        repeat = await store.leases.takeover(NAME, "b", first.lease.epoch, 30.0)
        assert (taken.repeated, repeat.repeated) == (False, True)

    async def test_what_is_held_and_what_was_lost_is_listed(self, store: HasLeases, passage: Passage) -> None:
        released = await store.leases.acquire("released", "a", 30.0)
        assert await store.leases.release("released", released.lease.fence)
        for name, hold_s in (("lost", passage.brief_s), ("held", 10 * passage.brief_s)):
            assert (await store.leases.acquire(name, "a", hold_s)).granted
        await passage.past(passage.brief_s)
        names = {"released", "lost", "held"}
        found = {lease.name: lease.free async for lease in store.leases.leases() if lease.name in names}
        assert found == {"held": False, "lost": True}

    @lease_needs("mints_by_clock")
    async def test_a_fence_is_minted_above_the_wall_clock(self, store: HasLeases) -> None:
        lease = (await store.leases.acquire(NAME, "a", 30.0)).lease
        assert lease.fence >= 1_600_000_000_000_000

    async def test_fences_rise_over_releases_and_takeovers(self, store: HasLeases, passage: Passage) -> None:
        fences = [lease.fence for lease in await _turns(store.leases, passage)]
        assert fences == sorted(set(fences))

    @lease_needs("counts_epochs")
    async def test_epochs_count_the_grants_after_the_first(self, store: HasLeases, passage: Passage) -> None:
        assert [lease.epoch for lease in await _turns(store.leases, passage)] == list(range(6))

    @lease_needs("remembers_released")
    async def test_a_release_keeps_the_fence_and_frees_the_resource(self, store: HasLeases) -> None:
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

    async def test_a_renewed_lease_outlives_its_first_hold(self, store: HasLeases, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        assert await store.leases.renew(NAME, lease.fence, 10 * passage.brief_s)
        await passage.past(passage.brief_s)
        assert not (await store.leases.takeover(NAME, "b", lease.epoch, 30.0)).granted
        assert await store.leases.renew(NAME, lease.fence, 30.0)

    async def test_an_expired_lease_is_not_revived(self, store: HasLeases, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        assert not await store.leases.renew(NAME, lease.fence, 30.0)

    @lease_needs("spares_expired")
    async def test_an_expired_lease_is_not_acquired(self, store: HasLeases, passage: Passage) -> None:
        await store.leases.acquire(NAME, "a", passage.brief_s)
        await passage.past(passage.brief_s)
        expired = await store.leases.acquire(NAME, "a", 30.0)
        assert (expired.granted, expired.lease.left_s, expired.lease.free) == (False, 0.0, True)

    async def test_a_live_lease_is_not_taken_over(self, store: HasLeases) -> None:
        lease = (await store.leases.acquire(NAME, "a", 30.0)).lease
        refused = await store.leases.takeover(NAME, "b", lease.epoch, 30.0)
        assert (refused.granted, refused.lease.holder, refused.lease.fence) == (False, "a", lease.fence)

    async def test_a_takeover_needs_the_epoch_it_saw(self, store: HasLeases, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        taken = await store.leases.takeover(NAME, "b", lease.epoch, passage.brief_s)
        assert (taken.granted, taken.lease.epoch) == (True, lease.epoch + 1)
        await passage.past(passage.brief_s)
        stale = await store.leases.takeover(NAME, "c", lease.epoch, 30.0)
        assert (stale.granted, stale.lease.holder) == (False, "b")
        assert (await store.leases.takeover(NAME, "c", taken.lease.epoch, 30.0)).granted

    async def test_a_repeated_takeover_gets_the_first_answer(self, store: HasLeases, passage: Passage) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        first = await store.leases.takeover(NAME, "b", lease.epoch, 30.0)
        again = await store.leases.takeover(NAME, "b", lease.epoch, 30.0)
        assert again.granted
        assert (again.lease.fence, again.lease.epoch) == (first.lease.fence, first.lease.epoch)

    async def test_a_late_holder_cannot_release_what_was_taken_over(self, store: HasLeases, passage: Passage) -> None:
        late = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        taken = (await store.leases.takeover(NAME, "b", late.epoch, 30.0)).lease
        assert not await store.leases.release(NAME, late.fence)
        assert not await store.leases.renew(NAME, late.fence, 30.0)
        now = await store.leases.look(NAME)
        assert now is not None
        assert (now.holder, now.fence) == ("b", taken.fence)

    async def test_what_was_never_held_cannot_be_taken_over(self, store: HasLeases) -> None:
        assert await store.leases.look(NAME) is None
        with pytest.raises(NotFound, match=NAME):
            await store.leases.takeover(NAME, "a", 0, 30.0)
        with pytest.raises(CallerError):
            await store.leases.acquire("", "a", 30.0)

    async def test_one_of_many_takes_over(
        self, store: HasLeases, handles: Sequence[HasLeases], passage: Passage
    ) -> None:
        lease = (await store.leases.acquire(NAME, "a", passage.brief_s)).lease
        await passage.past(passage.brief_s)
        answers = await asyncio.gather(
            *(handles[n % len(handles)].leases.takeover(NAME, f"b{n}", lease.epoch, 30.0) for n in range(9))
        )
        assert sum(answer.granted for answer in answers) == 1

    async def test_one_of_many_acquires(self, handles: Sequence[HasLeases]) -> None:
        answers = await asyncio.gather(
            *(handles[n % len(handles)].leases.acquire(NAME, f"b{n}", 30.0) for n in range(9))
        )
        assert sum(answer.granted for answer in answers) == 1

    @lease_needs("fixes_fences")
    async def test_everybody_who_is_refused_sees_the_fence_that_was_granted(self, handles: Sequence[HasLeases]) -> None:
        answers = await asyncio.gather(
            *(handles[n % len(handles)].leases.acquire(NAME, f"b{n}", 30.0) for n in range(9))
        )
        assert len({answer.lease.fence for answer in answers}) == 1


async def _turns(leases: Leases, passage: Passage) -> list[Lease]:
    """Six grants of one resource: acquired and released, and every other time expired and taken over in between."""
    granted = []
    for turn in range(4):
        granted.append((await leases.acquire(NAME, f"a{turn}", passage.brief_s)).lease)
        if turn % 2:
            await passage.past(passage.brief_s)
            taken = await leases.takeover(NAME, f"b{turn}", granted[-1].epoch, 30.0)
            assert taken.granted
            granted.append(taken.lease)
        assert await leases.release(NAME, granted[-1].fence)
    return granted
