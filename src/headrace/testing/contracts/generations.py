"""A job that was redriven is judged by all its generations: an item counts once, in its newest one."""

from __future__ import annotations

from headrace.core.jobs import DeadFilter
from headrace.core.tally import JobState, Tolerance
from headrace.testing.contracts.bench import Bench, BenchFlow, barrier, died, flow, work

PLAIN = flow(work("read"))
CHAIN = flow(work("a"), barrier("end", "a"))


class GenerationsContract:
    async def test_a_partial_redrive_leaves_a_failed_job_failed(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=4, dead=3)
        assert await bench.redrive(job=job, limit=1) == 1
        assert await bench.drain(job) is JobState.FAILED
        assert await bench.counts(job, "read") == (0, 0, 2, 2, 0)
        assert (await bench.tally(job, "read")).total == 4
        assert await bench.listed(JobState.FAILED) == [job]
        assert await bench.listed(JobState.FINISHED) == []

    async def test_a_job_leaves_failed_when_nothing_of_it_is_dead_any_more(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=4, dead=3)
        states = []
        while await bench.redrive(job=job, limit=1):
            states.append(await bench.drain(job))
        assert states == [JobState.FAILED, JobState.FAILED, JobState.FINISHED]
        assert await bench.counts(job, "read") == (0, 0, 4, 0, 0)
        finishes = await bench.store.finishes(job)
        assert [finish.state for finish in finishes] == [JobState.FAILED, *states]
        assert [finish.stages["read"].total for finish in finishes] == [4, 1, 1, 1]

    async def test_a_job_leaves_failed_when_its_dead_are_within_tolerance(self, bench: Bench) -> None:
        job = await _failed(bench, flow(work("read", tolerate=Tolerance(count=2))), items=4, dead=4)
        assert await bench.redrive(job=job, limit=1) == 1
        assert await bench.drain(job) is JobState.FAILED
        assert await bench.redrive(job=job, limit=1) == 1
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_share_is_one_of_all_items_and_not_of_those_redriven(self, bench: Bench) -> None:
        job = await _failed(bench, flow(work("read", tolerate=Tolerance(percent=25.0))), items=8, dead=3)
        assert await bench.redrive(job=job, limit=2) == 2
        await bench.accept(await bench.claim("read"), [0], dead=(died(1),))
        assert await bench.state(job) is JobState.FINISHED
        assert await bench.counts(job, "read") == (0, 0, 6, 2, 0)

    async def test_an_item_that_dies_again_counts_once(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=3, dead=1)
        await bench.redrive(job=job)
        await bench.accept(await bench.claim("read"), [], dead=(died(0),))
        assert await bench.state(job) is JobState.FAILED
        assert await bench.counts(job, "read") == (0, 0, 2, 1, 0)
        assert await bench.redrive(job=job) == 1
        assert await bench.drain(job) is JobState.FINISHED
        assert await bench.counts(job, "read") == (0, 0, 3, 0, 0)

    async def test_what_is_redriven_waits_and_is_not_dead(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=5, dead=3)
        await bench.redrive(job=job, limit=2)
        assert await bench.counts(job, "read") == (2, 0, 2, 1, 0)
        claim = await bench.claim("read", room=1)
        assert await bench.counts(job, "read") == (1, 1, 2, 1, 0)
        await bench.accept(claim)
        assert await bench.counts(job, "read") == (1, 0, 3, 1, 0)

    async def test_another_stage_that_is_dead_keeps_its_job_failed(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"a": 2})
        await bench.accept(await bench.claim("a"), [0], dead=(died(1),))
        await bench.accept(await bench.claim("end"), [], dead=(died(0),))
        await bench.redrive(job=job, stage="end")
        await bench.accept(await bench.claim("end"))
        assert await bench.state(job) is JobState.FAILED
        assert await bench.counts(job, "a") == (0, 0, 1, 1, 0)
        assert await bench.counts(job, "end") == (0, 0, 1, 0, 0)

    async def test_a_purge_makes_nothing_well(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=3, dead=2)
        await bench.redrive(job=job, limit=1)
        await bench.drain(job)
        assert await bench.purge(job=job) == 1
        assert await bench.state(job) is JobState.FAILED
        assert await bench.counts(job, "read") == (0, 0, 2, 1, 0)

    async def test_a_purge_between_two_redrives_is_remembered(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=3, dead=2)
        await bench.purge(job=job, limit=1)
        await bench.redrive(job=job)
        assert await bench.drain(job) is JobState.FAILED
        assert await bench.counts(job, "read") == (0, 0, 2, 1, 0)
        assert await bench.store.dead(DeadFilter(job=job)) == []

    async def test_a_cancelled_redrive_leaves_a_failed_job_failed(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=3, dead=2)
        await bench.redrive(job=job, limit=1)
        await bench.cancel(job)
        assert await bench.state(job) is JobState.FAILED
        assert await bench.counts(job, "read") == (0, 0, 1, 1, 1)

    async def test_a_barrier_sees_each_item_once(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"a": 4})
        await bench.accept(await bench.claim("a"), [0, 1], dead=(died(2), died(3)))
        await bench.accept(await bench.claim("end"))
        await bench.redrive(job=job, limit=1)
        await bench.accept(await bench.claim("a"))
        report = await bench.claim("end")
        assert report.tallies is not None
        now, ever = report.tallies["a"]
        assert (now.total, now.done, now.dead) == (1, 1, 0)
        assert (ever.total, ever.done, ever.dead) == (4, 3, 1)
        await bench.accept(report)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_job_is_judged_by_all_generations_after_their_chunks_are_gone(self, bench: Bench) -> None:
        job = await _failed(bench, PLAIN, items=3, dead=2, keep_s=bench.passage.brief_s)
        await bench.past_brief()
        await bench.store.retain()
        await bench.redrive(job=job, limit=1)
        assert await bench.drain(job) is JobState.FAILED
        assert await bench.counts(job, "read") == (0, 0, 2, 1, 0)


async def _failed(bench: Bench, declared: BenchFlow, items: int, dead: int, **options: float) -> str:
    """A job whose last items died, too many of them."""
    job = await bench.submit(declared, {"read": items}, **options)
    losses = tuple(died(index) for index in range(items - dead, items))
    await bench.accept(await bench.claim("read"), range(items - dead), dead=losses)
    assert await bench.state(job) is JobState.FAILED
    return job
