"""Claiming: every item in one live claim, fences that only rise, and turns that are fair."""

from __future__ import annotations

import asyncio

from headrace.core.claims import Claim, Want
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import Bench, flow, parcel, work

PLAIN = flow(work("read"))
RING_S_MAX = 10.0


class ClaimingContract:
    async def test_a_claim_carries_what_its_handler_needs(self, bench: Bench) -> None:
        items = parcel("read", 3, keys=["a", None, "c"])
        job = await bench.submit(PLAIN, [items], tenant="acme")
        claim = await bench.claim("read")
        assert (claim.job, claim.tenant, claim.flow, claim.stage, claim.generation) == (job, "acme", "flow", "read", 1)
        assert [claim.piece(index) for index in range(3)] == [b"read-0", b"read-1", b"read-2"]
        assert claim.keys == ("a", None, "c")
        assert claim.graph == PLAIN.graph
        assert (claim.attempt, claim.alone, claim.depth, dict(claim.cursors), claim.tallies) == (0, False, 0, {}, None)

    async def test_seqs_are_unique_in_their_job_and_ordered(self, bench: Bench) -> None:
        await bench.submit(PLAIN, [parcel("read", 5), parcel("read", 5)])
        seqs = [seq for claim in await bench.claim_all("read", room=3) for seq in claim.seqs]
        assert len(set(seqs)) == 10
        assert seqs == sorted(seqs)

    async def test_an_item_is_in_one_live_claim(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 20})
        first = await bench.claim("read", room=8, worker="worker-1")
        second = await bench.claim("read", room=8, worker="worker-2")
        assert not set(first.seqs) & set(second.seqs)
        assert (await bench.tally(job, "read")).held == first.count + second.count

    async def test_pieces_of_a_slice_are_its_own(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 10})
        await bench.claim("read", room=4)
        claim = await bench.claim("read", room=4)
        assert [claim.piece(index) for index in range(claim.count)] == [b"read-4", b"read-5", b"read-6", b"read-7"]

    async def test_fences_rise_over_all_grants(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 6})
        await bench.submit(flow(work("read"), name="other"), {"read": 6})
        fences = []
        for _ in range(3):
            fences.append((await bench.claim("read", room=2)).fence)
            fences.append((await bench.claim("read", room=2, flow="other")).fence)
        assert fences == sorted(set(fences))

    async def test_room_and_slice_max_are_limits(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 100})
        claims = (await bench.grant("read", room=10, slice_max=4)).claims
        assert 0 < sum(claim.count for claim in claims) <= 10
        assert all(claim.count <= 4 for claim in claims)

    async def test_every_wanted_stage_is_served(self, bench: Bench) -> None:
        await bench.submit(flow(work("a"), work("b")), {"a": 2, "b": 2})
        wants = [Want("flow", "a", 2, 2), Want("flow", "b", 2, 2)]
        granted = await bench.store.claim("worker-1", wants, bench.passage.hold_s)
        assert {claim.stage for claim in granted.claims} == {"a", "b"}

    async def test_other_flows_and_stages_are_left_alone(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 2})
        assert (await bench.grant("write")).claims == ()
        assert (await bench.grant("read", flow="other")).claims == ()
        assert (await bench.store.claim("worker-1", [], bench.passage.hold_s)).claims == ()

    async def test_a_want_without_room_gets_nothing(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 2})
        assert (await bench.grant("read", room=0)).claims == ()

    async def test_slices_leave_something_for_every_live_worker(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 40})
        for number in range(1, 6):
            bench.renew(f"worker-{number}")
        claims = (await bench.grant("read", room=40)).claims
        assert claims
        assert max(claim.count for claim in claims) <= 40 // (2 * 5)

    async def test_a_worker_that_renews_no_more_is_left_nothing(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 40})
        for number in range(2, 6):
            bench.renew(f"worker-{number}", hold_s=bench.passage.brief_s)
        await bench.past_brief()
        assert (await bench.grant("read", room=20)).claims[0].count == 20

    async def test_the_last_items_are_granted_one_by_one(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        for number in range(1, 6):
            bench.renew(f"worker-{number}")
        claims = await bench.claim_all("read", room=1)
        assert [claim.count for claim in claims] == [1, 1, 1]
        assert (await bench.tally(job, "read")).waiting == 0

    async def test_the_higher_priority_goes_first(self, bench: Bench) -> None:
        low = await bench.submit(PLAIN, {"read": 5}, priority=-1)
        high = await bench.submit(PLAIN, {"read": 5}, priority=7)
        middle = await bench.submit(PLAIN, {"read": 5})
        order = [(await bench.claim("read", room=5)).job for _ in range(3)]
        assert order == [high, middle, low]

    async def test_the_lowest_priority_gets_a_share(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 40}, priority=7)
        low = await bench.submit(PLAIN, {"read": 40}, priority=-1)
        jobs = [claim.job for claim in await _one_by_one(bench, 17)]
        assert 1 <= jobs.count(low) <= 4

    async def test_claims_rotate_over_tenants(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 100}, tenant="a")
        await bench.submit(PLAIN, {"read": 100}, tenant="a")
        small = await bench.submit(PLAIN, {"read": 3}, tenant="b")
        jobs = [claim.job for claim in await _one_by_one(bench, 6)]
        assert jobs.count(small) == 3

    async def test_claims_rotate_over_the_jobs_of_a_tenant(self, bench: Bench) -> None:
        for _ in range(3):
            await bench.submit(PLAIN, {"read": 30})
        jobs = [claim.job for claim in await _one_by_one(bench, 6)]
        assert {jobs.count(job) for job in bench.jobs} == {2}

    async def test_a_job_that_comes_late_does_not_wait_for_the_earlier_ones(self, bench: Bench) -> None:
        await bench.submit(PLAIN, [parcel("read", 500) for _ in range(4)], tenant="a")
        await _one_by_one(bench, 3)
        late = await bench.submit(PLAIN, {"read": 10}, tenant="b")
        for claim in await _one_by_one(bench, 2, room=10):
            if claim.job == late:
                await bench.accept(claim)
        assert await bench.state(late) is JobState.FINISHED

    async def test_a_bell_rings_when_work_becomes_available(self, bench: Bench) -> None:
        rang = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(rang.set)

        unsubscribe = bench.store.on_wake(ring)
        await bench.submit(PLAIN, {"read": 1})
        async with asyncio.timeout(RING_S_MAX):
            await rang.wait()
        unsubscribe()
        unsubscribe()


async def _one_by_one(bench: Bench, times: int, room: int = 1) -> list[Claim]:
    return [await bench.claim("read", room=room) for _ in range(times)]
