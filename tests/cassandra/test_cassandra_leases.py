"""Leases on Cassandra keep the contract of leases, except for what a foreign contract decides otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from lock_clients import LockPlace, client_on, resource, session_on

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.session import CassandraSession
from headrace.core.errors import NotFound
from headrace.core.leases import LeaseOperation
from headrace.services.locks import LockClient
from headrace.testing.contracts import LeasesContract, LockClientContract
from headrace.testing.contracts.leases import NAME
from headrace.testing.contracts.locks import RESOURCE
from headrace.testing.passage import ManualClock, ManualPassage, Passage

HANDLES = 2


class TestCassandraLeases(LeasesContract, LockClientContract):
    lease_features = CassandraLeases.features

    @pytest.fixture
    def passage(self, clock: ManualClock) -> Passage:
        return ManualPassage(clock)

    @pytest.fixture
    def store(self, handles: Sequence[LockPlace]) -> LockPlace:
        return handles[0]

    @pytest.fixture
    async def handles(self, lock_keyspace: str, clock: ManualClock) -> AsyncIterator[Sequence[LockPlace]]:
        sessions = [await session_on(lock_keyspace) for _ in range(HANDLES)]
        yield [LockPlace(client_on(session, clock), session) for session in sessions]
        for name in (NAME, RESOURCE):
            for holder, token, *_ in (await sessions[0].run("lock_row", {"resource_id": name})).rows:
                values = {"resource_id": name, "holder": holder, "fencing_token": token}
                await sessions[0].run("lock_release", values)
        for session in sessions:
            await session.close()


def test_what_the_foreign_contract_decides_otherwise_is_no_test_of_it() -> None:
    names = {name for name in dir(TestCassandraLeases) if name.startswith("test_")}
    assert {name for name in names if getattr(TestCassandraLeases, name) is None} == {
        "test_a_fence_is_minted_above_the_wall_clock",
        "test_a_release_keeps_the_fence_and_frees_the_resource",
        "test_an_expired_lease_is_not_acquired",
        "test_epochs_count_the_grants_after_the_first",
        "test_everybody_who_is_refused_sees_the_fence_that_was_granted",
    }


@pytest.fixture
def leases(session: CassandraSession, clock: ManualClock) -> CassandraLeases:
    return client_on(session, clock)


# What stands here instead


async def test_fences_start_at_1(leases: CassandraLeases) -> None:
    lease = (await leases.acquire(resource(), "a", 30.0)).lease
    assert (lease.fence, lease.epoch) == (1, 1)


async def test_a_release_deletes_the_row_and_the_next_fence_is_higher(leases: CassandraLeases) -> None:
    name = resource()
    lease = (await leases.acquire(name, "a", 30.0)).lease
    assert await leases.release(name, lease.fence)
    assert not await leases.release(name, lease.fence)
    assert await leases.look(name) is None
    assert not await leases.renew(name, lease.fence, 30.0)
    with pytest.raises(NotFound, match=name):
        await leases.takeover(name, "b", lease.epoch, 30.0)
    again = await leases.acquire(name, "b", 30.0)
    assert again.granted
    assert again.lease.fence > lease.fence


async def test_acquire_takes_over_what_has_expired(leases: CassandraLeases, clock: ManualClock) -> None:
    name = resource()
    first = (await leases.acquire(name, "a", 30.0)).lease
    clock.advance(30.001)
    taken = await leases.acquire(name, "b", 30.0)
    assert (taken.granted, taken.lease.holder, taken.lease.epoch) == (True, "b", first.epoch + 1)
    assert taken.lease.fence > first.fence


async def test_an_insert_writes_its_token_as_the_epoch(leases: CassandraLeases) -> None:
    """A foreign client that saw an earlier row compares the epoch alone, and must not find it again."""
    name, epochs = resource(), []
    for _ in range(3):
        lease = (await leases.acquire(name, "a", 30.0)).lease
        epochs.append(lease.epoch)
        await leases.release(name, lease.fence)
    assert epochs == sorted(set(epochs))


async def test_one_who_is_refused_sees_the_holder(leases: CassandraLeases) -> None:
    name = resource()
    granted = await leases.acquire(name, "a", 30.0)
    refused = await leases.acquire(name, "b", 30.0)
    assert (refused.granted, refused.lease) == (False, granted.lease)


async def test_a_client_whose_clock_is_ahead_takes_a_lock_early_under_a_higher_fence(session: CassandraSession) -> None:
    assert not CassandraLeases.features.keeps_time
    name, right, ahead = resource(), ManualClock(), ManualClock()
    ahead.jump_wall(31.0)
    early = (await client_on(session, right).acquire(name, "a", 30.0)).lease
    late = await client_on(session, ahead).acquire(name, "b", 30.0)
    assert late.granted
    assert late.lease.fence > early.fence


# The tests of the text, by their names there


@pytest.mark.parametrize("racers", [2, 100])
async def test_race_only_one_acquires(lock_keyspace: str, racers: int) -> None:
    name = resource()
    sessions = [await session_on(lock_keyspace) for _ in range(min(racers, 4))]
    clients = [client_on(session) for session in sessions]
    answers = await asyncio.gather(
        *(clients[number % len(clients)].acquire(name, f"worker-{number}", 30.0) for number in range(racers))
    )
    assert [answer.granted for answer in answers].count(True) == 1
    for session in sessions:
        await session.close()


async def test_takeover_after_expire(lock_keyspace: str, clock: ManualClock) -> None:
    name = resource()
    first, second = await session_on(lock_keyspace), await session_on(lock_keyspace)
    old, new = client_on(first, clock), client_on(second, clock)
    lost = (await old.acquire(name, "worker-1", 5.0)).lease
    assert not (await new.acquire(name, "worker-2", 5.0)).granted
    clock.advance(5.0)
    taken = await new.acquire(name, "worker-2", 5.0)
    assert taken.granted
    assert not await old.renew(name, lost.fence, 5.0)
    assert not await old.release(name, lost.fence)
    assert await new.look(name) == taken.lease
    await first.close()
    await second.close()


async def test_renew_success_then_fail_after_expiry(session: CassandraSession, clock: ManualClock) -> None:
    name, seen = resource(), list[LeaseOperation]()
    leases = CassandraLeases(session, seen.append, clock)
    fence = (await leases.acquire(name, "worker-1", 5.0)).lease.fence
    clock.advance(4.0)
    assert await leases.renew(name, fence, 5.0)
    clock.advance(4.0)
    assert await leases.renew(name, fence, 5.0)
    clock.advance(5.0)
    assert not await leases.renew(name, fence, 5.0)
    renewals = [operation.outcome for operation in seen if operation.op == "renew"]
    assert renewals == ["granted", "granted", "refused"]
    assert [operation.op for operation in seen][:2] == ["next_seq", "acquire"]


async def test_next_seq_is_continuous_and_unique_under_concurrency(leases: CassandraLeases) -> None:
    name, locks = resource(), LockClient(leases)
    drawn = await asyncio.gather(*(locks.next_seq(name) for _ in range(250)))
    assert sorted(drawn) == list(range(1, 251))


async def test_a_result_has_the_end_that_is_in_the_row(leases: CassandraLeases, session: CassandraSession) -> None:
    name = resource()
    held = await LockClient(leases).try_acquire(name, "a", 30.0)
    row = (await session.run("lock_row", {"resource_id": name})).first()
    found = (held.token, held.expire_at, held.epoch)
    assert row == {"holder": "a", **dict(zip(("fencing_token", "expire_at", "epoch"), found, strict=True))}


# Holding


async def test_a_client_that_did_not_acquire_renews_and_releases_by_the_token(lock_keyspace: str) -> None:
    name = resource()
    first, second = await session_on(lock_keyspace), await session_on(lock_keyspace)
    held = (await client_on(first).acquire(name, "a", 30.0)).lease
    other = client_on(second)
    assert await other.renew(name, held.fence, 60.0)
    assert not await other.renew(name, held.fence + 1, 60.0)
    assert await other.release(name, held.fence)
    await first.close()
    await second.close()


async def test_a_holder_whose_end_somebody_else_moved_renews_by_the_row(lock_keyspace: str) -> None:
    name = resource()
    first, second = await session_on(lock_keyspace), await session_on(lock_keyspace)
    mine = client_on(first)
    held = (await mine.acquire(name, "a", 30.0)).lease
    assert await client_on(second).renew(name, held.fence, 60.0)
    assert await mine.renew(name, held.fence, 90.0)
    await first.close()
    await second.close()


async def test_a_namesake_in_another_client_is_refused(lock_keyspace: str) -> None:
    """A lease is repeated to the client that has it: two processes of one name do not hold it together."""
    name = resource()
    first, second = await session_on(lock_keyspace), await session_on(lock_keyspace)
    assert (await client_on(first).acquire(name, "a", 30.0)).granted
    assert not (await client_on(second).acquire(name, "a", 30.0)).granted
    await first.close()
    await second.close()


async def test_all_locks_can_be_listed(leases: CassandraLeases) -> None:
    names = sorted(resource() for _ in range(3))
    for name in names:
        await leases.acquire(name, "lister", 30.0)
    found = [lease async for lease in leases.leases()]
    assert sorted(lease.name for lease in found if lease.holder == "lister") == names
