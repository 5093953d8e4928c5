"""Repeated requests: one change, one answer, whoever dies when."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headrace.core.idempotency import Answer, Attempt, Begun
from headrace.http.idempotency import IdempotencyStore
from headrace.testing.passage import Passage

FIRST = Attempt("acme", "key-1", "same", "seed-1", "holder-1", 30.0)
SECOND = replace(FIRST, seed="seed-2", holder="holder-2")
MADE = Answer(201, (("content-type", "application/json"), ("location", "/things/7")), b'{"id": 7, "name": "\xc3\xa9"}')
OTHER = Answer(200, (), b"late")


class IdempotencyContract:
    """`api.IdempotencyStore`. Brings: `keys` (the store) and `passage`, which lets its time pass."""

    async def test_a_new_key_is_granted_with_its_own_seed(self, keys: IdempotencyStore) -> None:
        assert await keys.begin(FIRST) == Begun("granted", "seed-1")

    async def test_the_same_key_is_in_flight_while_the_first_is_at_it(self, keys: IdempotencyStore) -> None:
        await keys.begin(FIRST)
        assert (await keys.begin(SECOND)).state == "in_flight"

    async def test_a_begin_whose_answer_was_lost_is_granted_again(self, keys: IdempotencyStore) -> None:
        assert await keys.begin(FIRST) == await keys.begin(FIRST)

    async def test_an_answer_is_told_again_byte_for_byte(self, keys: IdempotencyStore) -> None:
        await keys.begin(FIRST)
        assert await keys.finish(FIRST, MADE) == MADE
        assert await keys.begin(SECOND) == Begun("answered", "seed-1", MADE)

    async def test_the_first_answer_stands(self, keys: IdempotencyStore) -> None:
        await keys.begin(FIRST)
        await keys.finish(FIRST, MADE)
        assert await keys.finish(SECOND, OTHER) == MADE
        assert (await keys.begin(SECOND)).answer == MADE

    async def test_another_request_under_the_same_key_is_refused(self, keys: IdempotencyStore) -> None:
        await keys.begin(FIRST)
        assert (await keys.begin(replace(SECOND, fingerprint="other"))).state == "other"
        await keys.finish(FIRST, MADE)
        assert (await keys.begin(replace(SECOND, fingerprint="other"))).state == "other"

    async def test_a_key_belongs_to_its_tenant(self, keys: IdempotencyStore) -> None:
        await keys.begin(FIRST)
        await keys.finish(FIRST, MADE)
        elsewhere = replace(SECOND, tenant="globex", fingerprint="other")
        assert await keys.begin(elsewhere) == Begun("granted", "seed-2")

    async def test_who_died_is_followed_with_its_seed(self, keys: IdempotencyStore, passage: Passage) -> None:
        await keys.begin(replace(FIRST, hold_s=passage.brief_s))
        await passage.past(passage.brief_s)
        assert await keys.begin(SECOND) == Begun("granted", "seed-1")
        assert (await keys.begin(replace(SECOND, holder="holder-3"))).state == "in_flight"

    async def test_a_release_frees_the_key_and_keeps_the_seed(self, keys: IdempotencyStore) -> None:
        await keys.begin(FIRST)
        await keys.release(FIRST)
        assert await keys.begin(SECOND) == Begun("granted", "seed-1")

    async def test_who_was_followed_frees_nothing(self, keys: IdempotencyStore, passage: Passage) -> None:
        await keys.begin(replace(FIRST, hold_s=passage.brief_s))
        await passage.past(passage.brief_s)
        await keys.begin(SECOND)
        await keys.release(FIRST)
        assert (await keys.begin(replace(SECOND, holder="holder-3"))).state == "in_flight"

    async def test_one_of_many_at_once_is_granted(self, keys: IdempotencyStore) -> None:
        attempts = [replace(FIRST, seed=f"seed-{number}", holder=f"holder-{number}") for number in range(8)]
        begun = await asyncio.gather(*map(keys.begin, attempts))
        assert sorted(each.state for each in begun) == ["granted"] + ["in_flight"] * 7
