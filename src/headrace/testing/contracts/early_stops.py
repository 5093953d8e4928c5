"""A job that stops because too much died: in the transaction that finds it, whichever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.core.claims import CRASHES_MAX, Settlement
from headrace.core.tally import JobState, Tolerance
from headrace.ports.backend import Backend
from headrace.testing.contracts.bench import Bench, barrier, died, external, flow, parcel, work

HASTY = work("a", stop_early=True)
HANDS = 8


class StoppingContract:
    async def test_nobody_is_waited_for_in_a_job_that_stopped(self, bench: Bench) -> None:
        job = await bench.submit(
            flow(HASTY, external("approval", "a"), barrier("end", "approval")), [parcel("a", 1), parcel("a", 3)]
        )
        await bench.accept(await bench.claim("a", room=1), [], dead=(died(0),))
        assert await bench.counts(job, "a") == (0, 0, 0, 1, 3)
        assert await bench.counts(job, "approval") == (0, 0, 0, 0, 0)
        await bench.accept(await bench.claim("end"))
        assert await bench.state(job) is JobState.FAILED

    async def test_nobody_is_waited_for_when_what_was_held_ends_after_the_stop(self, bench: Bench) -> None:
        job = await bench.submit(flow(HASTY, external("approval", "a")), [parcel("a", 1), parcel("a", 1)])
        first, second = [await bench.claim("a", room=1) for _ in range(2)]
        await bench.accept(first, [], dead=(died(0),))
        assert await bench.state(job) is JobState.OPEN
        await bench.accept(second)
        assert await bench.counts(job, "approval") == (0, 0, 0, 0, 0)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_cancelled_item_that_ends_its_chunk_lets_the_job_stop(self, bench: Bench) -> None:
        job = await bench.submit(flow(HASTY), [parcel("a", 2), parcel("a", 3)])
        claim = await bench.claim("a", room=1)
        await bench.accept(claim, [], dead=(died(0),))
        assert await bench.cancel_item(job, "a", claim.seqs[0] + 1)
        assert await bench.counts(job, "a") == (0, 0, 0, 1, 4)
        assert await bench.state(job) is JobState.FAILED

    async def test_an_item_that_loses_its_workers_lets_the_job_stop(self, bench: Bench) -> None:
        job = await bench.submit(flow(HASTY, work("b")), {"a": 1, "b": 3})
        for _ in range(CRASHES_MAX + 1):
            await bench.lose("a")
        assert await bench.counts(job, "b") == (0, 0, 0, 0, 3)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_deadline_that_passes_lets_the_job_stop(self, bench: Bench) -> None:
        hasty = flow(external("approval", deadline_s=bench.passage.brief_s, stop_early=True), work("a"))
        job = await bench.submit(hasty, {"a": 3})
        await bench.past_brief()
        await bench.sweep()
        assert await bench.counts(job, "a") == (0, 0, 0, 0, 3)
        assert await bench.state(job) is JobState.FAILED

    async def test_what_a_settlement_sends_stops_with_its_job(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b", stop_early=True), work("b")), {"a": 2})
        await bench.accept(await bench.claim("a"), [0], dead=(died(1),), sends=(parcel("b", 5),))
        assert await bench.counts(job, "b") == (0, 0, 0, 0, 5)
        assert await bench.state(job) is JobState.FAILED

    async def test_one_call_stops_several_jobs(self, bench: Bench) -> None:
        jobs = [await bench.submit(flow(HASTY), [parcel("a", 1), parcel("a", 4)]) for _ in range(3)]
        claims = [await bench.claim("a", room=1) for _ in range(3)]
        assert {claim.job for claim in claims} == set(jobs)
        answers = await bench.store.settle([Settlement(claim.fence, 1, dead=(died(0),)) for claim in claims])
        assert [answer.accepted for answer in answers] == [True] * 3
        await bench.look()
        for job in jobs:
            assert await bench.counts(job, "a") == (0, 0, 0, 1, 4)
            assert await bench.state(job) is JobState.FAILED

    async def test_many_hands_meet_at_a_stop(self, bench: Bench, handles: Sequence[Backend]) -> None:
        declared = flow(work("a", "b", stop_early=True, tolerate=Tolerance(count=1)), work("b"), barrier("end", "b"))
        job = await bench.submit(declared, [parcel("a", 2) for _ in range(2 * HANDS)])
        claims = [await bench.claim("a", room=2) for _ in range(HANDS)]
        hands = [handles[number % len(handles)] for number in range(HANDS)]
        await asyncio.gather(
            *(
                hand.settle([Settlement(claim.fence, 1, 0b1, dead=(died(1),), sends=(parcel("b", 2),))])
                for hand, claim in zip(hands, claims, strict=True)
            )
        )
        await bench.look()
        assert (await bench.tally(job, "a")).waiting == 0
        assert await bench.counts(job, "a") == (0, 0, HANDS, HANDS, 2 * HANDS)
        assert await bench.drain(job) is JobState.FAILED
