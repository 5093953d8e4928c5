"""Open transactions: what is done in one and the settlement at its end are one.

An adapter brings `query`, which runs a statement of the application's and gives its rows, and `insert`, which puts an
item into `effect_log` over the connection of an open transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from headrace.core.claims import Claim, Settled, Settlement
from headrace.core.errors import CallerError, Conflict
from headrace.core.tally import JobState
from headrace.ports.transactions import NOT_APPLIED, OpenTransaction, OpenTransactions, Terms
from headrace.testing.contracts.bench import Bench, died, done_bits, flow, parcel, work

PLAIN = flow(work("charge", "tell"), work("tell"))
Query = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
Insert = Callable[[Any, str], Awaitable[None]]


def opener(bench: Bench) -> OpenTransactions:
    return cast(OpenTransactions, bench.store)


async def begin(bench: Bench, *claims: Claim) -> OpenTransaction:
    return await opener(bench).begin(Terms(True, 60.0, tuple(claim.fence for claim in claims)))


def step(claim: Claim, number: int = 1, **fields: Any) -> Settlement:
    """All items of a claim are done, and the claim goes on."""
    return Settlement(claim.fence, number, done_bits(claim, -1), end=False, **fields)


def reasons(answers: Sequence[Settled]) -> list[str]:
    return [answer.reason for answer in answers]


class OpeningContract:
    @pytest.fixture
    async def log(self, query: Query) -> AsyncIterator[Query]:
        await query("CREATE TABLE effect_log (item VARCHAR(20) PRIMARY KEY)")
        yield query
        await query("DROP TABLE effect_log")

    async def test_effects_and_settlement_are_committed_together(
        self, bench: Bench, log: Query, insert: Insert
    ) -> None:
        job = await bench.submit(PLAIN, {"charge": 2})
        claim = await bench.claim("charge")
        transaction = await begin(bench, claim)
        await insert(transaction.connection, "a")
        assert (await _items(log), await bench.counts(job, "charge")) == ([], (0, 2, 0, 0, 0))
        assert reasons(await transaction.settle([step(claim, sends=(parcel("tell", 3),))])) == [""]
        assert (await _items(log), await bench.counts(job, "charge")) == (["a"], (0, 0, 2, 0, 0))
        assert (await bench.tally(job, "tell")).total == 3
        await bench.accept(claim, [], step=2)
        assert await bench.drain(job) is JobState.FINISHED

    async def test_a_stop_found_at_the_end_is_committed_with_the_effects(
        self, bench: Bench, log: Query, insert: Insert
    ) -> None:
        job = await bench.submit(flow(work("charge", stop_early=True)), [parcel("charge", 2), parcel("charge", 3)])
        first, second = [await bench.claim("charge", room=1) for _ in range(2)]
        await bench.accept(first, [], dead=(died(0),))
        transaction = await begin(bench, second)
        await insert(transaction.connection, "a")
        assert reasons(await transaction.settle([Settlement(second.fence, 1, 0b1)])) == [""]
        assert (await _items(log), await bench.counts(job, "charge")) == (["a"], (0, 0, 1, 1, 3))
        assert await bench.state(job) is JobState.FAILED

    async def test_the_claim_can_be_renewed_and_settled_meanwhile(
        self, bench: Bench, log: Query, insert: Insert
    ) -> None:
        """Nothing of the account is locked while a handler runs."""
        await bench.submit(PLAIN, {"charge": 2})
        claim = await bench.claim("charge")
        transaction = await begin(bench, claim)
        await insert(transaction.connection, "a")
        assert bench.renew("worker-1", claim).kept == {claim.fence}
        await bench.accept(claim, [1], end=False)
        assert reasons(await transaction.settle([Settlement(claim.fence, 2, 0b01, end=False)])) == [""]
        assert await _items(log) == ["a"]

    async def test_a_late_holder_leaves_nothing_in_its_transaction(
        self, bench: Bench, log: Query, insert: Insert
    ) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge", hold_s=bench.passage.brief_s)
        transaction = await begin(bench, claim)
        await insert(transaction.connection, "a")
        await bench.past_brief()
        assert reasons(await transaction.settle([step(claim)])) == ["lost"]
        assert await _items(log) == []

    async def test_one_refusal_undoes_the_whole_transaction(self, bench: Bench, log: Query, insert: Insert) -> None:
        job = await bench.submit(PLAIN, {"charge": 2})
        claims = [await bench.claim("charge", room=1) for _ in range(2)]
        transaction = await begin(bench, *claims)
        await insert(transaction.connection, "a")
        answers = await transaction.settle([step(claims[0]), step(claims[1], 7)])
        assert reasons(answers) == ["", "out_of_step"]
        assert (await _items(log), await bench.counts(job, "charge")) == ([], (0, 2, 0, 0, 0))

    @pytest.mark.parametrize("cut", [False, True])
    async def test_what_is_not_settled_leaves_nothing(
        self, bench: Bench, log: Query, insert: Insert, cut: bool
    ) -> None:
        job = await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        transaction = await begin(bench, claim)
        await insert(transaction.connection, "a")
        for _ in range(2):
            if cut:
                transaction.cut()
            else:
                await transaction.rollback()
        # The next one waits for what the first one held, and finds it gone.
        second = await begin(bench, claim)
        await insert(second.connection, "a")
        await second.rollback()
        assert (await _items(log), await bench.counts(job, "charge")) == ([], (0, 1, 0, 0, 0))

    async def test_a_transaction_that_is_over_is_refused_to_its_handler(
        self, bench: Bench, log: Query, insert: Insert
    ) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        transaction = await begin(bench, claim)
        await transaction.settle([step(claim)])
        with pytest.raises(Conflict):
            await insert(transaction.connection, "a")
        assert await _items(log) == []

    async def test_a_failed_statement_cannot_be_settled_over(self, bench: Bench, log: Query, insert: Insert) -> None:
        job = await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        transaction = await begin(bench, claim)
        with pytest.raises(Exception, match="too long"):
            await insert(transaction.connection, "a" * 50)
        with pytest.raises(CallerError):
            await transaction.settle([step(claim)])
        assert await bench.counts(job, "charge") == (0, 1, 0, 0, 0)

    async def test_resolving_tells_and_applies_nothing(self, bench: Bench, log: Query) -> None:
        job = await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        for _ in range(2):
            (answer,) = await opener(bench).resolve([step(claim)])
            assert (answer.accepted, answer.reason) == (False, NOT_APPLIED)
        assert await bench.counts(job, "charge") == (0, 1, 0, 0, 0)
        transaction = await begin(bench, claim)
        await transaction.settle([step(claim)])
        (answer,) = await opener(bench).resolve([step(claim)])
        assert answer.accepted

    async def test_resolving_for_a_lost_claim_says_so(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        lost = await bench.lose("charge")
        assert reasons(await opener(bench).resolve([step(lost)])) == ["lost"]

    async def test_what_is_open_under_a_lost_fence_is_ended(self, bench: Bench, log: Query, insert: Insert) -> None:
        await bench.submit(PLAIN, {"charge": 2})
        lost, held = [await bench.claim("charge", room=1) for _ in range(2)]
        transaction, other = await begin(bench, lost), await begin(bench, held)
        await insert(transaction.connection, "a")
        await insert(other.connection, "b")
        for _ in range(2):
            await opener(bench).revoke([lost.fence])
        takeover = await begin(bench, held)
        await insert(takeover.connection, "a")
        await takeover.rollback()
        assert reasons(await other.settle([step(held)])) == [""]
        transaction.cut()
        assert await _items(log) == ["b"]


async def _items(log: Query) -> list[str]:
    return [row[0] for row in await log("SELECT item FROM effect_log ORDER BY item")]
