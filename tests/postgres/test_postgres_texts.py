"""Texts that PostgreSQL cannot store: a key is refused by name, an error for people is shown as well as it can be."""

from __future__ import annotations

import pytest

from headrace.adapters.postgres import PostgresStore
from headrace.core.claims import Loss, Settlement, Want
from headrace.core.errors import InvalidPayload
from headrace.core.jobs import DeadFilter, Submission
from headrace.testing.contracts.bench import flow, parcel, work

FLOW = flow(work("a"))


@pytest.mark.parametrize("key", ["nothing\x00here", "half \ud800"])
async def test_a_key_that_cannot_be_stored_is_refused_by_name(store: PostgresStore, key: str) -> None:
    with pytest.raises(InvalidPayload, match="key"):
        await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 1, keys=[key]),)))


async def test_an_error_that_cannot_be_stored_is_stored_without_the_odd_characters(store: PostgresStore) -> None:
    await store.submit(Submission("j", FLOW.name, FLOW.graph, (parcel("a", 1, keys=["ključ ✓ 𝄞"]),)))
    (claim,) = (await store.claim("w", [Want(FLOW.name, "a", 1, 1)], 60.0)).claims
    loss = Loss(0, "nothing\x00here", error="half \ud800, whole ✓")
    (answer,) = await store.settle([Settlement(claim.fence, 1, dead=(loss,))])
    assert answer.accepted
    (letter,) = await store.dead(DeadFilter(job="j"))
    assert (letter.reason, letter.error, letter.key) == ("nothing\ufffdhere", "half ?, whole ✓", "ključ ✓ 𝄞")


async def test_odd_names_pass_as_they_are(store: PostgresStore) -> None:
    names = {"job": "j'\"\\%s", "tenant": "ünï {t}", "key": "k,}\n", "digest": "d"}
    await store.submit(Submission(flow="f'l\"o", graph=FLOW.graph, parcels=(parcel("a", 1),), **names))
    (claim,) = (await store.claim("w'", [Want("f'l\"o", "a", 1, 1)], 60.0)).claims
    assert (claim.job, claim.tenant, claim.flow) == (names["job"], names["tenant"], "f'l\"o")
    view = await store.job(names["job"])
    assert (view.key, view.tenant) == (names["key"], names["tenant"])
