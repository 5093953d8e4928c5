"""Sending: atomic with the settlement, staged ahead of it, streamed with a cursor, or unique by key."""

from __future__ import annotations

from headrace.core.claims import Settlement
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import ALL, Bench, again, flow, parcel, work

PAIR = flow(work("a", "b"), work("b"))
UNIQUE = flow(work("a", "b"), work("b", unique=True))


class SendingContract:
    async def test_sends_become_visible_with_their_settlement(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        assert (await bench.tally(job, "b")).total == 0
        await bench.accept(claim, sends=(parcel("b", 3, keys=["x", "y", "z"]), parcel("b", 2)))
        assert await bench.counts(job, "b") == (5, 0, 0, 0, 0)
        sent = await bench.claim_all("b")
        assert [c.piece(i) for c in sent for i in range(c.count)] == [b"b-0", b"b-1", b"b-2", b"b-0", b"b-1"]
        assert sent[0].keys == ("x", "y", "z")

    async def test_a_repeated_settlement_sends_once(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        settlement = Settlement(claim.fence, 1, done=1, sends=(parcel("b", 3),))
        for _ in range(3):
            assert (await bench.repeat(settlement)).accepted
        assert (await bench.tally(job, "b")).total == 3

    async def test_a_refused_settlement_sends_nothing(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        lost = await bench.lose("a")
        assert not (await bench.settle(lost, ALL, sends=(parcel("b", 3),))).accepted
        assert (await bench.tally(job, "b")).total == 0
        await bench.accept(await bench.claim("a"))
        assert await bench.state(job) is JobState.FINISHED

    async def test_a_delayed_send_waits_for_its_time(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 1, delay_s=bench.passage.brief_s),))
        assert (await bench.tally(job, "b")).waiting == 1
        assert (await bench.grant("b")).claims == ()
        await bench.past_brief()
        await bench.accept(await bench.claim("b"))
        assert await bench.state(job) is JobState.FINISHED

    async def test_staged_parcels_are_in_no_count_and_cannot_be_claimed(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        assert await bench.send(claim.fence, parcel("b", 3, number=0), parcel("b", 4, number=1))
        assert (await bench.tally(job, "b")).total == 0
        assert (await bench.grant("b")).claims == ()

    async def test_staged_parcels_are_flipped_by_the_settlement_that_names_them(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 3, number=0), parcel("b", 4, number=1), parcel("b", 5, number=2))
        await bench.accept(claim, flips=(0, 2), sends=(parcel("b", 1),))
        assert await bench.counts(job, "b") == (9, 0, 0, 0, 0)
        assert not any(chunk.staged for chunk in (await bench.audit(job)).chunks)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_step_flips_what_it_names_and_leaves_the_rest_staged(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 2})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 3, number=0), parcel("b", 4, number=1))
        await bench.accept(claim, [0], flips=(0,), end=False)
        assert (await bench.tally(job, "b")).total == 3
        await bench.accept(claim, [1], flips=(1,))
        assert (await bench.tally(job, "b")).total == 7

    async def test_a_staged_parcel_sent_again_is_one_parcel(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        for _ in range(3):
            assert await bench.send(claim.fence, parcel("b", 3, number=7))
        await bench.accept(claim, flips=(7,))
        assert (await bench.tally(job, "b")).total == 3

    async def test_a_repeated_settlement_flips_once(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 3))
        settlement = Settlement(claim.fence, 1, done=1, flips=(0,))
        for _ in range(2):
            assert (await bench.repeat(settlement)).accepted
        assert (await bench.tally(job, "b")).total == 3

    async def test_parcels_never_flipped_go_with_the_claim(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 3))
        await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED
        assert (await bench.tally(job, "b")).total == 0
        assert not any(chunk.staged for chunk in (await bench.audit(job)).chunks)

    async def test_parcels_of_one_claim_are_not_those_of_another(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 2})
        first, second = await bench.claim("a", room=1), await bench.claim("a", room=1)
        await bench.send(first.fence, parcel("b", 3, number=0))
        await bench.send(second.fence, parcel("b", 4, number=0))
        await bench.accept(first, flips=(0,))
        assert (await bench.tally(job, "b")).total == 3
        await bench.accept(second, flips=(0,))
        assert (await bench.tally(job, "b")).total == 7

    async def test_a_staged_parcel_for_a_stage_that_is_not_fed_is_refused(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b"), work("c")), {"a": 1, "c": 1})
        claim = await bench.claim("a")
        assert await bench.send(claim.fence, parcel("c", 2, number=1), parcel("nowhere", 2, number=2))
        for number, stage in ((1, "c"), (2, "nowhere")):
            assert (await bench.settle(claim, flips=(number,))).reason == f"unknown:{stage}"
        assert (await bench.tally(job, "c")).total == 1
        await bench.accept(claim)

    async def test_a_settlement_that_flips_what_is_not_there_is_refused(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        await bench.send(claim.fence, parcel("b", 2, number=1))
        assert (await bench.settle(claim, flips=(1, 2))).reason == "lost"
        assert await bench.counts(job, "a") == (0, 1, 0, 0, 0)
        await bench.accept(claim, flips=(1,))
        assert (await bench.tally(job, "b")).total == 2

    async def test_an_empty_key_is_a_key_beside_items_that_have_none(self, bench: Bench) -> None:
        job = await bench.submit(UNIQUE, {"a": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 4, keys=[None, "", "", None]),))
        assert (await bench.tally(job, "b")).total == 3

    async def test_streamed_items_are_visible_at_once_and_the_next_holder_gets_the_cursor(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 2})
        claim = await bench.claim("a", hold_s=bench.passage.brief_s)
        await bench.accept(claim, [], sends=(parcel("b", 3),), cursor=(1, b"page-1"), end=False)
        await bench.accept(claim, [], sends=(parcel("b", 2),), cursor=(1, b"page-2"), end=False)
        assert await bench.counts(job, "b") == (5, 0, 0, 0, 0)
        await bench.past_brief()
        await bench.sweep()
        cursors = {c.seqs[i]: cursor for c in await bench.claim_all("a") for i, cursor in c.cursors.items()}
        assert cursors == {claim.seqs[1]: b"page-2"}

    async def test_a_late_holder_cannot_stream(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        lost = await bench.lose("a")
        answer = await bench.settle(lost, [], sends=(parcel("b", 3),), cursor=(0, b"page-9"), end=False)
        assert not answer.accepted
        assert (await bench.tally(job, "b")).total == 0
        assert dict((await bench.claim("a")).cursors) == {}

    async def test_a_retried_item_keeps_its_cursor(self, bench: Bench) -> None:
        await bench.submit(PAIR, {"a": 1})
        claim = await bench.claim("a")
        await bench.accept(claim, [], sends=(parcel("b", 1),), cursor=(0, b"page-1"), end=False)
        await bench.accept(claim, [], again=(again(0),))
        assert dict((await bench.claim("a")).cursors) == {0: b"page-1"}

    async def test_a_unique_stage_counts_each_key_once(self, bench: Bench) -> None:
        job = await bench.submit(UNIQUE, {"a": 2})
        first, second = await bench.claim("a", room=1), await bench.claim("a", room=1)
        await bench.accept(first, sends=(parcel("b", 4, keys=["x", "y", "x", "z"]),))
        assert (await bench.tally(job, "b")).total == 3
        await bench.accept(second, sends=(parcel("b", 3, keys=["w", "y", "x"]), parcel("b", 1, keys=["w"])))
        assert (await bench.tally(job, "b")).total == 4
        found = await bench.claim_all("b")
        assert sorted(str(key) for claim in found for key in claim.keys or ()) == ["w", "x", "y", "z"]
        for claim in found:
            await bench.accept(claim)
        assert await bench.state(job) is JobState.FINISHED

    async def test_the_payload_of_the_first_one_with_a_key_is_kept(self, bench: Bench) -> None:
        await bench.submit(UNIQUE, {"a": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 3, keys=["x", "y", "x"]),))
        pieces = {c.piece(i): (c.keys or ())[i] for c in await bench.claim_all("b") for i in range(c.count)}
        assert pieces == {b"b-0": "x", b"b-1": "y"}

    async def test_a_parcel_of_known_keys_only_adds_nothing(self, bench: Bench) -> None:
        job = await bench.submit(UNIQUE, {"a": 2})
        first, second = await bench.claim("a", room=1), await bench.claim("a", room=1)
        await bench.accept(first, sends=(parcel("b", 2, keys=["x", "y"]),))
        await bench.accept(await bench.claim("b"))
        await bench.accept(second, sends=(parcel("b", 2, keys=["y", "x"]),))
        assert await bench.state(job) is JobState.FINISHED
        assert (await bench.tally(job, "b")).total == 2

    async def test_staged_parcels_are_deduplicated_when_they_are_flipped(self, bench: Bench) -> None:
        job = await bench.submit(UNIQUE, {"a": 2})
        dropped, kept = await bench.claim("a", room=1), await bench.claim("a", room=1)
        await bench.send(dropped.fence, parcel("b", 2, keys=["x", "y"]))
        await bench.send(kept.fence, parcel("b", 3, keys=["x", "z", "z"]))
        await bench.accept(dropped)
        await bench.accept(kept, flips=(0,))
        assert (await bench.tally(job, "b")).total == 2
        assert await bench.drain(job) is JobState.FINISHED

    async def test_keys_of_one_job_do_not_shadow_another(self, bench: Bench) -> None:
        for _ in range(2):
            job = await bench.submit(UNIQUE, {"a": 1})
            await bench.accept(await bench.claim("a"), sends=(parcel("b", 1, keys=["x"]),))
            assert (await bench.tally(job, "b")).total == 1

    async def test_a_stage_that_is_not_unique_takes_a_key_twice(self, bench: Bench) -> None:
        job = await bench.submit(PAIR, {"a": 1})
        await bench.accept(await bench.claim("a"), sends=(parcel("b", 2, keys=["x", "x"]),))
        assert (await bench.tally(job, "b")).total == 2
