"""Names that a careless statement would stumble over."""

from __future__ import annotations

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Want
from headrace.core.jobs import Submission
from headrace.testing.contracts.bench import flow, parcel, work

FLOW = flow(work("a"))


async def test_odd_names_pass_as_they_are(store: PostgresStore) -> None:
    names = {"job": "j'\"\\%s", "tenant": "ünï {t}", "key": "k,}\n", "digest": "d"}
    await store.submit(Submission(flow="f'l\"o", graph=FLOW.graph, parcels=(parcel("a", 1),), **names))
    (claim,) = (await store.claim("w'", [Want("f'l\"o", "a", 1, 1)], 60.0)).claims
    assert (claim.job, claim.tenant, claim.flow) == (names["job"], names["tenant"], "f'l\"o")
    view = await store.job(names["job"])
    assert (view.key, view.tenant) == (names["key"], names["tenant"])
