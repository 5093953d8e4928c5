"""Effects of a running worker on PostgreSQL: conditional in a sink, transactional in the store's own database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

import headrace
from headrace import Context, Engine, Flow, JobState, RetryPolicy, WorkerOptions
from headrace.adapters.postgres.sink import PostgresSink
from headrace.core.errors import ClaimLost
from headrace.ports.sink import Change, Effect
from headrace.runtime.effects import every_effect
from headrace.runtime.worker import Worker

TABLES = "CREATE TABLE IF NOT EXISTS charge (item integer NOT NULL CHECK (item <> 13))"
CHARGE = "INSERT INTO charge (item) VALUES (?)"
SHORT = WorkerOptions(hold_s=1.0, poll_s=0.05, partial_s=0.05, grace_s=0.1)
WAIT_S = 30.0


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[Engine]:
    async with headrace.connect(postgres_url) as engine:
        yield engine


@pytest.fixture
async def sink(postgres_url: str) -> AsyncIterator[PostgresSink]:
    sink = PostgresSink(postgres_url, TABLES)
    await sink.effects("", "", 1)
    yield sink
    await sink.close()


def charges(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT item FROM charge ORDER BY item")]


async def test_an_item_that_is_retried_after_its_effect_has_it_once(
    engine: Engine, sink: PostgresSink, postgres_url: str
) -> None:
    flow, calls = Flow("shop"), Counter[int]()

    @flow.stage(sink=sink, retry=RetryPolicy(first_s=0))
    async def pay(number: int, context: Context) -> None:
        await sink.once(context.effect(), Change(CHARGE, (number,)))
        calls[number] += 1
        if calls[number] < 2:
            raise RuntimeError("after the effect")

    async with engine.worker(flow, options=SHORT):
        view = await engine.wait(await engine.submit_many(flow, range(10)), WAIT_S)
    assert view.state is JobState.FINISHED
    assert charges(postgres_url) == list(range(10))
    lines = [line async for line in every_effect(sink, engine.store, f"{view.id}/")]
    assert [(line.state, line.effect.refused) for line in lines] == [("done", 1)] * 10


async def test_a_frozen_holder_cannot_write_once_its_item_was_taken_over(
    engine: Engine, sink: PostgresSink, postgres_url: str
) -> None:
    flow, started, late = Flow("shop"), asyncio.Event(), list[Effect]()

    @flow.stage(sink=sink)
    async def pay(number: int, context: Context) -> None:
        if not late:
            late.append(context.effect())
            started.set()
            await asyncio.Event().wait()
        with pytest.raises(ClaimLost):
            await sink.once(late[0], Change(CHARGE, (-1,)))
        await sink.once(context.effect(), Change(CHARGE, (number,)))

    job = await engine.submit(flow, 7)
    frozen = asyncio.ensure_future(Worker(engine.store, [flow], options=SHORT).run())
    await started.wait()
    frozen.cancel()
    await asyncio.wait([frozen])
    async with engine.worker(flow, options=SHORT):
        assert (await engine.wait(job, WAIT_S)).state is JobState.FINISHED
    assert charges(postgres_url) == [7]


async def test_recorded_statements_are_there_exactly_for_done_items(
    engine: Engine, sink: PostgresSink, postgres_url: str
) -> None:
    flow, calls = Flow("shop"), Counter[int]()

    @flow.stage(transaction="recorded", retry=RetryPolicy(attempts_max=2, first_s=0), tolerate=1)
    async def pay(number: int, context: Context) -> None:
        calls[number] += 1
        context.sql(CHARGE, (number,))
        if calls[number] == 1 and number == 3:
            raise RuntimeError("after recording")

    async with engine.worker(flow, options=SHORT):
        view = await engine.wait(await engine.submit_many(flow, range(20)), WAIT_S)
    assert charges(postgres_url) == [number for number in range(20) if number != 13]
    assert (view.stages["pay"].done, view.stages["pay"].dead) == (19, 1)
    assert (calls[13], calls[3], calls[5]) == (2, 2, 1)
    assert await engine.verify(view.id) == []
