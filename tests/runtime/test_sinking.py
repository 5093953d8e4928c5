"""Sinks in a running worker: an effect once per item, and nothing from a holder whose claim was lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from runtime_bench import Bench

from headrace.adapters.sqlite.sink import SqliteSink
from headrace.core.errors import ClaimLost, InvalidFlow, Unreachable
from headrace.core.outcomes import Retry
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.ports.sink import Change, Effect
from headrace.runtime.context import Context
from headrace.runtime.effects import every_effect
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

SHORT = WorkerOptions(hold_s=0.4, poll_s=0.05, partial_s=0.05, grace_s=0.1)
SOON = RetryPolicy(attempts_max=5, first_s=0)
TABLES = "CREATE TABLE IF NOT EXISTS charge (item INTEGER NOT NULL)"
CHARGE = "INSERT INTO charge (item) VALUES (?)"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sink.db")


@pytest.fixture
async def sink(path: str) -> AsyncIterator[SqliteSink]:
    sink = SqliteSink(path, TABLES)
    yield sink
    await sink.close()


def charges(path: str) -> list[int]:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return sorted(row[0] for row in connection.execute("SELECT item FROM charge"))
    finally:
        connection.close()


async def test_an_item_that_is_retried_after_its_effect_has_it_once(bench: Bench, sink: SqliteSink, path: str) -> None:
    flow, calls = Flow("shop"), Counter[int]()

    @flow.stage(sink=sink, retry=SOON)
    async def pay(number: int, context: Context) -> None:
        await sink.once(context.effect(), Change(CHARGE, (number,)))
        calls[number] += 1
        if calls[number] < 3:
            raise Retry("after the effect")

    view = await bench.run(flow, *range(20))
    assert view.state is JobState.FINISHED
    assert charges(path) == list(range(20))
    lines = [line async for line in every_effect(sink, bench.store, f"{view.id}/")]
    assert {(line.state, line.effect.refused) for line in lines} == {("done", 2)}


async def test_a_list_handler_has_an_effect_per_item(bench: Bench, sink: SqliteSink, path: str) -> None:
    flow = Flow("shop")

    @flow.stage(sink=[sink], batch=5)
    async def pay(numbers: list[int], context: Context) -> None:
        for at, number in enumerate(numbers):
            await sink.once(context.of(at).effect("charge"), Change(CHARGE, (number,)))

    view = await bench.run(flow, *range(12))
    assert charges(path) == list(range(12))
    assert len(await sink.effects(f"{view.id}/pay/", "", 50)) == 12


@pytest.mark.parametrize("as_list", [False, True])
async def test_a_frozen_holder_cannot_write_once_its_item_was_taken_over(
    bench: Bench, sink: SqliteSink, path: str, as_list: bool
) -> None:
    """The first holder is cut off before its write; it comes back after the takeover and is refused."""
    flow, started, late = Flow("shop"), asyncio.Event(), list[Effect]()

    async def work(number: int, effect: Effect) -> None:
        if not late:
            late.append(effect)
            started.set()
            await asyncio.Event().wait()
        with pytest.raises(ClaimLost):
            await sink.once(late[0], Change(CHARGE, (-1,)))
        await sink.once(effect, Change(CHARGE, (number,)))

    if as_list:

        @flow.stage(sink=sink, name="pay", batch=2)
        async def many(numbers: list[int], context: Context) -> None:
            for at, number in enumerate(numbers):
                await work(number, context.of(at).effect())

    else:

        @flow.stage(sink=sink, name="pay")
        async def single(number: int, context: Context) -> None:
            await work(number, context.effect())

    job = await bench.submit(flow, 7)
    frozen = asyncio.ensure_future(Worker(bench.store, [flow], options=SHORT).run())
    await started.wait()
    frozen.cancel()
    await asyncio.wait([frozen])
    async with bench.worker(flow, options=SHORT):
        assert (await bench.ended(job)).state is JobState.FINISHED
    assert charges(path) == [7]


async def test_a_sink_that_no_stage_declares_cannot_stop_a_frozen_holder(
    bench: Bench, sink: SqliteSink, path: str
) -> None:
    """The twin of the test above: the declaration is what makes a takeover tell the sink."""
    flow, started, late = Flow("shop"), asyncio.Event(), list[Effect]()

    @flow.stage
    async def pay(number: int, context: Context) -> None:
        if not late:
            late.append(context.effect())
            started.set()
            await asyncio.Event().wait()
        await sink.once(late[0], Change(CHARGE, (-1,)))
        await sink.once(context.effect(), Change(CHARGE, (number,)))

    job = await bench.submit(flow, 7)
    frozen = asyncio.ensure_future(Worker(bench.store, [flow], options=SHORT).run())
    await started.wait()
    frozen.cancel()
    await asyncio.wait([frozen])
    async with bench.worker(flow, options=SHORT):
        await bench.ended(job)
    assert charges(path) == [-1], "the late write was accepted, but there is still one effect for the key"


async def test_a_claim_that_a_sink_says_is_lost_spends_no_attempt(bench: Bench, sink: SqliteSink, path: str) -> None:
    flow, attempts = Flow("shop"), list[int]()

    @flow.stage(sink=sink, retry=RetryPolicy(attempts_max=1))
    async def pay(number: int, context: Context) -> None:
        attempts.append(context.attempt)
        if len(attempts) == 1:
            await sink.revoke([context.fence])
        await sink.once(context.effect(), Change(CHARGE, (number,)))

    view = await bench.run(flow, 7)
    assert view.state is JobState.FINISHED
    assert attempts == [1, 1]
    assert charges(path) == [7]


async def test_a_fence_that_is_not_the_holders_own_is_an_ordinary_failure(bench: Bench, sink: SqliteSink) -> None:
    flow = Flow("shop")
    await sink.revoke([1])

    @flow.stage(sink=sink, retry=RetryPolicy(attempts_max=1))
    async def pay(number: int, context: Context) -> None:
        await sink.once(Effect(context.effect_key, 1), Change(CHARGE, (number,)))

    view = await bench.run(flow, 7)
    assert view.state is JobState.FAILED
    assert [letter.reason for letter in await bench.dead(view.id)] == ["ClaimLost"]


class Unwell(SqliteSink):
    """A sink that cannot be told of lost claims for a while."""

    failures = 3

    async def revoke(self, fences: Sequence[int]) -> None:
        if self.failures:
            self.failures -= 1
            raise Unreachable("the sink does not answer")
        await super().revoke(fences)


async def test_a_suspect_does_not_run_before_its_sink_knows(bench: Bench, path: str) -> None:
    sink, flow, started, runs = Unwell(path, TABLES), Flow("shop"), asyncio.Event(), list[tuple[int, int]]()

    @flow.stage(sink=sink)
    async def pay(number: int, context: Context) -> None:
        runs.append((context.fence, sink.failures))
        started.set()
        if len(runs) == 1:
            await asyncio.Event().wait()
        await sink.once(context.effect(), Change(CHARGE, (number,)))

    job = await bench.submit(flow, 7)
    frozen = asyncio.ensure_future(Worker(bench.store, [flow], options=SHORT).run())
    await started.wait()
    frozen.cancel()
    await asyncio.wait([frozen])
    async with bench.worker(flow, options=SHORT):
        await bench.ended(job)
    assert [failures for _, failures in runs] == [3, 0]
    with pytest.raises(ClaimLost):
        await sink.once(Effect("late", runs[0][0]), Change(CHARGE, (-1,)))
    await sink.close()


@pytest.mark.parametrize("wrong", ["sqlite:///sink.db", 5, [None]])
def test_what_is_not_a_sink_is_refused(wrong: Any) -> None:
    flow = Flow("shop")
    with pytest.raises(InvalidFlow, match="sink"):

        @flow.stage(sink=wrong)
        async def pay(number: int) -> None: ...
