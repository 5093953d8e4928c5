"""Recorded statements: effect and account in one transaction, in the store's own database.

An adapter brings `query`, which runs a statement of the application's and gives its rows. The
statements are the same for every store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from headrace.core.claims import Again, Loss, Statement
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import ALL, Bench, flow, parcel, work

PLAIN = flow(work("charge"))
INSERT = "INSERT INTO effect_log (item, value) VALUES (?, ?)"
Query = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]


class RecordingContract:
    @pytest.fixture
    async def log(self, query: Query) -> AsyncIterator[Query]:
        await query(
            "CREATE TABLE effect_log (item VARCHAR(20) PRIMARY KEY, value INTEGER NOT NULL CHECK (value < 100))"
        )
        yield query
        await query("DROP TABLE effect_log")

    async def test_statements_are_applied_with_the_settlement(self, bench: Bench, log: Query) -> None:
        job = await bench.submit(PLAIN, {"charge": 2})
        claim = await bench.claim("charge")
        statements = tuple(Statement(index, INSERT, (f"item-{index}", index)) for index in range(2))
        await bench.accept(claim, ALL, statements=statements)
        assert await _rows(log) == [("item-0", 0), ("item-1", 1)]
        assert await bench.state(job) is JobState.FINISHED

    @pytest.mark.parametrize(
        ("sql", "values"),
        [
            (INSERT, ("100% '?'", 7)),
            (
                "INSERT INTO effect_log (item, value) VALUES (:item, :value)",
                {"item": "100% '?'", "value": 7, "x": 1},
            ),
            ("INSERT INTO effect_log (item, value) VALUES ('100% ''?''', /* 5% of :item? */ :value)", {"value": 7}),
            ("INSERT INTO effect_log (item, value) SELECT '100% ''?''', 17 % ? -- or :what?", (10,)),
            ("INSERT INTO effect_log (item, value) VALUES ('100% ''?''', 7)", ()),
        ],
    )
    async def test_values_are_written_alike_for_every_store(
        self, bench: Bench, log: Query, sql: str, values: Any
    ) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        await bench.accept(claim, ALL, statements=(Statement(0, sql, values),))
        assert await _rows(log) == [("100% '?'", 7)]

    @pytest.mark.parametrize(
        ("sql", "values"),
        [
            (INSERT, ("item-0",)),
            (INSERT, ("item-0", 1, 2)),
            (INSERT, {"item": "item-0"}),
            ("INSERT INTO effect_log (item, value) VALUES (:item, :value)", {"item": "item-0"}),
            ("INSERT INTO effect_log (item, value) VALUES (%s, %s)", ("item-0", 1)),
        ],
    )
    async def test_values_that_do_not_belong_to_a_statement_fail_its_item(
        self, bench: Bench, log: Query, sql: str, values: Any
    ) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        answer = await bench.settle(claim, ALL, statements=(Statement(0, sql, values),))
        assert (answer.reason, [index for index, _ in answer.faults]) == ("statements", [0])
        assert await _rows(log) == []

    async def test_an_item_may_make_a_table(self, bench: Bench, query: Query) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        made = Statement(0, "CREATE TABLE IF NOT EXISTS made_by_item (item TEXT)")
        await bench.accept(claim, ALL, statements=(made, Statement(0, "INSERT INTO made_by_item VALUES (?)", ("a",))))
        assert [tuple(row) for row in await query("SELECT item FROM made_by_item")] == [("a",)]
        await query("DROP TABLE made_by_item")

    async def test_a_repeated_step_applies_its_statements_once(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        claim = await bench.claim("charge")
        statements = (Statement(0, INSERT, ("item-0", 1)),)
        await bench.accept(claim, ALL, statements=statements)
        await bench.accept(claim, ALL, statements=statements, step=1)
        assert await _rows(log) == [("item-0", 1)]

    async def test_statements_are_applied_once_with_the_stop_that_they_bring_about(
        self, bench: Bench, log: Query
    ) -> None:
        job = await bench.submit(flow(work("charge", stop_early=True)), [parcel("charge", 2), parcel("charge", 3)])
        claim = await bench.claim("charge", room=2)
        statements = (Statement(0, INSERT, ("item-0", 1)),)
        await bench.accept(claim, [0], dead=(Loss(1, "broken"),), statements=statements)
        assert await _rows(log) == [("item-0", 1)]
        assert await bench.counts(job, "charge") == (0, 0, 1, 1, 3)

    async def test_a_late_holder_leaves_nothing(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        late = await bench.lose("charge")
        answer = await bench.settle(late, ALL, statements=(Statement(0, INSERT, ("item-0", 1)),))
        assert (answer.accepted, answer.reason) == (False, "lost")
        assert await _rows(log) == []

    async def test_a_bad_item_is_named_and_nothing_is_applied(self, bench: Bench, log: Query) -> None:
        job = await bench.submit(PLAIN, {"charge": 8})
        claim = await bench.claim("charge")
        values = [0, 1, 2, 500, 4, 5, 999, 7]
        statements = tuple(Statement(index, INSERT, (f"item-{index}", value)) for index, value in enumerate(values))
        answer = await bench.settle(claim, ALL, statements=statements)
        assert (answer.accepted, answer.reason) == (False, "statements")
        assert [index for index, _ in answer.faults] == [3, 6]
        assert all(error for _, error in answer.faults)
        assert await _rows(log) == []
        assert await bench.counts(job, "charge") == (0, 8, 0, 0, 0)

    async def test_the_same_step_without_the_bad_items_is_accepted(self, bench: Bench, log: Query) -> None:
        job = await bench.submit(PLAIN, {"charge": 3})
        claim = await bench.claim("charge")
        good = tuple(Statement(index, INSERT, (f"item-{index}", index)) for index in (0, 1))
        answer = await bench.settle(claim, ALL, statements=(*good, Statement(2, INSERT, ("item-2", 500))))
        assert not answer.accepted
        await bench.accept(claim, [0, 1], dead=(Loss(2, "value"),), statements=good)
        assert await _rows(log) == [("item-0", 0), ("item-1", 1)]
        assert await bench.counts(job, "charge") == (0, 0, 2, 1, 0)

    async def test_two_items_that_exclude_each_other_leave_the_first(self, bench: Bench, log: Query) -> None:
        await bench.submit(PLAIN, {"charge": 2})
        claim = await bench.claim("charge")
        statements = tuple(Statement(index, INSERT, ("the same", index)) for index in range(2))
        answer = await bench.settle(claim, ALL, statements=statements)
        assert [index for index, _ in answer.faults] == [1]
        await bench.accept(claim, [0], again=(Again(1, 0.0, 1),), statements=statements[:1])
        assert await _rows(log) == [("the same", 0)]

    @pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK", "SAVEPOINT mine", "DELETE FROM effect_log; COMMIT"])
    async def test_a_statement_cannot_end_the_settlement(self, bench: Bench, log: Query, verb: str) -> None:
        job = await bench.submit(PLAIN, {"charge": 2})
        claim = await bench.claim("charge")
        statements = (Statement(0, INSERT, ("item-0", 0)), Statement(1, verb))
        answer = await bench.settle(claim, ALL, statements=statements)
        assert [index for index, _ in answer.faults] == [1]
        assert await _rows(log) == []
        assert await bench.counts(job, "charge") == (0, 2, 0, 0, 0)

    async def test_a_taken_over_item_names_the_fences_it_lost(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"charge": 1})
        first = await bench.lose("charge")
        second = await bench.lose("charge")
        third = await bench.claim("charge")
        assert first.revokes == ()
        assert second.revokes == (first.fence,)
        assert third.revokes == (first.fence, second.fence)

    async def test_an_item_given_back_still_names_the_fences_it_lost(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"charge": 2})
        lost = await bench.lose("charge")
        held = await bench.claim("charge")
        await bench.accept(held, [0])
        again = await bench.claim("charge")
        assert again.revokes == (lost.fence,)


async def _rows(log: Query) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await log("SELECT item, value FROM effect_log ORDER BY item")]
