"""Cancelling and pausing: a job, one item of it, and what is in flight meanwhile."""

from __future__ import annotations

import pytest

from headrace.core.errors import NotFound
from headrace.core.tally import JobState, Tolerance
from headrace.testing.contracts.bench import ALL, Bench, again, barrier, died, flow, parcel, work

PLAIN = flow(work("read"))
PAIR = flow(work("a", "b"), work("b"))


class CancellingContract:
    async def test_waiting_items_are_cancelled_at_once(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 5})
        assert await bench.cancel(job)
        assert await bench.counts(job, "a") == (0, 0, 0, 0, 5)
        assert await bench.state(job) is JobState.CANCELLED
        (finish,) = await bench.store.finishes(job)
        assert finish.state is JobState.CANCELLED
        assert (await bench.grant("a")).claims == ()

    async def test_a_second_cancel_says_that_the_job_had_ended(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 5})
        assert await bench.cancel(job)
        assert not await bench.cancel(job)
        finished = await bench.submit(PAIR, {})
        assert not await bench.cancel(finished)
        assert await bench.state(finished) is JobState.FINISHED

    async def test_a_second_cancel_of_a_job_that_is_still_held_changes_nothing(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", room=1)
        await bench.cancel(job)
        await bench.cancel(job)
        assert await bench.counts(job, "read") == (0, 1, 0, 0, 2)
        await bench.accept(claim)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_cancelling_an_unknown_job_is_an_error(self, bench: Bench) -> None:
        with pytest.raises(NotFound):
            await bench.cancel("nobody")

    async def test_held_items_may_still_settle_done(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 5})
        claim = await bench.claim("read", room=2)
        await bench.cancel(job)
        assert await bench.counts(job, "read") == (0, 2, 0, 0, 3)
        assert await bench.state(job) is JobState.OPEN
        await bench.accept(claim)
        assert await bench.counts(job, "read") == (0, 0, 2, 0, 3)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_held_items_of_a_cancelled_job_may_still_die(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read")
        await bench.cancel(job)
        await bench.accept(claim, [0], dead=(died(1),))
        assert await bench.counts(job, "read") == (0, 0, 1, 1, 0)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_held_items_that_would_wait_again_are_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 4})
        claim = await bench.claim("read")
        await bench.cancel(job)
        await bench.accept(claim, [0], again=(again(1, 5.0), again(2, 0.0, 0)))
        assert await bench.counts(job, "read") == (0, 0, 1, 0, 3)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_held_items_are_cancelled_when_their_hold_runs_out(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.cancel(job)
        renewed = bench.renew("worker-1", claim)
        assert (renewed.kept, renewed.ending) == (frozenset(), frozenset({claim.fence}))
        await bench.past_brief()
        await bench.sweep()
        assert await bench.counts(job, "read") == (0, 0, 0, 0, 3)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_what_a_cancelled_job_sends_is_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 4, number=1))
        await bench.cancel(job)
        await bench.accept(claim, sends=(parcel("b", 3),), flips=(1,))
        assert await bench.counts(job, "b") == (0, 0, 0, 0, 7)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_the_barrier_of_a_cancelled_job_closes_empty(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), barrier("end", "a")), {"a": 2})
        await bench.cancel(job)
        assert await bench.state(job) is JobState.CANCELLED
        assert (await bench.tally(job, "end")).total == 0

    async def test_a_barrier_that_runs_always_runs_in_a_cancelled_job(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), barrier("end", "a", always=True)), {"a": 2})
        await bench.cancel(job)
        assert await bench.state(job) is JobState.OPEN
        claim = await bench.claim("end")
        assert claim.tallies is not None
        assert claim.tallies["a"][0].cancelled == 2
        await bench.accept(claim)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_a_second_cancel_does_not_touch_a_barrier_that_runs_always(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), barrier("end", "a", always=True)), {"a": 2})
        assert await bench.cancel(job)
        assert await bench.cancel(job)
        assert await bench.counts(job, "end") == (1, 0, 0, 0, 0)
        await bench.accept(await bench.claim("end"))
        assert await bench.state(job) is JobState.CANCELLED

    async def test_a_stop_leaves_a_barrier_of_another_branch_its_item(self, bench: Bench) -> None:
        declared = flow(work("a"), barrier("end", "a"), work("b", stop_early=True))
        job = await bench.submit(declared, [parcel("a", 1), parcel("b", 1), parcel("b", 4)])
        await bench.accept(await bench.claim("a"))
        await bench.accept(await bench.claim("b", room=1), [], dead=(died(0),))
        assert await bench.counts(job, "b") == (0, 0, 0, 1, 4)
        await bench.accept(await bench.claim("end"))
        assert await bench.state(job) is JobState.FAILED

    async def test_a_share_of_a_stage_that_feeds_itself_is_not_judged_early(self, bench: Bench) -> None:
        crawl = work("crawl", "crawl", stop_early=True, tolerate=Tolerance(percent=20.0))
        job = await bench.submit(flow(crawl), {"crawl": 1})
        await bench.accept(await bench.claim("crawl"), sends=(parcel("crawl", 1, depth=1), parcel("crawl", 1, depth=1)))
        await bench.accept(await bench.claim("crawl", room=1), [], dead=(died(0),))
        await bench.accept(await bench.claim("crawl"), sends=(parcel("crawl", 9, depth=2),))
        assert await bench.drain(job) is JobState.FINISHED

    async def test_retries_do_not_dilute_the_share_at_which_a_job_stops(self, bench: Bench) -> None:
        hasty = work("a", stop_early=True, tolerate=Tolerance(percent=20.0))
        job = await bench.submit(flow(hasty), [parcel("a", 4), parcel("a", 4)])
        await bench.accept(await bench.claim("a", room=4), [], again=tuple(again(i, 60.0) for i in range(4)))
        await bench.accept(await bench.claim("a", room=4), [0, 1], dead=(died(2), died(3)))
        assert await bench.counts(job, "a") == (0, 0, 2, 2, 4)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_job_that_stopped_early_can_still_be_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", stop_early=True), barrier("end", "a")), {"a": 1})
        await bench.accept(await bench.claim("a"), [], dead=(died(0),))
        assert await bench.counts(job, "end") == (1, 0, 0, 0, 0)
        assert await bench.cancel(job)
        assert await bench.counts(job, "end") == (0, 0, 0, 0, 1)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_neighbours_of_a_cancelled_suspect_still_revoke_the_claim_they_lost(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        lost = await bench.lose("read")
        assert await bench.cancel_item(job, "read", lost.seqs[1])
        claim = await bench.claim("read")
        assert (claim.alone, claim.revokes) == (True, (lost.fence,))
        assert list(claim.seqs) == [lost.seqs[0], lost.seqs[2]]

    async def test_an_item_that_its_claim_has_settled_has_ended(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read")
        await bench.accept(claim, [0], end=False)
        assert not await bench.cancel_item(job, "read", claim.seqs[0])
        assert await bench.cancel_item(job, "read", claim.seqs[1])

    async def test_a_retry_that_waits_for_its_time_is_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1}, delay_s=1_000)
        await bench.cancel(job)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_one_waiting_item_is_cancelled_and_its_neighbours_go_on(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 5})
        seqs = [item.seq for item in await bench.store.items(job, "read", -1, 10)]
        assert await bench.cancel_item(job, "read", seqs[2])
        assert await bench.counts(job, "read") == (4, 0, 0, 0, 1)
        assert not await bench.cancel_item(job, "read", seqs[2])
        found = [seq for claim in await bench.claim_all("read") for seq in claim.seqs]
        assert sorted(found) == [seqs[0], seqs[1], seqs[3], seqs[4]]

    async def test_the_only_waiting_item_cancelled_ends_its_job(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        (item,) = await bench.store.items(job, "a", -1, 10)
        assert await bench.cancel_item(job, "a", item.seq)
        assert await bench.state(job) is not JobState.OPEN

    async def test_a_waiting_item_beside_held_ones_is_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 6})
        held = await bench.claim("read", room=3)
        seqs = [item.seq for item in await bench.store.items(job, "read", -1, 10)]
        assert await bench.cancel_item(job, "read", seqs[4])
        assert await bench.counts(job, "read") == (2, 3, 0, 0, 1)
        await bench.accept(held, [])
        await bench.drain(job)
        assert (await bench.tally(job, "read")).done == 5

    async def test_a_held_item_is_cancelled_where_it_would_return(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        assert await bench.cancel_item(job, "read", claim.seqs[2])
        assert await bench.counts(job, "read") == (0, 3, 0, 0, 0)
        await bench.accept(claim, [0])
        assert await bench.counts(job, "read") == (1, 0, 1, 0, 1)

    async def test_a_held_item_is_cancelled_where_it_would_retry(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read")
        assert await bench.cancel_item(job, "read", claim.seqs[0])
        await bench.accept(claim, [1], again=(again(0),))
        assert await bench.counts(job, "read") == (0, 0, 1, 0, 1)

    async def test_a_held_item_is_cancelled_when_its_worker_is_lost(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        assert await bench.cancel_item(job, "read", claim.seqs[0])
        await bench.past_brief()
        await bench.sweep()
        assert await bench.counts(job, "read") == (1, 0, 0, 0, 1)

    async def test_a_held_item_may_still_settle_done_though_it_was_to_be_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        claim = await bench.claim("read")
        assert await bench.cancel_item(job, "read", claim.seqs[0])
        await bench.accept(claim)
        assert await bench.counts(job, "read") == (0, 0, 1, 0, 0)

    async def test_an_unknown_item_is_an_error(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        with pytest.raises(NotFound):
            await bench.cancel_item(job, "read", 123_456_789)

    async def test_nothing_of_a_paused_job_is_granted_until_it_is_resumed(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        assert await bench.pause(job)
        assert (await bench.store.job(job)).paused
        assert (await bench.grant("read")).claims == ()
        assert await bench.counts(job, "read") == (3, 0, 0, 0, 0)
        assert await bench.resume(job)
        assert not await bench.resume(job)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_what_is_held_when_its_job_is_paused_goes_on(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 4})
        claim = await bench.claim("read", room=2)
        await bench.pause(job)
        assert bench.renew("worker-1", claim).kept == {claim.fence}
        await bench.accept(claim, [0], again=(again(1),))
        assert await bench.counts(job, "read") == (3, 0, 1, 0, 0)
        assert (await bench.grant("read")).claims == ()
        await bench.resume(job)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_items_sent_while_their_job_is_paused_wait(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b"), barrier("end", "b")), {"a": 1})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 2, number=1))
        await bench.pause(job)
        await bench.accept(claim, sends=(parcel("b", 3),), flips=(1,))
        assert (await bench.grant("b")).claims == ()
        assert (await bench.tally(job, "b")).waiting == 5
        await bench.resume(job)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_the_barrier_of_a_paused_job_waits(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), barrier("end", "a")), {"a": 1})
        claim = await bench.claim("a")
        await bench.pause(job)
        await bench.accept(claim)
        assert (await bench.tally(job, "end")).waiting == 1
        assert (await bench.grant("end")).claims == ()
        await bench.resume(job)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_suspects_of_a_paused_job_wait(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.pause(job)
        await bench.past_brief()
        assert (await bench.sweep()).lost == 1
        assert (await bench.grant("read")).claims == ()
        await bench.resume(job)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_paused_job_that_comes_due_stays_paused(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1}, delay_s=bench.passage.brief_s)
        await bench.pause(job)
        await bench.past_brief()
        assert (await bench.grant("read")).claims == ()
        await bench.resume(job)
        assert (await bench.claim("read")).count == 1

    async def test_a_resumed_job_keeps_to_its_time(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1}, delay_s=bench.passage.hold_s)
        await bench.pause(job)
        await bench.resume(job)
        assert (await bench.grant("read")).claims == ()

    async def test_a_paused_job_can_be_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        await bench.pause(job)
        assert await bench.cancel(job)
        assert await bench.state(job) is JobState.CANCELLED

    async def test_a_job_that_ended_cannot_be_paused(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {})
        assert not await bench.pause(job)
        with pytest.raises(NotFound):
            await bench.pause("nobody")

    async def test_a_late_holder_of_a_cancelled_job_is_refused(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.cancel(job)
        await bench.past_brief()
        await bench.sweep()
        assert not (await bench.settle(claim, ALL)).accepted
        assert await bench.counts(job, "read") == (0, 0, 0, 0, 1)
