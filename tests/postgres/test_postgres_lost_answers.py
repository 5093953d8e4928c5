"""A lost answer is not a failure: the same call again tells what happened, and changes nothing if it had."""

from __future__ import annotations

import asyncio

import pytest

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Settlement, Want
from headrace.core.errors import Unknown
from headrace.core.jobs import Submission
from headrace.core.recount import recount
from headrace.testing.contracts.bench import flow, parcel, work
from headrace.testing.rig.proxy import Proxy

FLOW = flow(work("a", "b"), work("b"))
SUBMISSION = Submission("j", FLOW.name, FLOW.graph, (parcel("a", 20),))


async def _settlements(store: PostgresStore) -> tuple[Settlement, Settlement]:
    """Two settlements of the same shape; the first one leaves the statement prepared on the line."""
    claims = [(await store.claim("w", [Want(FLOW.name, "a", 10, 10)], 60.0)).claims[0] for _ in range(2)]
    first, second = (
        Settlement(claim.fence, 1, done=(1 << claim.count) - 1, sends=(parcel("b", 3),)) for claim in claims
    )
    return first, second


async def test_a_settlement_whose_reply_is_lost_was_applied_once(
    store: PostgresStore, far: PostgresStore, line: Proxy
) -> None:
    await far.submit(SUBMISSION)
    first, second = await _settlements(far)
    await far.settle([first])
    line.cut_reply_to(b"b-0b-1b-2")
    with pytest.raises(Unknown):
        await far.settle([second])
    assert (await store.job("j")).stages["b"].total == 6
    for handle in (far, store):
        (answer,) = await handle.settle([second])
        assert answer.accepted
    tally = (await store.job("j")).stages["b"]
    assert (line.cuts, tally.total) == (1, 6)
    assert recount(await store.audit("j")) == []


async def test_a_settlement_that_never_arrived_is_applied_by_the_repeat(
    store: PostgresStore, far: PostgresStore, line: Proxy
) -> None:
    await far.submit(SUBMISSION)
    first, second = await _settlements(far)
    await far.settle([first])
    line.cut_before(b"b-0b-1b-2")
    with pytest.raises(Unknown):
        await far.settle([second])
    assert (await store.job("j")).stages["b"].total == 3
    (answer,) = await far.settle([second])
    assert answer.accepted
    assert ((await store.job("j")).stages["b"].total, line.cuts) == (6, 1)


async def test_a_submit_whose_reply_is_lost_opened_one_job(
    store: PostgresStore, far: PostgresStore, line: Proxy
) -> None:
    await far.submit(Submission("warm", FLOW.name, FLOW.graph, (parcel("a", 1),)))
    line.cut_reply_to(b'"job": "j"')
    with pytest.raises(Unknown):
        await far.submit(SUBMISSION)
    again = await far.submit(SUBMISSION)
    assert (again.job, again.created) == ("j", False)
    assert (await store.job("j")).stages["a"].total == 20


async def test_a_renewal_over_a_cut_line_is_made_again(far: PostgresStore, line: Proxy) -> None:
    await far.submit(SUBMISSION)
    (claim,) = (await far.claim("holder-7", [Want(FLOW.name, "a", 10, 10)], 60.0)).claims
    assert (await asyncio.to_thread(far.renew, "holder-7", [claim.fence], 60.0)).kept == {claim.fence}
    line.cut_reply_to(b"holder-7")
    assert (await asyncio.to_thread(far.renew, "holder-7", [claim.fence], 60.0)).kept == {claim.fence}
    assert line.cuts == 1


async def test_reads_go_on_over_a_fresh_connection(far: PostgresStore, line: Proxy) -> None:
    await far.submit(SUBMISSION)
    line.cut_before(b"REPEATABLE READ")
    assert (await far.job("j")).id == "j"
    assert line.cuts == 1


async def test_a_claim_whose_reply_is_lost_is_granted_again_under_its_fence(
    store: PostgresStore, far: PostgresStore, line: Proxy
) -> None:
    await far.submit(SUBMISSION)
    wants = [Want(FLOW.name, "a", 5, 5)]
    (first,) = (await far.claim("holder-7", wants, 60.0)).claims
    line.cut_reply_to(b"holder-7")
    with pytest.raises(Unknown):
        await far.claim("holder-7", wants, 60.0)
    (again,) = (await far.claim("holder-7", wants, 60.0)).claims
    assert (line.cuts, (await store.job("j")).stages["a"].held) == (1, 10)
    assert list(again.seqs) == [seq + 5 for seq in first.seqs]
    assert (again.lo, again.piece(0), again.alone) == (5, b"a-5", False)
    (third,) = (await far.claim("holder-7", wants, 60.0)).claims
    assert first.fence < again.fence < third.fence
    (answer,) = await far.settle([Settlement(again.fence, 1, done=0b11111)])
    assert answer.accepted
    assert recount(await store.audit("j")) == []


async def test_a_claim_that_never_arrived_is_simply_made(store: PostgresStore, far: PostgresStore, line: Proxy) -> None:
    await far.submit(SUBMISSION)
    wants = [Want(FLOW.name, "a", 5, 5)]
    await far.claim("holder-7", wants, 60.0)
    line.cut_before(b"holder-7")
    with pytest.raises(Unknown):
        await far.claim("holder-7", wants, 60.0)
    assert (await store.job("j")).stages["a"].held == 5
    (claim,) = (await far.claim("holder-7", wants, 60.0)).claims
    assert (claim.lo, claim.count) == (5, 5)
