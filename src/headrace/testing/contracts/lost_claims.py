"""Losing a worker costs time, never truth: what it held comes back, and only a proven culprit is charged."""

from __future__ import annotations

from headrace.core.claims import CRASHES_MAX, Claim
from headrace.core.jobs import DeadFilter
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import ALL, Bench, flow, parcel, work

PLAIN = flow(work("read"))


class LosingContract:
    async def test_the_items_of_a_lost_claim_come_back_as_suspects(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        lost = await bench.lose("read")
        assert await bench.counts(job, "read") == (3, 0, 0, 0, 0)
        found = await bench.claim_all("read", worker="worker-2")
        assert [seq for claim in found for seq in claim.seqs] == list(lost.seqs)
        assert {(claim.alone, claim.attempt) for claim in found} == {(True, 0)}
        assert min(claim.fence for claim in found) > lost.fence
        assert found[0].piece(0) == b"read-0"

    async def test_what_was_settled_before_the_loss_stays_settled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 4})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.accept(claim, [0, 2], end=False)
        await bench.past_brief()
        await bench.sweep()
        assert await bench.counts(job, "read") == (2, 0, 2, 0, 0)
        found = [seq for c in await bench.claim_all("read") for seq in c.seqs]
        assert found == [claim.seqs[1], claim.seqs[3]]

    async def test_a_claim_is_lost_once(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 3})
        await bench.lose("read")
        swept = await bench.sweep()
        assert (swept.lost, swept.wait_s) == (0, None)

    async def test_a_live_claim_is_not_swept_and_its_end_is_known(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        swept = await bench.sweep()
        assert swept.lost == 0
        assert swept.wait_s is not None
        assert 0 < swept.wait_s <= bench.passage.hold_s
        await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_renewed_claim_outlives_its_first_hold(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        renewed = bench.renew("worker-1", claim, hold_s=10 * bench.passage.brief_s)
        assert renewed.kept == {claim.fence}
        await bench.past_brief()
        assert (await bench.sweep()).lost == 0
        await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED

    async def test_an_expired_claim_is_not_revived(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.past_brief()
        renewed = bench.renew("worker-1", claim)
        assert (renewed.kept, renewed.ending) == (frozenset(), frozenset())
        assert not (await bench.settle(claim, ALL)).accepted
        assert (await bench.sweep()).lost == 1

    async def test_a_swept_claim_is_not_revived(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 3})
        lost = await bench.lose("read")
        assert bench.renew("worker-1", lost).kept == frozenset()

    async def test_an_ended_claim_is_not_renewed(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 3})
        ended, held = await bench.claim("read", room=1), await bench.claim("read", room=1)
        await bench.accept(ended)
        assert bench.renew("worker-1", ended, held).kept == {held.fence}

    async def test_a_suspect_that_runs_well_is_done_like_any_other(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        await bench.lose("read")
        assert await bench.drain(job) is JobState.FINISHED
        assert (await bench.tally(job, "read")).done == 3

    async def test_a_suspect_given_back_is_still_suspect_and_uncharged(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        await bench.lose("read")
        for _ in range(CRASHES_MAX + 1):
            claim = await bench.claim("read")
            assert claim.alone
            await bench.accept(claim, [])
        assert await bench.drain(job) is JobState.FINISHED

    async def test_only_the_item_that_was_alone_each_time_dies(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 5})
        await bench.lose("read")
        culprit = None
        for _ in range(20):
            claims = (await bench.grant("read", hold_s=bench.passage.brief_s)).claims
            if not claims:
                break
            for claim in claims[1:]:
                await bench.accept(claim, [])
            culprit = await _run_alone(bench, claims[0], poison=b"read-2") or culprit
        assert await bench.counts(job, "read") == (0, 0, 4, 1, 0)
        (letter,) = await bench.store.dead(DeadFilter(job=job))
        assert (letter.payload, letter.reason, letter.seq) == (b"read-2", "worker_lost", culprit)
        assert await bench.store.dead(DeadFilter(rule="worker_lost")) == [letter]

    async def test_a_crash_of_a_whole_slice_charges_nobody(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        for _ in range(CRASHES_MAX):
            claims = (await bench.grant("read", hold_s=bench.passage.brief_s)).claims
            for claim in claims:
                await bench.accept(claim, [], end=False)
            await bench.past_brief()
            assert (await bench.sweep()).lost == len(claims)
        assert (await bench.tally(job, "read")).dead == 0
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_suspect_that_nobody_began_with_is_never_charged(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        await bench.lose("read")
        for _ in range(CRASHES_MAX + 1):
            await bench.grant("read", hold_s=bench.passage.brief_s)
            await bench.past_brief()
            assert (await bench.sweep()).lost
        assert (await bench.tally(job, "read")).dead == 0
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_culprit_dies_at_its_last_allowed_crash_and_not_before(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        await bench.lose("read")
        for crash in range(1, CRASHES_MAX + 1):
            assert (await bench.tally(job, "read")).dead == 0
            lost = await bench.lose("read")
            assert lost.alone
            assert (await bench.tally(job, "read")).dead == (crash == CRASHES_MAX)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_death_by_lost_workers_closes_what_it_can_close(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 1})
        for _ in range(CRASHES_MAX + 1):
            await bench.lose("a")
        assert await bench.state(job) is JobState.FAILED
        assert len(await bench.store.finishes(job)) == 1

    async def test_parcels_staged_under_a_lost_claim_are_dropped(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 1})
        claim = await bench.claim("a", hold_s=bench.passage.brief_s)
        assert await bench.send(claim.fence, parcel("b", 5))
        await bench.past_brief()
        await bench.sweep()
        assert not any(chunk.staged for chunk in (await bench.audit(job)).chunks)
        await bench.accept(await bench.claim("a"))
        assert await bench.state(job) is JobState.FINISHED
        assert (await bench.tally(job, "b")).total == 0

    async def test_a_lost_holder_cannot_send_ahead(self, bench: Bench) -> None:
        await bench.submit(flow(work("a", "b"), work("b")), {"a": 1})
        lost = await bench.lose("a")
        assert not await bench.send(lost.fence, parcel("b", 5))
        expired = await bench.claim("a", hold_s=bench.passage.brief_s)
        await bench.past_brief()
        assert not await bench.send(expired.fence, parcel("b", 5))


async def _run_alone(bench: Bench, claim: Claim, poison: bytes) -> int | None:
    """Run suspects one at a time, each settled before the next; the poisoned one takes its worker with it."""
    await bench.accept(claim, [], end=False)
    for index in range(claim.count):
        if claim.piece(index) == poison:
            await bench.past_brief()
            assert (await bench.sweep()).lost == 1
            return claim.seqs[index]
        await bench.accept(claim, [index], end=index == claim.count - 1)
    return None
