"""Closing: stages seal and close in a cascade, barriers open once, and the finish line is crossed once."""

from __future__ import annotations

from headrace.core.tally import JobState, Tolerance
from headrace.testing.contracts.bench import Bench, barrier, died, flow, parcel, work

CHAIN = flow(work("find", "read"), work("read"), barrier("report", "read"))


class ClosingContract:
    async def test_a_fast_consumer_cannot_finish_before_a_slow_producer(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"find": 2})
        fast, slow = await bench.claim("find", room=1), await bench.claim("find", room=1)
        await bench.accept(fast, sends=(parcel("read", 3),))
        await bench.accept(await bench.claim("read"))
        read = await bench.tally(job, "read")
        assert (read.total, read.done, read.sealed, read.closed) == (3, 3, False, False)
        await bench.accept(slow, sends=(parcel("read", 1),))
        assert (await bench.tally(job, "read")).sealed
        await bench.accept(await bench.claim("read"))
        assert (await bench.tally(job, "read")).closed

    async def test_a_stage_whose_items_ended_early_closes_with_its_last_feeder(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 2})
        first, last = await bench.claim("a", room=1), await bench.claim("a", room=1)
        await bench.accept(first, sends=(parcel("b", 2),))
        await bench.accept(await bench.claim("b"))
        await bench.accept(last)
        assert await bench.state(job) is JobState.FINISHED

    async def test_empty_stages_close_in_a_cascade(self, bench: Bench) -> None:
        names = ["a", "b", "c", "d", "e"]
        stages = [work(name, *names[index + 1 : index + 2]) for index, name in enumerate(names)]
        job = await bench.submit(flow(*stages), {"a": 1})
        await bench.accept(await bench.claim("a"))
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_stage_with_two_feeders_waits_for_both(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "c"), work("b", "c"), work("c")), {"a": 1, "b": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("c", 1),))
        await bench.accept(await bench.claim("c"))
        assert not (await bench.tally(job, "c")).sealed
        await bench.accept(await bench.claim("b"))
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_diamond_closes_once(self, bench: Bench) -> None:
        diamond = flow(work("a", "b", "c"), work("b", "d"), work("c", "d"), work("d"), barrier("end", "d"))
        job = await bench.submit(diamond, {"a": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 2), parcel("c", 2)))
        for stage in ("b", "c"):
            await bench.accept(await bench.claim(stage), sends=(parcel("d", 2),))
        assert (await bench.tally(job, "d")).total == 4
        assert await bench.drain(job) is JobState.FINISHED
        assert (await bench.tally(job, "end")).total == 1

    async def test_a_stage_that_feeds_itself_closes_when_nothing_is_open(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("crawl", "crawl", depth_max=5), barrier("end", "crawl")), {"crawl": 1})
        assert (await bench.tally(job, "crawl")).sealed
        for depth in range(3):
            claim = await bench.claim("crawl")
            assert claim.depth == depth
            await bench.accept(claim, sends=(parcel("crawl", 2, depth=depth + 1),))
            assert not (await bench.tally(job, "crawl")).closed
        await bench.accept(await bench.claim("crawl"))
        assert (await bench.tally(job, "crawl")).closed
        assert (await bench.tally(job, "crawl")).total == 1 + 2 + 2 + 2
        assert (await bench.tally(job, "end")).waiting == 1

    async def test_a_barrier_gets_one_item_that_knows_the_tallies(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"find": 1})
        await bench.accept(await bench.claim("find"), sends=(parcel("read", 4),))
        assert (await bench.grant("report")).claims == ()
        await bench.accept(await bench.claim("read"), [0, 1, 2], dead=(died(3),))
        claim = await bench.claim("report")
        assert claim.count == 1
        assert claim.tallies is not None
        now, ever = claim.tallies["read"]
        assert (now.total, now.done, now.dead, now.closed) == (4, 3, 1, True)
        assert (ever.total, ever.done, ever.dead) == (4, 3, 1)
        await bench.accept(claim)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_barrier_after_two_stages_opens_with_the_later_one(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), work("b"), barrier("end", "a", "b")), {"a": 1, "b": 1})
        await bench.accept(await bench.claim("b"))
        assert (await bench.tally(job, "end")).total == 0
        await bench.accept(await bench.claim("a"))
        assert (await bench.tally(job, "end")).waiting == 1
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_barrier_may_feed_a_stage(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), barrier("mid", "a", feeds=("b",)), work("b")), {"a": 1})
        await bench.accept(await bench.claim("a"))
        await bench.accept(await bench.claim("mid"), sends=(parcel("b", 3),))
        assert await bench.drain(job) is JobState.FINISHED
        assert (await bench.tally(job, "b")).done == 3

    async def test_sending_where_a_stage_does_not_feed_is_refused_by_name(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 1),))
        claim = await bench.claim("b")
        answer = await bench.settle(claim, [0], sends=(parcel("a", 1),))
        assert (answer.accepted, answer.reason) == (False, "unknown:a")
        assert await bench.counts(job, "b") == (0, 1, 0, 0, 0)
        await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED

    async def test_the_finish_line_is_one_row_with_one_event(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"find": 3})
        await bench.drain(job)
        (finish,) = await bench.store.finishes(job)
        assert (finish.job, finish.generation, finish.state) == (job, 1, JobState.FINISHED)
        assert finish.event_id == f"{job}.1.completed"
        assert finish.stages["find"].done == 3
        assert (await bench.audit(job)).events == (1,)

    async def test_one_dead_item_fails_a_job_that_tolerates_none(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("read")), {"read": 10})
        await bench.accept(await bench.claim("read"), range(9), dead=(died(9),))
        assert await bench.state(job) is JobState.FAILED

    async def test_dead_items_within_a_counted_tolerance_are_borne(self, bench: Bench) -> None:
        for deaths, state in ((2, JobState.FINISHED), (3, JobState.FAILED)):
            job = await bench.submit(flow(work("read", tolerate=Tolerance(count=2))), {"read": 10})
            claim = await bench.claim("read")
            await bench.accept(claim, range(10 - deaths), dead=tuple(died(9 - i) for i in range(deaths)))
            assert await bench.state(job) is state

    async def test_dead_items_within_a_tolerated_share_are_borne(self, bench: Bench) -> None:
        for deaths, state in ((2, JobState.FINISHED), (3, JobState.FAILED)):
            job = await bench.submit(flow(work("read", tolerate=Tolerance(percent=20.0))), {"read": 10})
            claim = await bench.claim("read")
            await bench.accept(claim, range(10 - deaths), dead=tuple(died(9 - i) for i in range(deaths)))
            assert await bench.state(job) is state

    async def test_a_job_that_stops_early_ends_when_its_dead_are_too_many(self, bench: Bench) -> None:
        careful = flow(work("read", stop_early=True, tolerate=Tolerance(count=1)))
        job = await bench.submit(careful, [parcel("read", 2), parcel("read", 5)])
        await bench.accept(await bench.claim("read", room=2), [], dead=(died(0), died(1)))
        assert await bench.counts(job, "read") == (0, 0, 0, 2, 5)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_job_that_does_not_stop_early_goes_on(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("read")), [parcel("read", 2), parcel("read", 5)])
        await bench.accept(await bench.claim("read", room=2), [], dead=(died(0), died(1)))
        assert await bench.counts(job, "read") == (5, 0, 0, 2, 0)
        assert await bench.drain(job) is JobState.FAILED
