"""Reviving: a redriven item is the same item, with all that is known of it and in its proper turn."""

from __future__ import annotations

from headrace.core.claims import CRASHES_MAX, Claim
from headrace.core.jobs import DeadFilter
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import Bench, BenchFlow, barrier, died, external, flow, parcel, work

PLAIN = flow(work("read"))
CHAIN = flow(work("a", "b"), work("b"), barrier("end", "b"))


class RevivingContract:
    async def test_an_item_that_lost_its_workers_is_redriven_alone_and_revokes_them(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        lost = [(await bench.lose("read")).fence for _ in range(CRASHES_MAX + 1)]
        assert await bench.state(job) is JobState.FAILED
        await bench.redrive(job=job)
        claim = await bench.claim("read")
        assert (claim.alone, claim.revokes, claim.attempt) == (True, tuple(lost), 0)
        await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_redriven_culprit_has_all_its_crashes_again(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        for _ in range(CRASHES_MAX + 1):
            await bench.lose("read")
        await bench.redrive(job=job)
        again = [(await bench.lose("read")).fence for _ in range(CRASHES_MAX)]
        assert await bench.state(job) is JobState.FAILED
        await bench.redrive(job=job)
        claim = await bench.claim("read")
        assert set(again) < set(claim.revokes)
        assert len(claim.revokes) == 2 * CRASHES_MAX + 1

    async def test_redriven_items_with_and_without_a_past_are_kept_apart(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, [parcel("read", 1), parcel("read", 3)])
        await bench.lose("read", room=1)
        suspect, innocent = sorted((await bench.grant("read")).claims, key=lambda claim: not claim.alone)
        await bench.accept(suspect, [])
        await bench.accept(innocent, [0], dead=(died(1), died(2)))
        for _ in range(CRASHES_MAX):
            culprit = await bench.lose("read")
        await bench.redrive(job=job)
        claims = await bench.claim_all("read")
        found = {claim.alone: claim for claim in claims}
        assert (list(found[True].seqs), len(found[True].revokes)) == (list(culprit.seqs), CRASHES_MAX + 1)
        assert (list(found[False].seqs), found[False].revokes) == (list(innocent.seqs[1:]), ())

    async def test_a_streaming_item_goes_on_from_its_cursor_when_it_is_redriven(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"a": 1}, keep_s=bench.passage.brief_s)
        claim = await bench.claim("a")
        await bench.accept(claim, [], sends=(parcel("b", 2),), cursor=(0, b"page-2"), end=False)
        await bench.accept(claim, [], dead=(died(0),))
        await bench.drain(job)
        await bench.past_brief()
        await bench.store.retain()
        await bench.redrive(job=job)
        assert dict((await bench.claim("a")).cursors) == {0: b"page-2"}

    async def test_a_barrier_redriven_with_its_upstream_runs_once_and_afterwards(self, bench: Bench) -> None:
        job, report = await _both_dead(bench, CHAIN)
        assert await bench.redrive(job=job) == 2
        assert (await bench.grant("end")).claims == ()
        await bench.accept(await bench.claim("b"))
        again = await bench.claim("end")
        assert list(again.seqs) == list(report.seqs)
        assert again.tallies is not None
        assert again.tallies["b"][0].done == 1
        await bench.accept(again)
        assert (await bench.tally(job, "end")).total == 1
        assert await bench.state(job) is JobState.FINISHED
        assert await bench.store.dead(DeadFilter(job=job)) == []

    async def test_a_barrier_redriven_by_itself_runs_at_once(self, bench: Bench) -> None:
        job, report = await _both_dead(bench, CHAIN)
        assert await bench.redrive(job=job, stage="end") == 1
        again = await bench.claim("end")
        assert list(again.seqs) == list(report.seqs)
        await bench.accept(again)
        assert [finish.stages["end"].done for finish in await bench.store.finishes(job)] == [0, 1]

    async def test_a_barrier_far_downstream_waits_for_what_moves(self, bench: Bench) -> None:
        declared = flow(work("a", "b"), work("b"), barrier("middle", "b"), barrier("last", "middle"))
        job = await bench.submit(declared, {"a": 1})
        await bench.accept(await bench.claim("a"), [], dead=(died(0),))
        await bench.accept(await bench.claim("middle"))
        report = await bench.claim("last")
        await bench.accept(report, [], dead=(died(0),))
        assert await bench.redrive(job=job) == 2
        assert (await bench.grant("last")).claims == ()
        await bench.accept(await bench.claim("a"))
        await bench.accept(await bench.claim("middle"))
        assert list((await bench.claim("last")).seqs) == list(report.seqs)

    async def test_a_dead_barrier_for_the_first_generation_only_still_gets_its_end(self, bench: Bench) -> None:
        once = flow(work("a", "b"), work("b"), barrier("end", "b", every_generation=False))
        job, report = await _both_dead(bench, once)
        await bench.redrive(job=job)
        await bench.accept(await bench.claim("b"))
        again = await bench.claim("end")
        assert list(again.seqs) == list(report.seqs)
        await bench.accept(again)
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_barrier_that_died_twice_runs_once_when_both_letters_are_redriven(self, bench: Bench) -> None:
        job, _ = await _both_dead(bench, CHAIN)
        await bench.redrive(job=job, stage="b")
        await bench.accept(await bench.claim("b"))
        newest = await bench.claim("end")
        await bench.accept(newest, [], dead=(died(0),))
        assert await bench.redrive(job=job) == 2
        assert list((await bench.claim("end")).seqs) == list(newest.seqs)
        assert (await bench.grant("end")).claims == ()

    async def test_a_barrier_whose_generation_is_cancelled_first_stays_dead(self, bench: Bench) -> None:
        job, report = await _both_dead(bench, CHAIN)
        await bench.redrive(job=job)
        await bench.cancel(job)
        assert (await bench.newest(job, "end")).total == 0
        assert [letter.seq for letter in await bench.store.dead(DeadFilter(job=job))] == list(report.seqs)
        await bench.redrive(job=job)
        assert list((await bench.claim("end")).seqs) == list(report.seqs)

    async def test_a_barrier_that_lost_its_workers_revokes_them_when_it_opens(self, bench: Bench) -> None:
        job = await bench.submit(CHAIN, {"a": 1})
        await bench.accept(await bench.claim("a"), [], dead=(died(0),))
        lost = [(await bench.lose("end")).fence for _ in range(CRASHES_MAX + 1)]
        await bench.redrive(job=job)
        await bench.accept(await bench.claim("a"))
        claim = await bench.claim("end")
        assert (claim.alone, claim.revokes) == (True, tuple(lost))

    async def test_a_redriven_external_stage_waits_for_its_event(self, bench: Bench) -> None:
        job, seq = await _overdue(bench)
        assert await bench.redrive(job=job) == 1
        assert (await bench.tally(job, "approval")).waiting == 1
        assert await bench.close_external(job, "approval", "event-1")
        assert await bench.state(job) is JobState.FINISHED
        assert [item.seq for item in await bench.store.items(job, "approval", -1, 10)] == [seq]

    async def test_a_redriven_external_stage_has_its_deadline_again(self, bench: Bench) -> None:
        job, seq = await _overdue(bench)
        await bench.redrive(job=job)
        await bench.past_brief()
        await bench.sweep()
        assert await bench.state(job) is JobState.FAILED
        (letter,) = await bench.store.dead(DeadFilter(job=job))
        assert (letter.generation, letter.seq) == (2, seq)

    async def test_an_event_that_came_too_late_closes_the_stage_when_it_is_redriven(self, bench: Bench) -> None:
        job, _ = await _overdue(bench)
        assert not await bench.close_external(job, "approval", "event-1")
        await bench.redrive(job=job)
        assert await bench.state(job) is JobState.FINISHED

    async def test_an_external_stage_redriven_with_its_upstream_opens_once(self, bench: Bench) -> None:
        hasty = flow(work("a"), external("approval", "a", deadline_s=bench.passage.brief_s))
        job = await bench.submit(hasty, {"a": 1})
        await bench.accept(await bench.claim("a"), [], dead=(died(0),))
        await bench.past_brief()
        await bench.sweep()
        (letter,) = await bench.store.dead(DeadFilter(job=job, stage="approval"))
        assert await bench.redrive(job=job) == 2
        assert (await bench.newest(job, "approval")).total == 0
        await bench.accept(await bench.claim("a"))
        assert await bench.counts(job, "approval") == (1, 0, 0, 0, 0)
        assert await bench.close_external(job, "approval", "event-1")
        assert [item.seq for item in await bench.store.items(job, "approval", -1, 10)] == [letter.seq]

    async def test_a_generation_is_proved_after_the_one_before_was_dropped(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2}, keep_s=bench.passage.brief_s)
        await bench.accept(await bench.claim("read"), [0], dead=(died(1),))
        await bench.past_brief()
        await bench.store.retain()
        await bench.redrive(job=job)
        await bench.drain(job)
        audit = await bench.audit(job)
        assert (audit.pruned, [chunk.generation for chunk in audit.chunks]) == (1, [2])
        await bench.past_brief()
        await bench.store.retain()
        audit = await bench.audit(job)
        assert (audit.pruned, audit.chunks) == (2, ())


async def _both_dead(bench: Bench, declared: BenchFlow) -> tuple[str, Claim]:
    """A job in which an item of b died, and after it the barrier; and the claim in which the barrier died."""
    job = await bench.submit(declared, {"a": 1})
    await bench.accept(await bench.claim("a"), sends=(parcel("b", 1),))
    await bench.accept(await bench.claim("b"), [], dead=(died(0),))
    report = await bench.claim("end")
    await bench.accept(report, [], dead=(died(0),))
    assert await bench.state(job) is JobState.FAILED
    return job, report


async def _overdue(bench: Bench) -> tuple[str, int]:
    """A job whose external stage died of its deadline, and the seq of its item."""
    hasty = flow(work("a"), external("approval", "a", deadline_s=bench.passage.brief_s))
    job = await bench.submit(hasty, {"a": 1})
    await bench.accept(await bench.claim("a"))
    await bench.past_brief()
    await bench.sweep()
    assert await bench.state(job) is JobState.FAILED
    (letter,) = await bench.store.dead(DeadFilter(job=job))
    return job, letter.seq
