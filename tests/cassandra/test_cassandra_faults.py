"""Answers are lost, lines are cut, a node does not answer: nothing is assumed, and a serial read decides."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from lock_clients import MetSession, client_on, resource, session_on
from waiting import eventually

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.session import CassandraSession
from headrace.core.errors import Unknown, Unreachable, suppress_healing
from headrace.core.leases import Leased
from headrace.testing.passage import ManualClock
from headrace.testing.rig.proxy import Proxy

# Longer than a busy server takes to answer: what is cut is noticed at once.
TIMEOUT_S = 10.0
IMPATIENT_S = 0.5
BACK_S_MAX = 60.0
TOLD_S_MAX = 8.0


@pytest.fixture
def proxy(fault_proxy: Callable[[str], Proxy], lock_keyspace: str) -> Proxy:
    return fault_proxy(lock_keyspace)


@pytest.fixture
async def line(proxy: Proxy) -> AsyncIterator[CassandraSession]:
    """A session through the proxy."""
    opened = await session_on(proxy.url, timeout_s=TIMEOUT_S)
    yield opened
    await opened.close()


@pytest.fixture
def leases(line: CassandraSession, clock: ManualClock) -> CassandraLeases:
    return client_on(line, clock)


async def test_a_grant_whose_answer_was_lost_is_recognised(proxy: Proxy, leases: CassandraLeases) -> None:
    proxy.cut_reply_to(b"worker-lost")
    answer = await leases.acquire(resource(), "worker-lost", 30.0)
    assert (answer.granted, answer.lease.holder, proxy.cuts) == (True, "worker-lost", 1)


async def test_a_request_that_never_arrived_is_sent_again(proxy: Proxy, leases: CassandraLeases) -> None:
    proxy.cut_before(b"worker-unsent")
    answer = await leases.acquire(resource(), "worker-unsent", 30.0)
    assert (answer.granted, answer.lease.fence, proxy.cuts) == (True, 1, 1)


async def test_what_somebody_else_was_granted_meanwhile_is_not_taken_for_ours(
    proxy: Proxy, line: CassandraSession, session: CassandraSession, clock: ManualClock
) -> None:
    name = resource()

    async def meeting() -> None:
        assert (await client_on(session, clock).acquire(name, "faster", 30.0)).granted

    met: Any = MetSession(line, "lock_row", meeting)
    proxy.cut_before(b"worker-slow")
    answer = await client_on(met, clock).acquire(name, "worker-slow", 30.0)
    assert (answer.granted, answer.lease.holder, met.met) == (False, "faster", 1)


async def test_a_takeover_whose_answer_was_lost_is_recognised(
    proxy: Proxy, leases: CassandraLeases, clock: ManualClock
) -> None:
    name = resource()
    first = (await leases.acquire(name, "a", 30.0)).lease
    clock.advance(30.0)
    proxy.cut_reply_to(b"worker-taker")
    taken = await leases.takeover(name, "worker-taker", first.epoch, 30.0)
    assert (taken.granted, taken.lease.epoch, proxy.cuts) == (True, first.epoch + 1, 1)


async def test_a_renewal_and_a_release_whose_answers_were_lost_are_recognised(
    proxy: Proxy, leases: CassandraLeases, clock: ManualClock
) -> None:
    name = resource()
    held = (await leases.acquire(name, "worker-held", 30.0)).lease
    proxy.cut_reply_to(b"worker-held")
    assert await leases.renew(name, held.fence, 60.0)
    found = await leases.look(name)
    assert found is not None
    assert found.left_s == pytest.approx(60.0, abs=0.01)
    await eventually(lambda: answers(leases, name), "the line is back", BACK_S_MAX)
    proxy.cut_reply_to(b"worker-held")
    assert await leases.release(name, held.fence)
    assert await leases.look(name) is None
    assert proxy.cuts == 2


async def test_a_release_that_never_arrived_is_sent_again(proxy: Proxy, leases: CassandraLeases) -> None:
    name = resource()
    held = (await leases.acquire(name, "worker-out", 30.0)).lease
    proxy.cut_before(b"worker-out")
    assert await leases.release(name, held.fence)
    assert await leases.look(name) is None


async def test_a_block_of_tokens_that_may_be_somebody_elses_is_left_out(proxy: Proxy, leases: CassandraLeases) -> None:
    """`last_seq` does not say who wrote it: the same number may be another client's purchase."""
    name = resource()
    proxy.cut_reply_to(name.encode())
    assert await leases.next_seq(name) == 101
    assert await leases.next_seq(name) == 102


async def acquired(leases: CassandraLeases, name: str) -> Leased:
    return await leases.acquire(name, "worker-away", 30.0)


async def taken_over(leases: CassandraLeases, name: str) -> Leased:
    return await leases.takeover(name, "worker-away", 1, 30.0)


@pytest.mark.parametrize("attempt", [acquired, taken_over])
async def test_what_cannot_be_decided_is_unknown_and_asked_for_again(
    proxy: Proxy, session: CassandraSession, clock: ManualClock, attempt: Callable[..., Awaitable[Leased]]
) -> None:
    name, opened = resource(), await session_on(proxy.url, timeout_s=IMPATIENT_S)

    async def meeting() -> None:
        proxy.black_hole("replies")

    first = attempt is acquired
    met: Any = MetSession(opened, "lock_insert" if first else "lock_takeover", meeting)
    leases = client_on(met, clock)
    if not first:
        await client_on(session, clock).acquire(name, "before", 30.0)
        clock.advance(30.0)
    with pytest.raises(Unknown):
        await attempt(leases, name)
    proxy.heal()
    written = (await session.run("lock_row", {"resource_id": name})).rows[0]
    assert written[0] == "worker-away"

    async def granted() -> Leased | None:
        with suppress_healing():
            answer = await attempt(leases, name)
            return answer if answer.granted else None
        return None

    answer = await eventually(granted, "the lock is granted again", BACK_S_MAX)
    # Its row was written under a token that was never reported. A takeover has a new one now; the first token of a
    # resource is reported when it has been bought.
    assert answer.lease.fence > written[1] or (first and answer.lease.fence == written[1] == 1)
    assert (await session.run("lock_row", {"resource_id": name})).rows[0][1] == answer.lease.fence
    await opened.close()


async def test_a_node_that_is_away_is_unreachable_and_used_again_when_it_is_back(
    proxy: Proxy, leases: CassandraLeases
) -> None:
    name = resource()
    held = (await leases.acquire(name, "a", 30.0)).lease
    proxy.refuse()
    proxy.reset()
    began = time.monotonic()
    with pytest.raises(Unreachable):
        await leases.look(name)
    assert time.monotonic() - began < TOLD_S_MAX
    proxy.heal()
    await eventually(lambda: answers(leases, name), "the node is used again", BACK_S_MAX)
    assert await leases.renew(name, held.fence, 30.0)


async def test_a_slow_line_costs_time_and_nothing_else(proxy: Proxy, leases: CassandraLeases) -> None:
    proxy.latency(0.05)
    name = resource()
    held = await leases.acquire(name, "a", 30.0)
    assert held.granted
    assert await leases.release(name, held.lease.fence)


async def answers(leases: CassandraLeases, name: str) -> bool:
    with suppress_healing():
        return await leases.look(name) is not None
    return False
