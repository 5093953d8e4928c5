"""Transactional stages on PostgreSQL: recorded statements on tables in the store's own database."""

from __future__ import annotations

import pytest

from headrace.core.claims import Settlement, Statement
from headrace.testing.contracts import Bench, TransactionContract
from headrace.testing.contracts.bench import ALL
from headrace.testing.contracts.recorded_statements import INSERT, PLAIN, Query


class TestTransactionalPostgres(TransactionContract):
    @pytest.mark.parametrize("name", ["headrace.stage", '"headrace".stage', "HEADRACE . stage"])
    async def test_a_statement_cannot_touch_the_account(self, bench: Bench, name: str) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        answer = await bench.settle(claim, ALL, statements=(Statement(0, f"UPDATE {name} SET done = 5"),))
        assert "belongs to headrace" in answer.faults[0][1]

    async def test_a_statement_that_the_server_gives_up_is_a_fault_of_its_item(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 2})
        claim = await bench.claim("charge")
        short = "SELECT set_config('statement_timeout', '200', true)"
        slow = (Statement(0, short), Statement(0, "SELECT pg_sleep(20)"))
        answer = await bench.settle(claim, ALL, statements=(*slow, Statement(1, INSERT, ("item-1", 1))))
        assert [index for index, _ in answer.faults] == [0]
        assert "QueryCanceled" in answer.faults[0][1]

    async def test_a_refused_settlement_spoils_no_other_of_the_same_call(self, bench: Bench, log: Query) -> None:
        job = await bench.submit(PLAIN, {"charge": 3})
        claims = [await bench.claim("charge", room=1) for _ in range(3)]
        values = [1, 500, 2]
        answers = await bench.store.settle(
            [
                Settlement(claim.fence, 1, done=1, statements=(Statement(0, INSERT, (f"item-{value}", value)),))
                for claim, value in zip(claims, values, strict=True)
            ]
        )
        await bench.look()
        assert [answer.reason for answer in answers] == ["", "statements", ""]
        assert await bench.counts(job, "charge") == (0, 1, 2, 0, 0)
        assert [row[0] for row in await log("SELECT item FROM effect_log ORDER BY item")] == ["item-1", "item-2"]

    async def test_a_holder_frozen_inside_its_settlement_loses_the_transaction(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        told = "INSERT INTO effect_log SELECT current_setting('idle_in_transaction_session_timeout'), 1"
        await bench.accept(claim, ALL, statements=(Statement(0, told),))
        assert await log("SELECT item FROM effect_log") == [("2s",)]
        (row,) = await log("SELECT current_setting('idle_in_transaction_session_timeout')")
        assert row == ("0",)
