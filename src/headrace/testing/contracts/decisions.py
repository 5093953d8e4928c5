"""Decisions that belong to no dialect: every store groups, rounds, cuts and orders alike."""

from __future__ import annotations

import math

import pytest

from headrace.core.claims import CRASHES_MAX, ERROR_CHARS_MAX
from headrace.core.errors import InvalidPayload
from headrace.core.jobs import DeadFilter
from headrace.core.losses import DEADLINE, WORKER_LOST
from headrace.core.parcels import PARCEL_ITEMS_MAX
from headrace.testing.contracts.bench import Bench, again, died, external, flow, parcel, work

PLAIN = flow(work("read"))
DIGITS = ("line 7", "line ٣", "line ९", "line ７")


class DecisionsContract:
    async def test_errors_group_whatever_script_their_digits_are_in(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": len(DIGITS)})
        losses = tuple(died(index, error=text) for index, text in enumerate(DIGITS))
        await bench.accept(await bench.claim("read"), [], dead=losses)
        letters = await bench.store.dead(DeadFilter())
        assert {letter.fingerprint for letter in letters} == {losses[0].fingerprint}

    async def test_a_fingerprint_is_that_of_the_text_that_is_kept(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 2})
        long = "x" * ERROR_CHARS_MAX
        await bench.accept(
            await bench.claim("read"), [], dead=(died(0, error=long + "a"), died(1, error=long + "b" * 9))
        )
        letters = await bench.store.dead(DeadFilter())
        assert {letter.error for letter in letters} == {long}
        assert {letter.fingerprint for letter in letters} == {died(0, error=long).fingerprint}

    async def test_the_letters_a_store_writes_by_itself_have_the_same_marks_everywhere(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 1})
        for _ in range(CRASHES_MAX + 1):
            await bench.lose("read")
        hasty = flow(external("approval", deadline_s=bench.passage.brief_s), work("a"), name="hasty")
        await bench.submit(hasty, {"a": 1})
        await bench.past_brief()
        await bench.sweep()
        found = {letter.stage: letter for letter in await bench.store.dead(DeadFilter())}
        for stage, loss in (("read", WORKER_LOST), ("approval", DEADLINE)):
            letter = found[stage]
            assert (letter.reason, letter.rule, letter.error) == (loss.reason, loss.rule, loss.error)
            assert "no traceback" in letter.error
            assert letter.traceback == ""
            assert letter.fingerprint == loss.fingerprint

    async def test_an_error_that_cannot_be_stored_is_stored_without_the_odd_characters(self, bench: Bench) -> None:
        await bench.submit(PLAIN, [parcel("read", 1, keys=["ključ ✓ 𝄞"])])
        loss = died(0, "nothing\x00here", rule="\x00", error="half \ud800, whole ✓")
        await bench.accept(await bench.claim("read"), [], dead=(loss,))
        (letter,) = await bench.store.dead(DeadFilter())
        assert (letter.reason, letter.rule) == ("nothing\ufffdhere", "\ufffd")
        assert (letter.error, letter.key) == ("half ?, whole ✓", "ključ ✓ 𝄞")

    @pytest.mark.parametrize("key", ["nothing\x00here", "half \ud800"])
    async def test_a_key_that_cannot_be_stored_is_refused_by_name(self, bench: Bench, key: str) -> None:
        with pytest.raises(InvalidPayload, match="key"):
            await bench.submit(PLAIN, [parcel("read", 1, keys=[key])])
        for name in ("key", "tenant"):
            with pytest.raises(InvalidPayload, match="key"):
                await bench.submit(PLAIN, {"read": 1}, **{name: key})

    async def test_letters_of_one_moment_are_listed_in_one_order(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 5})
        claim = await bench.claim("read")
        await bench.accept(claim, [], dead=tuple(died(index) for index in (3, 0, 4, 1, 2)))
        letters = await bench.store.dead(DeadFilter())
        assert [letter.seq for letter in letters] == sorted(claim.seqs, reverse=True)

    @pytest.mark.parametrize("delay_s", [-5.0, -math.inf, math.nan])
    async def test_a_delay_that_has_passed_is_none(self, bench: Bench, delay_s: float) -> None:
        await bench.submit(PLAIN, {"read": 2})
        await bench.accept(await bench.claim("read"), [], again=(again(0, delay_s), again(1)))
        assert (await bench.claim("read")).count == 2

    async def test_a_delay_without_end_is_long(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("read", "read")), {"read": 1})
        endless = parcel("read", 1, delay_s=math.inf)
        await bench.accept(await bench.claim("read"), [], sends=(endless,), again=(again(0, math.inf),))
        granted = await bench.grant("read")
        assert granted.claims == ()
        assert granted.wait_s is not None
        assert granted.wait_s > 365 * 86_400.0
        assert await bench.counts(job, "read") == (2, 0, 0, 0, 0)

    async def test_any_number_of_different_attempts_is_one_settlement(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 150})
        retries = tuple(again(index, 0.0, attempt=index) for index in range(150))
        await bench.accept(await bench.claim("read"), [], again=retries)
        assert (await bench.tally(job, "read")).waiting == 150

    async def test_a_share_is_rounded_up(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 5})
        for number in (1, 2):
            bench.renew(f"worker-{number}")
        assert (await bench.claim("read")).count == 2

    async def test_a_share_is_one_of_what_lies_in_the_first_chunks(self, bench: Bench) -> None:
        await bench.submit(PLAIN, [parcel("read", 1) for _ in range(60)])
        for number in (1, 2):
            bench.renew(f"worker-{number}")
        assert sum(claim.count for claim in (await bench.grant("read")).claims) == 8

    async def test_a_worker_that_is_alone_gets_all_it_has_room_for(self, bench: Bench) -> None:
        items = 9 * PARCEL_ITEMS_MAX
        await bench.submit(PLAIN, [parcel("read", PARCEL_ITEMS_MAX) for _ in range(9)])
        claims = (await bench.grant("read", room=items)).claims
        assert sum(claim.count for claim in claims) == items
