"""A sink that does not answer: items wait, no attempt is spent, nobody hammers, and the rest goes on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from runtime_bench import QUICK, Bench
from waiting import eventually

from headrace.adapters.sqlite.sink import SqliteSink
from headrace.core.errors import Busy, HeadraceError, StoreFull, Unknown, Unreachable
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.ports.sink import Applied, Change, Effect
from headrace.runtime.context import Context
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

ONCE = RetryPolicy(attempts_max=1)
SHORT = WorkerOptions(hold_s=0.4, poll_s=0.05, partial_s=0.05, grace_s=0.1)
TABLES = "CREATE TABLE IF NOT EXISTS charge (item INTEGER NOT NULL)"
CHARGE = "INSERT INTO charge (item) VALUES (?)"


class Frail(SqliteSink):
    """A sink that is down while `is_down` says so."""

    def __init__(self, path: Path, error: HeadraceError | None = None) -> None:
        super().__init__(str(path / "sink.db"), TABLES)
        self.error = error or Unreachable("the sink at postgresql://me:hunter2@host/db does not answer")
        self.is_down: Callable[[], bool] = lambda: False
        self.refusals = 0

    async def once(self, effect: Effect, change: Change) -> Applied:
        self._answer()
        return await super().once(effect, change)

    async def revoke(self, fences: Sequence[int]) -> None:
        self._answer()
        await super().revoke(fences)

    def _answer(self) -> None:
        if self.is_down():
            self.refusals += 1
            raise self.error

    def charges(self) -> list[int]:
        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return sorted(row[0] for row in connection.execute("SELECT item FROM charge"))
        finally:
            connection.close()


@pytest.fixture
async def sink(tmp_path: Path) -> Any:
    sink = Frail(tmp_path)
    yield sink
    await sink.close()


def paying(sink: SqliteSink, **options: Any) -> Flow:
    flow = Flow("shop")

    @flow.stage(sink=sink, **{"retry": ONCE, "concurrency": 20, **options})
    async def pay(number: int, context: Context) -> None:
        await sink.once(context.effect(), Change(CHARGE, (number,)))

    return flow


@pytest.mark.parametrize("error", [Unreachable("gone"), StoreFull("no room"), Busy("occupied"), Unknown("lost")])
async def test_an_outage_spends_no_attempt(bench: Bench, tmp_path: Path, error: HeadraceError) -> None:
    sink = Frail(tmp_path, error)
    sink.is_down = lambda: sink.refusals < 4
    view = await bench.run(paying(sink), *range(100))
    assert (view.state, view.stages["pay"].done, sink.refusals) == (JobState.FINISHED, 100, 4)
    assert sink.charges() == list(range(100))
    await sink.close()


async def test_a_sink_that_is_down_is_asked_now_and_then(bench: Bench, sink: Frail) -> None:
    """Whatever is in flight asks once; then one item asks after each pause: at least 0.05, 0.1, 0.2, 0.4 and 0.8 s."""
    began = list[float]()

    def is_down() -> bool:
        began.append(time.monotonic())
        return began[-1] - began[0] < 1.0

    sink.is_down = is_down
    view = await bench.run(paying(sink), *range(1_000))
    assert view.stages["pay"].done == 1_000
    assert sink.refusals <= 20 + 5


async def test_a_list_waits_as_a_whole(bench: Bench, sink: Frail) -> None:
    flow, calls = Flow("shop"), list[int]()

    @flow.stage(sink=sink, retry=ONCE, batch=10, concurrency=1)
    async def pay(numbers: list[int], context: Context) -> None:
        calls.append(len(numbers))
        for index, number in enumerate(numbers):
            await sink.once(context.of(index).effect(), Change(CHARGE, (number,)))

    sink.is_down = lambda: sink.refusals < 2
    view = await bench.run(flow, *range(10))
    assert view.stages["pay"].done == 10
    assert calls[:2] == [10, 1], "no halves: the whole list waited, and one item was tried"
    assert sink.charges() == list(range(10))


async def test_a_group_of_outages_is_one(bench: Bench, sink: Frail) -> None:
    flow = Flow("shop")

    @flow.stage(sink=sink, retry=ONCE)
    async def pay(number: int, context: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for name in ("a", "b"):
                group.create_task(sink.once(context.effect(name), Change(CHARGE, (number,))))

    sink.is_down = lambda: sink.refusals < 2
    assert (await bench.run(flow, 1)).state is JobState.FINISHED


async def test_what_the_handler_makes_of_an_outage_is_its_own(bench: Bench, sink: Frail) -> None:
    flow = Flow("shop")

    @flow.stage(sink=sink, retry=ONCE)
    async def pay(number: int, context: Context) -> None:
        try:
            await sink.once(context.effect(), Change(CHARGE, (number,)))
        except Unreachable as error:
            raise ValueError("I do not wait") from error

    sink.is_down = lambda: True
    job = await bench.submit(flow, 1)
    async with bench.worker(flow):
        await bench.ended(job)
    assert [letter.reason for letter in await bench.dead(job)] == ["ValueError"]


@pytest.mark.parametrize("named", [Unreachable, HeadraceError])
async def test_a_policy_that_names_the_error_decides(bench: Bench, sink: Frail, named: type[HeadraceError]) -> None:
    sink.is_down = lambda: True
    flow = paying(sink, retry=RetryPolicy(attempts_max=9, per={named: None, Exception: ONCE}))
    job = await bench.submit(flow, 1)
    async with bench.worker(flow):
        await bench.ended(job)
    assert [letter.rule for letter in await bench.dead(job)] == ["never_retried"]


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("headrace")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def test_an_outage_is_logged_once_per_pause_and_is_no_failed_attempt(
    bench: Bench, sink: Frail, heard: Heard
) -> None:
    calls = list[Any]()
    sink.is_down = lambda: sink.refusals < 3
    options = replace(QUICK, on_error=lambda error, attempt: calls.append(error))
    await bench.run(paying(sink), *range(40), options=options)
    told = [line for line in heard.lines if "sink." in line]
    assert 2 <= len([line for line in told if line.startswith("WARNING sink.failing")]) <= 4
    assert told[-1].startswith("WARNING sink.recovered")
    assert "stage=pay error=Unreachable detail=the sink at postgresql://me:***@host/db" in told[0]
    assert calls == []
    assert not [line for line in heard.lines if "item." in line]


async def test_other_stages_go_on_meanwhile(bench: Bench, sink: Frail) -> None:
    shop, other = paying(sink), Flow("other")
    down = asyncio.Event()

    @other.stage
    async def read(number: int) -> None: ...

    sink.is_down = lambda: not down.is_set()
    waiting = await bench.submit(shop, *range(50))
    async with bench.worker(shop, other):
        await eventually(lambda: _value(sink.refusals >= 2), "the outage has begun")
        assert (await bench.ended(await bench.submit(other, *range(500)))).state is JobState.FINISHED
        assert (await bench.store.job(waiting)).stages["pay"].done == 0
        down.set()
        assert (await bench.ended(waiting)).stages["pay"].done == 50


async def _value(value: bool) -> bool:
    return value


async def test_a_revocation_waits_for_its_sink_and_stops_nobody_else(bench: Bench, sink: Frail) -> None:
    shop, other, runs, started = Flow("shop"), Flow("other"), Counter[int](), asyncio.Event()

    @shop.stage(sink=sink, retry=ONCE)
    async def pay(number: int, context: Context) -> None:
        runs[number] += 1
        started.set()
        if runs[number] == 1:
            await asyncio.Event().wait()
        await sink.once(context.effect(), Change(CHARGE, (number,)))

    @other.stage
    async def read(number: int) -> None: ...

    job = await bench.submit(shop, 7)
    frozen = asyncio.ensure_future(Worker(bench.store, [shop], options=SHORT).run())
    await started.wait()
    frozen.cancel()
    await asyncio.wait([frozen])
    back = asyncio.Event()
    sink.is_down = lambda: not back.is_set()
    async with bench.worker(shop, other, options=SHORT):
        await eventually(lambda: _value(sink.refusals >= 2), "the revocation is tried")
        assert (await bench.ended(await bench.submit(other, *range(100)))).state is JobState.FINISHED
        assert runs[7] == 1, "nothing runs before the sink knows"
        back.set()
        assert (await bench.ended(job)).state is JobState.FINISHED
    assert (runs[7], sink.charges()) == (2, [7])


async def test_a_full_sink_is_waited_out(bench: Bench, tmp_path: Path) -> None:
    """SQLite itself says that there is no room, until somebody makes some."""

    class Narrow(SqliteSink):
        connections: list[apsw.Connection]

        def _connect(self, path: str, create: bool) -> apsw.Connection:
            connection = super()._connect(path, create)
            connection.pragma("max_page_count", 8)
            self.connections.append(connection)
            return connection

    sink = Narrow(str(tmp_path / "narrow.db"), "CREATE TABLE IF NOT EXISTS charge (item BLOB)")
    sink.connections, full = [], list[StoreFull]()
    flow = Flow("shop")

    @flow.stage(sink=sink, retry=ONCE)
    async def pay(number: int, context: Context) -> None:
        try:
            await sink.once(context.effect(), Change("INSERT INTO charge VALUES (zeroblob(20000))"))
        except StoreFull as error:
            full.append(error)
            raise

    job = await bench.submit(flow, 1, 2, 3)
    async with bench.worker(flow):
        await eventually(lambda: _value(len(full) >= 4), "there is no room, again and again")
        for connection in sink.connections:
            connection.pragma("max_page_count", 10_000)
        assert (await bench.ended(job)).stages["pay"].done == 3
    await sink.close()
