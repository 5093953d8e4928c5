"""List handlers in open transactions: one list is one transaction, and what fails in it is found by halving."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from open_bench import CHARGE, EXPIRE, ONCE, PATIENT, TABLE, charges, query, run

import headrace
from headrace import Context, Dead, Engine, Flow, Out


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[Engine]:
    query(postgres_url, TABLE)
    async with headrace.connect(postgres_url) as engine:
        yield engine


async def test_a_list_with_a_lost_claim_runs_again_without_it(engine: Engine, postgres_url: str) -> None:
    flow, calls = Flow("shop"), list[list[int]]()

    @flow.stage(feeds="pay")
    async def find(number: int, out: Out) -> None:
        for item in range(4):
            out.send("pay", item, delay_s=0.05 * (item // 2))

    @flow.stage(transaction="open", batch=4, batch_wait_s=1.0, concurrency=1)
    async def pay(numbers: list[int], context: Context) -> None:
        calls.append(numbers)
        for number in numbers:
            await context.connection.execute(CHARGE, (number,))
        if len(calls) == 1:
            query(postgres_url, EXPIRE, context.of(0).fence)

    view = await run(engine, flow, 1, options=PATIENT)
    assert (view.stages["pay"].done, charges(postgres_url)) == (4, [0, 1, 2, 3])
    assert calls == [[0, 1, 2, 3], [2, 3], [0], [1]]


async def test_a_list_that_fails_is_rolled_back_and_halved(engine: Engine, postgres_url: str) -> None:
    flow, sizes = Flow("shop"), list[int]()

    @flow.stage(transaction="open", batch=8, batch_wait_s=0.3, retry=ONCE, tolerate=1, feeds="tell", concurrency=1)
    async def pay(numbers: list[int], context: Context, out: Out) -> None:
        sizes.append(len(numbers))
        for number in numbers:
            await context.connection.execute(CHARGE, (number,))
            out.send("tell", number, parent=numbers.index(number))
        if 5 in numbers:
            raise ValueError("not this one")

    @flow.stage
    async def tell(number: int) -> None: ...

    view = await run(engine, flow, *range(8))
    assert charges(postgres_url) == [0, 1, 2, 3, 4, 6, 7]
    assert (view.stages["pay"].done, view.stages["pay"].dead, view.stages["tell"].done) == (7, 1, 7)
    assert sorted(sizes) == [1, 1, 2, 2, 4, 4, 8]


async def test_items_of_a_list_that_are_not_done_leave_nothing(engine: Engine, postgres_url: str) -> None:
    """Their changes cannot be told from the others', so the others are made again without them."""
    flow, sizes = Flow("shop"), list[int]()

    @flow.stage(transaction="open", batch=6, batch_wait_s=0.3, tolerate=1, concurrency=1)
    async def pay(numbers: list[int], context: Context) -> list[Any]:
        sizes.append(len(numbers))
        for number in numbers:
            await context.connection.execute(CHARGE, (number,))
        return [Dead("hopeless") if number == 2 else None for number in numbers]

    view = await run(engine, flow, *range(6))
    assert charges(postgres_url) == [0, 1, 3, 4, 5]
    assert (view.stages["pay"].done, view.stages["pay"].dead, sizes) == (5, 1, [6, 5])


async def test_a_list_whose_handler_ends_the_transaction_is_not_tried_in_halves(engine: Engine) -> None:
    flow, calls = Flow("shop"), list[int]()

    @flow.stage(transaction="open", batch=4, batch_wait_s=0.3)
    def pay(numbers: list[int], context: Context) -> None:
        calls.append(len(numbers))
        context.connection.execute("COMMIT")

    view = await run(engine, flow, *range(4))
    assert (view.stages["pay"].dead, sum(calls)) == (4, 4)
