"""A stop is part of the transaction that finds it: nothing need follow the commit, so a kill there loses nothing."""

from __future__ import annotations

from headrace.adapters.postgres import settlements
from headrace.adapters.postgres.connections import connect
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Settlement
from headrace.testing.contracts.bench import Bench, died, flow, parcel, work
from headrace.testing.passage import RealPassage


async def test_a_process_that_dies_after_its_commit_leaves_a_stopped_job(
    postgres_url: str, store: PostgresStore
) -> None:
    bench = Bench(store, RealPassage())
    job = await bench.submit(flow(work("a", stop_early=True)), [parcel("a", 1), parcel("a", 4)])
    claim = await bench.claim("a", room=1)
    with connect(postgres_url) as connection:
        answers, *_ = settlements.settle(connection, [Settlement(claim.fence, 1, dead=(died(0),))])
    assert [answer.accepted for answer in answers] == [True]
    assert (await bench.grant("a")).claims == ()
    assert await bench.counts(job, "a") == (0, 0, 0, 1, 4)
