"""The same POST twice is one change and one answer (A1), also when a process dies in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from http_sample import KEY, After, Sample

from headrace.core.errors import Conflict, Unreachable
from headrace.http import Answer, Attempt, Begun, IdempotencyStore, Limits, MemoryIdempotency
from headrace.http.idempotency import ENTRIES_MAX, KEPT_S
from headrace.http.problems import Problem
from headrace.testing.contracts.idempotency import FIRST, MADE, SECOND, IdempotencyContract
from headrace.testing.passage import ManualClock, ManualPassage

THING = {"name": "a"}
JSON = {"Content-Type": "application/json"}


def keyed(key: str = "key-1") -> dict[str, str]:
    return {"Idempotency-Key": key}


async def post(client: httpx.AsyncClient, key: str = "key-1", **more: Any) -> httpx.Response:
    return await client.post("/things", **{"json": THING, "headers": keyed(key), **more})


class TestMemoryIdempotency(IdempotencyContract):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def passage(self, clock: ManualClock) -> ManualPassage:
        return ManualPassage(clock)

    @pytest.fixture
    def keys(self, clock: ManualClock) -> MemoryIdempotency:
        return MemoryIdempotency(clock.monotonic)

    async def test_keys_are_forgotten_after_a_day(self, keys: MemoryIdempotency, clock: ManualClock) -> None:
        await keys.begin(FIRST)
        await keys.finish(FIRST, MADE)
        clock.advance(KEPT_S + 1)
        assert (await keys.begin(SECOND)).state == "granted"

    async def test_no_more_keys_than_there_is_room_for(self, keys: MemoryIdempotency) -> None:
        for number in range(ENTRIES_MAX + 1):
            await keys.begin(replace(FIRST, key=str(number)))
        assert (await keys.begin(replace(SECOND, key="0"))).state == "granted"
        assert (await keys.begin(replace(SECOND, key=str(ENTRIES_MAX)))).state == "in_flight"


async def test_the_same_request_is_one_change_with_one_answer(sample: Sample) -> None:
    async with sample.client() as client:
        answers = [await post(client) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.content for answer in answers} == {answers[0].content}
    assert {answer.headers["location"] for answer in answers} == {f"/things/{sample.made[0]}"}
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", "true"]
    assert (sample.calls, len(sample.made)) == (1, 1)


async def test_without_a_key_every_request_is_its_own(sample: Sample) -> None:
    async with sample.client() as client:
        for _ in range(2):
            assert (await client.post("/things", json=THING)).status_code == 201
    assert len(sample.made) == 2


@pytest.mark.parametrize("more", [{"json": {"name": "b"}}, {"params": {"a": "1"}}])
async def test_another_request_under_the_key_is_refused(more: dict[str, Any], sample: Sample) -> None:
    async with sample.client() as client:
        await post(client)
        answer = await post(client, **more)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:headrace:problem:key-reused")
    assert sample.calls == 1


async def test_a_second_one_meanwhile_is_told_to_wait(sample: Sample) -> None:
    sample.gate.clear()
    async with sample.client() as client:
        first = asyncio.ensure_future(post(client))
        await sample.entered.wait()
        second = await post(client)
        sample.gate.set()
        assert (await first).status_code == 201
        assert (await post(client)).content == (await first).content
    assert (second.status_code, second.json()["type"]) == (409, "urn:headrace:problem:in-flight")
    assert sample.calls == 1


class Watched(MemoryIdempotency):
    """Tells when a key was asked for so often."""

    begun = 0

    def __init__(self) -> None:
        super().__init__()
        self.enough = asyncio.Event()

    async def begin(self, attempt: Attempt) -> Begun:
        self.begun += 1
        if self.begun == 6:
            self.enough.set()
        return await super().begin(attempt)


async def test_a_request_that_takes_longer_than_its_hold_keeps_its_key(sample: Sample) -> None:
    sample.gate.clear()
    store = Watched()
    async with sample.client(idempotency=store, limits=Limits(key_hold_s=0.15)) as client:
        first = asyncio.ensure_future(post(client))
        # Asked for again every third of the hold: after six times more than the hold has passed.
        await asyncio.wait_for(store.enough.wait(), 10)
        assert (await post(client)).status_code == 409
        sample.gate.set()
        assert (await first).status_code == 201
    assert sample.calls == 1


async def test_a_refusal_is_an_answer_too(sample: Sample) -> None:
    sample.error = Conflict("it is closed")
    async with sample.client() as client:
        first = await post(client)
        sample.error = None
        second = await post(client)
    assert (first.status_code, second.status_code, sample.calls) == (409, 409, 1)
    assert first.content == second.content


async def test_a_body_that_was_labelled_wrongly_may_come_again_under_its_key(sample: Sample) -> None:
    async with sample.client() as client:
        first = await post(client, json=None, content=b'{"name": "a"}')
        second = await post(client, json=None, content=b'{"name": "a"}', headers={**keyed(), **JSON})
    assert (first.status_code, second.status_code, sample.calls) == (415, 201, 1)


@pytest.mark.parametrize("error", [After("died"), Unreachable("away"), RuntimeError("mistake")])
async def test_a_failure_is_tried_again_as_the_same_change(error: Exception, sample: Sample) -> None:
    sample.error = error
    async with sample.client() as client:
        assert (await post(client)).status_code >= 500
        sample.error = None
        assert (await post(client)).status_code == 201
    assert (sample.calls, len(sample.made)) == (2, 1)


async def test_tenants_do_not_meet(sample: Sample) -> None:
    keys = {"acme": KEY, "globex": "g" * 32}
    async with sample.client(api_keys=keys) as client:
        for key in keys.values():
            answer = await post(client, headers={**keyed(), "X-API-Key": key})
            assert (answer.status_code, "idempotency-replayed" in answer.headers) == (201, False)
    assert len(sample.made) == 2


@pytest.mark.parametrize("key", ["", "k" * 256, "a\tb", "é".encode()])
async def test_a_key_that_nobody_could_read_is_refused(key: str | bytes, sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", json=THING, headers=[(b"Idempotency-Key", key)])  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:headrace:problem:bad-key")


class Dying:
    """A store of a process that dies when its answer is about to be kept: the change stands, the answer is lost."""

    def __init__(self, store: IdempotencyStore) -> None:
        self.store, self.alive = store, False

    async def begin(self, attempt: Attempt) -> Begun:
        return await self.store.begin(replace(attempt, hold_s=attempt.hold_s if self.alive else 0.0))

    async def finish(self, attempt: Attempt, answer: Answer) -> Answer:
        if not self.alive:
            raise Unreachable("the process is dead")
        return await self.store.finish(attempt, answer)

    async def release(self, attempt: Attempt) -> None:
        await self.store.release(attempt)


async def test_a_crash_between_change_and_answer_does_not_double_the_change(sample: Sample) -> None:
    store = Dying(MemoryIdempotency())
    async with sample.client(idempotency=store) as client:
        assert (await post(client)).status_code == 503
        store.alive = True
        answers = [await post(client) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content
    assert (sample.calls, len(sample.made)) == (2, 1)


class Seedless(Dying):
    """A broken twin: a repeat gets a seed of its own."""

    async def begin(self, attempt: Attempt) -> Begun:
        begun = await super().begin(attempt)
        return replace(begun, seed=attempt.seed)


async def test_without_the_kept_seed_the_change_would_be_doubled(sample: Sample) -> None:
    store = Seedless(MemoryIdempotency())
    async with sample.client(idempotency=store) as client:
        await post(client)
        store.alive = True
        await post(client)
    assert len(sample.made) == 2


class Careless(MemoryIdempotency):
    """A broken twin: nobody is kept waiting."""

    async def begin(self, attempt: Attempt) -> Begun:
        return await super().begin(replace(attempt, hold_s=-1.0))


async def test_a_store_without_holds_does_not_pass_the_contract() -> None:
    contract = IdempotencyContract()
    with pytest.raises(AssertionError):
        await contract.test_the_same_key_is_in_flight_while_the_first_is_at_it(Careless())
    with pytest.raises(AssertionError):
        await contract.test_one_of_many_at_once_is_granted(Careless())


async def test_what_was_too_much_is_not_kept_for_the_repeat(sample: Sample) -> None:
    """The answer says when to come again; the same key must not meet it for ever."""
    sample.error = Problem(429, "quota", "too many wait", headers={"Retry-After": "1"})
    async with sample.client() as client:
        refused = await post(client)
        sample.error = None
        answers = [await post(client) for _ in range(2)]
    assert (refused.status_code, [answer.status_code for answer in answers]) == (429, [201, 201])
    assert len(sample.made) == 1
