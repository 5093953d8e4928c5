"""Redriving, external stages and retention: what happens to a job after its first passage."""

from __future__ import annotations

import pytest

from headrace.core.errors import Conflict, NotFound
from headrace.core.jobs import KEEP_S, DeadFilter
from headrace.core.recount import tallies
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import Bench, BenchFlow, barrier, died, external, flow, parcel, work

CHAIN = flow(work("a", "b"), work("b"), barrier("end", "b"))
APPROVED = flow(work("a"), external("approval", "a"), barrier("end", "approval"))


class RedrivingContract:
    async def test_a_redrive_is_a_passage_of_its_own(self, bench: Bench) -> None:
        job, dead = await _failed(bench)
        assert await bench.redrive(job=job) == 1
        view = await bench.store.job(job)
        assert (view.generation, view.state) == (2, JobState.OPEN)
        claim = await bench.claim("b")
        assert (claim.generation, list(claim.seqs), claim.keys, claim.attempt) == (2, [dead], ("key-1",), 0)
        assert claim.piece(0) == b"b-1"
        await bench.accept(claim)
        report = await bench.claim("end")
        assert report.tallies is not None
        now, ever = report.tallies["b"]
        assert (now.total, now.done, now.dead) == (1, 1, 0)
        assert (ever.total, ever.done, ever.dead) == (3, 3, 0)
        await bench.accept(report)
        assert await bench.state(job) is JobState.FINISHED

    async def test_earlier_counts_never_change(self, bench: Bench) -> None:
        job, _ = await _failed(bench)
        before = {key: value for key, value in tallies(await bench.audit(job)).items() if key[0] == 1}
        await bench.redrive(job=job)
        await bench.drain(job)
        after = {key: value for key, value in tallies(await bench.audit(job)).items() if key[0] == 1}
        assert after == before

    async def test_each_generation_crosses_its_own_finish_line(self, bench: Bench) -> None:
        job, _ = await _failed(bench)
        await bench.redrive(job=job)
        await bench.accept(await bench.claim("b"), [], dead=(died(0),))
        await bench.drain(job)
        await bench.redrive(job=job)
        await bench.drain(job)
        finishes = sorted(await bench.store.finishes(job), key=lambda finish: finish.generation)
        assert [finish.generation for finish in finishes] == [1, 2, 3]
        assert [f.state for f in finishes] == [JobState.FAILED, JobState.FAILED, JobState.FINISHED]
        assert [f.event_id for f in finishes] == [f"{job}.{generation}.completed" for generation in (1, 2, 3)]
        assert sorted((await bench.audit(job)).events) == [1, 2, 3]

    async def test_a_dead_letter_is_redriven_once(self, bench: Bench) -> None:
        job, _ = await _failed(bench)
        await bench.redrive(job=job)
        await bench.drain(job)
        assert await bench.redrive(job=job) == 0
        assert (await bench.store.job(job)).generation == 2
        assert await bench.store.dead(DeadFilter(job=job)) == []

    async def test_an_open_job_that_is_named_cannot_be_redriven(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a")), [parcel("a", 1), parcel("a", 1)])
        await bench.accept(await bench.claim("a", room=1), [], dead=(died(0),))
        with pytest.raises(Conflict):
            await bench.redrive(job=job)
        assert (await bench.store.job(job)).generation == 1

    async def test_an_open_job_that_only_matches_is_left_alone(self, bench: Bench) -> None:
        other = flow(work("a"), name="other")
        job = await bench.submit(other, [parcel("a", 1), parcel("a", 1)])
        await bench.accept(await bench.claim("a", room=1, flow="other"), [], dead=(died(0, "same"),))
        ended, _ = await _failed(bench, reason="same")
        assert await bench.redrive(reason="same") == 1
        assert (await bench.store.job(job)).generation == 1
        assert (await bench.store.job(ended)).generation == 2

    async def test_a_filter_takes_up_only_what_it_names(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a")), {"a": 4})
        losses = (died(0, "timeout", rule="slow"), died(1, "timeout", rule="slow"), died(2, "broken"))
        await bench.accept(await bench.claim("a"), [3], dead=losses)
        assert await bench.redrive(job=job, rule="slow") == 2
        assert (await bench.newest(job, "a")).total == 2
        await bench.drain(job)
        assert await bench.redrive(job=job, reason="broken") == 1

    async def test_stages_upstream_of_a_redrive_close_empty(self, bench: Bench) -> None:
        job, _ = await _failed(bench)
        await bench.redrive(job=job)
        upstream = await bench.newest(job, "a")
        assert (upstream.total, upstream.closed) == (0, True)

    async def test_a_redriven_item_may_send_again(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"a": 1})
        await bench.accept(await bench.claim("a"), [], dead=(died(0),))
        await bench.drain(job)
        await bench.redrive(job=job)
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 2),))
        assert await bench.drain(job) is JobState.FINISHED
        assert (await bench.tally(job, "b")).done == 2

    async def test_a_barrier_for_the_first_generation_only_closes_empty_later(self, bench: Bench) -> None:
        job, _ = await _failed(bench, flow(work("a", "b"), work("b"), barrier("end", "b", every_generation=False)))
        await bench.redrive(job=job)
        await bench.accept(await bench.claim("b"))
        assert (await bench.newest(job, "end")).total == 0
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_redriven_item_can_be_lost_and_retried_like_any_other(self, bench: Bench) -> None:
        job, seq = await _failed(bench)
        await bench.redrive(job=job)
        lost = await bench.lose("b")
        assert list(lost.seqs) == [seq]
        suspect = await bench.claim("b")
        assert (suspect.alone, list(suspect.seqs), suspect.piece(0)) == (True, [seq], b"b-1")
        await bench.accept(suspect)
        await bench.drain(job)
        items = await bench.store.items(job, "b", -1, 10)
        assert [item.state for item in items] == ["done", "done", "done"]

    async def test_a_cancelled_generation_does_not_touch_the_one_before(self, bench: Bench) -> None:
        job, _ = await _failed(bench)
        await bench.redrive(job=job)
        await bench.cancel(job)
        finishes = sorted(await bench.store.finishes(job), key=lambda finish: finish.generation)
        assert [finish.state for finish in finishes] == [JobState.FAILED, JobState.CANCELLED]

    async def test_purged_letters_are_forgotten_and_still_counted(self, bench: Bench) -> None:
        job, _ = await _failed(bench)
        assert await bench.purge(job=job) == 1
        assert await bench.store.dead(DeadFilter(job=job)) == []
        assert await bench.redrive(job=job) == 0
        assert (await bench.tally(job, "b")).dead == 1

    async def test_an_external_stage_is_closed_by_the_first_event(self, bench: Bench) -> None:
        job = await bench.submit(APPROVED, {"a": 1})
        await bench.accept(await bench.claim("a"))
        assert (await bench.tally(job, "approval")).waiting == 1
        assert (await bench.grant("approval")).claims == ()
        assert await bench.close_external(job, "approval", "event-1")
        assert await bench.counts(job, "approval") == (0, 0, 1, 0, 0)
        for event_id in ("event-1", "event-2"):
            assert not await bench.close_external(job, "approval", event_id)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_an_event_that_comes_early_closes_its_stage_as_it_opens(self, bench: Bench) -> None:
        job = await bench.submit(APPROVED, {"a": 1})
        assert await bench.close_external(job, "approval", "event-1")
        assert not await bench.close_external(job, "approval", "event-2")
        await bench.accept(await bench.claim("a"))
        assert (await bench.tally(job, "approval")).done == 1
        assert await bench.drain(job) is JobState.FINISHED

    async def test_an_external_stage_dies_at_its_deadline(self, bench: Bench) -> None:
        hasty = flow(work("a"), external("approval", "a", deadline_s=bench.passage.brief_s))
        job = await bench.submit(hasty, {"a": 1})
        await bench.accept(await bench.claim("a"))
        await bench.past_brief()
        await bench.sweep()
        await bench.grant("a")
        assert await bench.state(job) is JobState.FAILED
        (letter,) = await bench.store.dead(DeadFilter(job=job))
        assert "deadline" in (letter.rule, letter.reason)
        assert not await bench.close_external(job, "approval", "event-1")

    async def test_an_external_stage_of_a_cancelled_job_waits_for_nobody(self, bench: Bench) -> None:
        job = await bench.submit(APPROVED, {"a": 1})
        await bench.accept(await bench.claim("a"))
        await bench.cancel(job)
        assert await bench.state(job) is JobState.CANCELLED
        assert not await bench.close_external(job, "approval", "event-1")

    async def test_an_event_for_an_unknown_job_is_an_error(self, bench: Bench) -> None:
        with pytest.raises(NotFound):
            await bench.close_external("nobody", "approval", "event-1")

    async def test_chunks_are_dropped_after_their_time_and_the_tallies_stay(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a")), {"a": 5}, keep_s=bench.passage.brief_s)
        open_job = await bench.submit(flow(work("b"), name="other"), {"b": 5}, keep_s=bench.passage.brief_s)
        await bench.drain(job)
        await bench.store.retain()
        assert (await bench.audit(job)).chunks
        await bench.past_brief()
        assert await bench.store.retain() > 0
        await bench.look()
        audit = await bench.audit(job)
        assert (audit.pruned, audit.chunks) == (1, ())
        assert (await bench.tally(job, "a")).done == 5
        assert len((await bench.audit(open_job)).chunks) == 1
        assert await bench.store.retain() == 0

    async def test_a_repeated_settlement_gets_its_answer_though_the_chunks_are_gone(self, bench: Bench) -> None:
        await bench.submit(flow(work("a")), {"a": 1}, keep_s=0.0)
        claim = await bench.claim("a")
        await bench.accept(claim)
        await bench.past_brief()
        await bench.store.retain()
        assert (await bench.settle(claim, [0], step=1)).accepted
        assert not (await bench.settle(claim, [0], step=2)).accepted

    async def test_a_job_can_be_redriven_after_its_chunks_are_gone(self, bench: Bench) -> None:
        job, seq = await _failed(bench, keep_s=bench.passage.brief_s)
        await bench.past_brief()
        await bench.store.retain()
        assert await bench.redrive(job=job) == 1
        assert list((await bench.claim("b")).seqs) == [seq]


async def _failed(
    bench: Bench, declared: BenchFlow = CHAIN, reason: str = "broken", keep_s: float = KEEP_S
) -> tuple[str, int]:
    """A job whose stage b lost the second of its three items, and the seq of that item."""
    job = await bench.submit(declared, {"a": 1}, keep_s=keep_s)
    keys = ["key-0", "key-1", "key-2"]
    await bench.accept(await bench.claim("a"), sends=(parcel("b", 3, keys=keys),))
    claim = await bench.claim("b")
    await bench.accept(claim, [0, 2], dead=(died(1, reason),))
    assert await bench.drain(job) is JobState.FAILED
    return job, claim.seqs[1]
