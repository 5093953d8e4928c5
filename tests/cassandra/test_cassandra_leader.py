"""One leader at a time, by a lease on Cassandra."""

from __future__ import annotations

import asyncio

from lock_clients import client_on, resource, session_on

from headrace.services import NamedLease, Term, leader

HOLD_S = 6.0
LIMIT_S = 60.0


async def test_of_two_one_leads_and_the_other_follows_under_a_higher_fence(lock_keyspace: str) -> None:
    name, stops = resource(), [asyncio.Event(), asyncio.Event()]
    sessions = [await session_on(lock_keyspace) for _ in stops]
    terms: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    async def lead(number: int) -> None:
        async def loop(term: Term) -> None:
            terms.put_nowait((number, term.fence))
            await stops[number].wait()

        await leader(NamedLease(client_on(sessions[number]), name, HOLD_S), loop, stops[number])

    async with asyncio.timeout(LIMIT_S):
        leading = [asyncio.ensure_future(lead(number)) for number in range(2)]
        first, fence = await terms.get()
        stops[first].set()
        second, higher = await terms.get()
        stops[second].set()
        await asyncio.gather(*leading)
    assert {first, second} == {0, 1}
    assert higher > fence
    for session in sessions:
        await session.close()
