"""Settling: outcomes are applied once and whole, in step, by the holder and nobody else."""

from __future__ import annotations

from headrace.core.claims import TRACEBACK_BYTES_MAX, Settlement
from headrace.core.jobs import DeadFilter
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import ALL, Bench, again, died, done_bits, flow, parcel, work

PLAIN = flow(work("read"))


class SettlingContract:
    async def test_done_items_end_their_job(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        await bench.accept(await bench.claim("read"))
        assert await bench.counts(job, "read") == (0, 0, 3, 0, 0)
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_settlement_sent_again_changes_nothing_and_gets_the_first_answer(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        settlement = Settlement(claim.fence, 1, done=0b011, dead=(died(2),))
        for _ in range(3):
            assert (await bench.repeat(settlement)).accepted
        assert await bench.counts(job, "read") == (0, 0, 2, 1, 0)
        assert len(await bench.store.dead(DeadFilter())) == 1

    async def test_the_same_settlement_twice_in_one_call_counts_once(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        settlement = Settlement(claim.fence, 1, done=0b001, end=False)
        answers = await bench.store.settle([settlement, settlement])
        await bench.look()
        assert [answer.accepted for answer in answers] == [True, True]
        assert await bench.counts(job, "read") == (0, 2, 1, 0, 0)

    async def test_a_step_in_the_middle_sent_again_counts_once(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 4})
        claim = await bench.claim("read")
        step = Settlement(claim.fence, 1, done=0b0011, end=False)
        assert (await bench.repeat(step)).accepted
        assert (await bench.repeat(step)).accepted
        assert await bench.counts(job, "read") == (0, 2, 2, 0, 0)
        await bench.accept(claim, [2, 3], step=2)
        assert await bench.counts(job, "read") == (0, 0, 4, 0, 0)

    async def test_a_step_out_of_turn_is_refused(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        answer = await bench.settle(claim, [0], step=2, end=False)
        assert (answer.accepted, answer.reason) == (False, "out_of_step")
        await bench.accept(claim, [0], step=1, end=False)
        await bench.accept(claim, [1], step=2, end=False)
        answer = await bench.settle(claim, [0], step=1, end=False)
        assert (answer.accepted, answer.reason) == (False, "out_of_step")
        assert await bench.counts(job, "read") == (0, 1, 2, 0, 0)

    async def test_a_late_holder_is_refused(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.past_brief()
        answer = await bench.settle(claim, ALL)
        assert (answer.accepted, answer.reason) == (False, "lost")
        assert (await bench.tally(job, "read")).done == 0

    async def test_a_late_holder_is_refused_after_the_takeover_too(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        late = await bench.lose("read")
        holder = await bench.claim("read", worker="worker-2")
        answer = await bench.settle(late, ALL)
        assert (answer.accepted, answer.reason) == (False, "lost")
        await bench.accept(holder)
        answer = await bench.settle(late, [], dead=(died(0),))
        assert not answer.accepted
        assert await bench.counts(job, "read") == (0, 0, 1, 0, 0)

    async def test_an_ended_claim_accepts_no_further_step(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read", room=1)
        await bench.accept(claim)
        assert not (await bench.settle(claim, [0], step=2)).accepted
        assert await bench.counts(job, "read") == (1, 0, 1, 0, 0)

    async def test_a_fence_nobody_was_given_is_refused(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 1})
        claim = await bench.claim("read")
        for fence in (claim.fence + 1, claim.fence - 1, 0):
            answer = await bench.repeat(Settlement(fence, 1, done=1))
            assert (answer.accepted, answer.reason) == (False, "lost")

    async def test_many_claims_settle_in_one_call_and_a_lost_one_spoils_none(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 6})
        lost = await bench.claim("read", room=2, hold_s=bench.passage.brief_s)
        await bench.past_brief()
        kept = [await bench.claim("read", room=2), await bench.claim("read", room=2)]
        claims = [kept[0], lost, kept[1]]
        answers = await bench.store.settle([Settlement(c.fence, 1, done_bits(c, ALL)) for c in claims])
        await bench.look()
        assert [answer.fence for answer in answers] == [claim.fence for claim in claims]
        assert [answer.accepted for answer in answers] == [True, False, True]
        assert (await bench.tally(job, "read")).done == 4

    async def test_a_dead_item_leaves_a_letter(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, [parcel("read", 2, keys=["a", "b"])], tenant="acme")
        claim = await bench.claim("read")
        loss = died(1, "no such page", rule="page_exists", error="ValueError: 404", attempts=2)
        await bench.accept(claim, [0], dead=(loss,))
        (letter,) = await bench.store.dead(DeadFilter(job=job))
        assert (letter.stage, letter.seq, letter.key, letter.payload) == ("read", claim.seqs[1], "b", b"read-1")
        assert (letter.reason, letter.rule, letter.error) == ("no such page", "page_exists", "ValueError: 404")
        assert (letter.attempts, letter.generation, letter.redriven_in) == (2, 1, None)
        assert await bench.state(job) is JobState.FAILED

    async def test_a_letter_keeps_the_traceback_within_its_limit(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        short = "Traceback (most recent call last):\n  … café\nValueError: 404\n"
        long = "first " + "é\x00\udc80" * TRACEBACK_BYTES_MAX + " last"
        losses = (died(0, traceback=short), died(1, traceback=long), died(2))
        claim = await bench.claim("read")
        await bench.accept(claim, [], dead=losses)
        letters = {letter.seq: letter.traceback for letter in await bench.store.dead(DeadFilter(job=job))}
        kept = [letters[seq] for seq in claim.seqs]
        assert (kept[0], kept[2]) == (short, "")
        assert len(kept[1].encode()) <= TRACEBACK_BYTES_MAX
        assert (kept[1][:6], kept[1][-5:]) == ("first ", " last")

    async def test_what_a_worker_gives_back_from_the_end_waits_at_once(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 6})
        claim = await bench.claim("read")
        await bench.accept(claim, [0, 1])
        assert await bench.counts(job, "read") == (4, 0, 2, 0, 0)
        rest = await bench.claim("read")
        assert (list(rest.seqs), rest.attempt, rest.alone) == (list(claim.seqs[2:]), 0, False)
        assert rest.piece(0) == b"read-2"

    async def test_what_a_worker_gives_back_from_the_middle_waits_at_once(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 5})
        claim = await bench.claim("read")
        await bench.accept(claim, [0, 3, 4])
        assert await bench.counts(job, "read") == (2, 0, 3, 0, 0)
        rest = await bench.claim_all("read")
        assert [seq for piece in rest for seq in piece.seqs] == list(claim.seqs[1:3])
        assert {(piece.attempt, piece.alone) for piece in rest} == {(0, False)}
        for piece in rest:
            await bench.accept(piece)
        assert await bench.state(job) is JobState.FINISHED

    async def test_an_early_slice_given_back_while_a_later_one_is_held_waits_at_once(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 6})
        early = await bench.claim("read", room=3)
        later = await bench.claim("read", room=3)
        await bench.accept(early, [])
        assert await bench.counts(job, "read") == (3, 3, 0, 0, 0)
        taken = await bench.claim_all("read")
        assert sorted(seq for claim in taken for seq in claim.seqs) == list(early.seqs)
        for claim in (later, *taken):
            await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED

    async def test_everything_given_back_is_as_if_it_had_never_been_claimed(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 4})
        for _ in range(3):
            await bench.accept(await bench.claim("read"), [])
        assert await bench.counts(job, "read") == (4, 0, 0, 0, 0)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_retry_waits_for_its_time_with_its_attempts(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read")
        await bench.accept(claim, [0], again=(again(1, bench.passage.brief_s, attempt=3),))
        assert await bench.counts(job, "read") == (1, 0, 1, 0, 0)
        early = await bench.grant("read")
        assert early.claims == ()
        assert early.wait_s is not None
        await bench.past_brief()
        retried = await bench.claim("read")
        assert (list(retried.seqs), retried.attempt, retried.alone) == ([claim.seqs[1]], 3, False)
        assert retried.piece(0) == b"read-1"
        await bench.accept(retried)
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_snoozed_item_has_spent_no_attempt(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 1})
        await bench.accept(await bench.claim("read"), [], again=(again(0, bench.passage.brief_s, attempt=0),))
        await bench.past_brief()
        assert (await bench.claim("read")).attempt == 0

    async def test_retries_with_different_attempts_come_back_apart(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 4})
        claim = await bench.claim("read")
        await bench.accept(claim, [0], again=(again(1, 0.0, 1), again(2, 0.0, 2), again(3, 0.0, 1)))
        found = {seq: c.attempt for c in await bench.claim_all("read") for seq in c.seqs}
        assert found == {claim.seqs[1]: 1, claim.seqs[2]: 2, claim.seqs[3]: 1}

    async def test_a_hundred_different_delays_are_one_settlement(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 300})
        claim = await bench.claim("read")
        await bench.accept(claim, [], again=tuple(again(i, 1.0 + i * 0.5, 1) for i in range(claim.count)))
        assert (await bench.tally(job, "read")).total == 300

    async def test_an_item_may_wait_again_many_times(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        for attempt in range(1, 6):
            for claim in await bench.claim_all("read"):
                await bench.accept(claim, [], again=tuple(again(i, 0.0, attempt) for i in range(claim.count)))
        assert await bench.drain(job) is JobState.FINISHED
        assert (await bench.tally(job, "read")).total == 3

    async def test_a_retry_in_the_middle_of_a_claim_may_run_elsewhere_meanwhile(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        await bench.accept(claim, [], again=(again(0),), end=False)
        retried = await bench.claim("read", worker="worker-2")
        assert list(retried.seqs) == [claim.seqs[0]]
        await bench.accept(retried)
        await bench.accept(claim, [1, 2])
        assert await bench.state(job) is JobState.FINISHED


class GivingBackContract:
    """A worker stuck behind one long item lets the others have the rest, and goes on holding that one."""

    async def test_the_unstarted_rest_goes_back_while_the_claim_goes_on(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 5})
        claim = await bench.claim("read")
        await bench.accept(claim, [0], back=2, end=False)
        assert await bench.counts(job, "read") == (3, 1, 1, 0, 0)
        rest = await bench.claim_all("read", worker="worker-2")
        assert [seq for part in rest for seq in part.seqs] == list(claim.seqs[2:])
        assert {(part.alone, part.attempt) for part in rest} == {(False, 0)}
        for part in rest:
            await bench.accept(part)
        await bench.accept(claim, [1])
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_rest_that_others_were_granted_behind_goes_back_too(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 6})
        first = await bench.claim("read", room=4)
        behind = await bench.claim("read", room=1)
        await bench.accept(first, [], back=1, end=False)
        assert await bench.counts(job, "read") == (4, 2, 0, 0, 0)
        found = [seq for claim in await bench.claim_all("read") for seq in claim.seqs]
        assert sorted(found) == sorted([*first.seqs[1:], first.seqs[0] + 5])
        await bench.accept(behind)
        await bench.accept(first, [0])
        assert (await bench.tally(job, "read")).done == 2

    async def test_a_repeat_gives_back_once(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        await bench.accept(claim, [], back=1, end=False)
        rest = await bench.claim("read")
        await bench.accept(claim, [], back=1, end=False, step=1)
        assert await bench.counts(job, "read") == (0, 3, 0, 0, 0)
        await bench.accept(rest)

    async def test_a_lost_claim_loses_only_what_it_kept(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", hold_s=bench.passage.brief_s)
        await bench.accept(claim, [], back=1, end=False)
        await bench.accept(await bench.claim("read"))
        await bench.past_brief()
        await bench.sweep()
        suspect = await bench.claim("read")
        assert (list(suspect.seqs), suspect.alone) == ([claim.seqs[0]], True)
        await bench.accept(suspect)
        assert await bench.state(job) is JobState.FINISHED

    async def test_what_goes_back_to_a_cancelled_job_ends_cancelled(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read")
        await bench.cancel(job)
        await bench.accept(claim, [], back=1, end=False)
        assert await bench.counts(job, "read") == (0, 1, 0, 0, 2)
        await bench.accept(claim, [0])
        assert await bench.state(job) is JobState.CANCELLED
