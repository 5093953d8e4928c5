"""Submitting: a job opens once, whole, and ends at once if there is nothing in it."""

from __future__ import annotations

import pytest

from headrace.core.errors import CallerError, Conflict, NotFound, UnknownStage
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import Bench, barrier, external, flow, parcel, work

PLAIN = flow(work("read"))


class SubmittingContract:
    async def test_a_job_opens_with_its_items_waiting(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 5})
        assert await bench.counts(job, "read") == (5, 0, 0, 0, 0)
        assert (await bench.tally(job, "read")).sealed
        assert await bench.state(job) is JobState.OPEN

    async def test_the_same_job_again_is_the_first_one(self, bench: Bench) -> None:
        first = await bench.try_submit(PLAIN, {"read": 5}, job="j", digest="d")
        again = await bench.try_submit(PLAIN, {"read": 5}, job="j", digest="d")
        assert (first.created, again.created, again.job) == (True, False, "j")
        assert (await bench.tally("j", "read")).total == 5

    async def test_the_same_job_with_another_body_is_refused(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 5}, job="j", digest="d")
        with pytest.raises(Conflict):
            await bench.submit(PLAIN, {"read": 6}, job="j", digest="other")
        assert (await bench.tally("j", "read")).total == 5

    async def test_the_same_key_and_body_is_the_first_job(self, bench: Bench) -> None:
        first = await bench.try_submit(PLAIN, {"read": 5}, key="order-1", digest="d")
        again = await bench.try_submit(PLAIN, {"read": 5}, key="order-1", digest="d")
        assert again.job == first.job
        assert not again.created

    async def test_the_same_key_with_another_body_is_refused(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 5}, key="order-1", digest="d")
        with pytest.raises(Conflict):
            await bench.submit(PLAIN, {"read": 5}, key="order-1", digest="other")

    async def test_a_key_belongs_to_its_tenant_and_flow(self, bench: Bench) -> None:
        first = await bench.submit(PLAIN, {"read": 1}, key="k", digest="d", tenant="a")
        second = await bench.submit(PLAIN, {"read": 1}, key="k", digest="d", tenant="b")
        third = await bench.submit(flow(work("read"), name="other"), {"read": 1}, key="k", digest="d", tenant="a")
        assert len({first, second, third}) == 3

    async def test_a_key_is_kept_after_its_job_ended(self, bench: Bench) -> None:
        first = await bench.submit(PLAIN, {"read": 1}, key="k", digest="d")
        await bench.drain(first)
        assert await bench.submit(PLAIN, {"read": 1}, key="k", digest="d") == first

    async def test_a_job_without_items_ends_in_the_call_that_opens_it(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b", "c"), work("c")), {})
        assert await bench.state(job) is JobState.FINISHED
        finishes = await bench.store.finishes(job)
        assert [finish.generation for finish in finishes] == [1]

    async def test_the_barrier_of_an_empty_job_still_runs(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b"), barrier("report", "b")), {})
        assert await bench.state(job) is JobState.OPEN
        assert await bench.counts(job, "report") == (1, 0, 0, 0, 0)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_an_empty_root_closes_beside_one_with_items(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "c"), work("b", "c"), work("c")), {"a": 1})
        assert (await bench.tally(job, "b")).closed
        assert not (await bench.tally(job, "c")).sealed

    async def test_many_parcels_are_one_job(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, [parcel("read", 500), parcel("read", 500), parcel("read", 7)])
        assert await bench.counts(job, "read") == (1_007, 0, 0, 0, 0)
        assert await bench.drain(job) is JobState.FINISHED
        assert (await bench.tally(job, "read")).done == 1_007

    async def test_items_for_an_unknown_stage_are_refused_and_nothing_is_opened(self, bench: Bench) -> None:
        with pytest.raises(UnknownStage):
            await bench.submit(PLAIN, [parcel("read", 1), parcel("nowhere", 1)], job="j")
        submitted = await bench.try_submit(PLAIN, {"read": 1}, job="j")
        assert submitted.created

    async def test_a_delayed_job_is_granted_when_it_is_due(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3}, delay_s=bench.passage.brief_s)
        early = await bench.grant("read")
        assert early.claims == ()
        assert early.wait_s is not None
        assert 0 < early.wait_s <= bench.passage.brief_s + 0.2
        await bench.past_brief()
        assert (await bench.claim("read")).count == 3
        assert await bench.counts(job, "read") == (0, 3, 0, 0, 0)

    async def test_nothing_waiting_for_its_time_means_no_moment_to_wait_for(self, bench: Bench) -> None:
        assert (await bench.grant("read")).wait_s is None

    async def test_uploaded_parcels_are_in_no_count_until_their_job_is_submitted(self, bench: Bench) -> None:
        assert await bench.send("j", parcel("read", 3, number=0), parcel("read", 2, number=1))
        assert (await bench.grant("read")).claims == ()
        await bench.submit(PLAIN, {"read": 1}, job="j", uploaded=2)
        assert (await bench.tally("j", "read")).total == 6
        assert await bench.drain("j") is JobState.FINISHED

    async def test_an_uploaded_parcel_sent_again_is_one_parcel(self, bench: Bench) -> None:
        await bench.send("j", parcel("read", 3, number=0))
        assert await bench.send("j", parcel("read", 3, number=0), parcel("read", 2, number=1))
        await bench.submit(PLAIN, {}, job="j", uploaded=2)
        assert (await bench.tally("j", "read")).total == 5

    async def test_a_repeated_submit_does_not_flip_an_upload_twice(self, bench: Bench) -> None:
        await bench.send("j", parcel("read", 3))
        await bench.submit(PLAIN, {}, job="j", uploaded=1)
        await bench.submit(PLAIN, {}, job="j", uploaded=1)
        assert (await bench.tally("j", "read")).total == 3

    async def test_an_upload_after_its_submit_adds_nothing(self, bench: Bench) -> None:
        assert await bench.send("j", parcel("read", 2, number=1))
        await bench.submit(PLAIN, {}, job="j", uploaded=1)
        assert await bench.send("j", parcel("read", 2, number=1))
        await bench.submit(PLAIN, {}, job="j", uploaded=1)
        assert (await bench.tally("j", "read")).total == 2

    async def test_an_upload_of_which_something_is_gone_is_refused(self, bench: Bench) -> None:
        assert await bench.send("j", parcel("read", 2, number=1))
        with pytest.raises(CallerError):
            await bench.submit(PLAIN, {"read": 1}, job="j", uploaded=2)
        with pytest.raises(NotFound):
            await bench.store.job("j")

    async def test_an_upload_to_a_stage_that_takes_no_submitted_items_is_refused(self, bench: Bench) -> None:
        for job, stage in (("j", "nowhere"), ("k", "b")):
            assert await bench.send(job, parcel(stage, 2))
            with pytest.raises(CallerError):
                await bench.submit(flow(work("a", "b"), work("b")), {"a": 1}, job=job, uploaded=1)
            with pytest.raises(NotFound):
                await bench.store.job(job)

    async def test_an_external_root_opens_with_the_job(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), external("approval")), {"a": 1})
        await bench.accept(await bench.claim("a"))
        assert await bench.state(job) is JobState.OPEN
        assert await bench.close_external(job, "approval", "event-1")
        assert await bench.state(job) is JobState.FINISHED
