"""Open transactions on bad days: lines that break around COMMIT, and workers that die in the middle.

Each guard has a twin without it that one of these tests notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import open_flows
import psycopg
import pytest
from waiting import eventually

import headrace
from headrace import Context, Engine, Flow, JobState, Out, RetryPolicy, WorkerOptions
from headrace.adapters.postgres.open_transactions import PostgresTransaction
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Settled, Settlement
from headrace.core.jobs import JobView
from headrace.core.recount import recount
from headrace.ports.transactions import Terms
from headrace.runtime.worker import Worker
from headrace.testing.rig.children import FROZEN, state_of
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.workers import WorkerProcesses, copy_flow, flow_command
from headrace.testing.twins import turns_red

TABLES = (
    "CREATE TABLE charge (item integer NOT NULL); CREATE TABLE attempt (item integer NOT NULL);"
    "CREATE TABLE once (item integer PRIMARY KEY)"
)
CHARGE = "INSERT INTO charge (item) VALUES (%s)"
PATIENT = WorkerOptions(hold_s=30.0, poll_s=0.05, partial_s=0.05, grace_s=0.2)
WAIT_S = 30.0
# A worker commits on several connections, and a cut takes the first that comes.
TRIES_MAX = 5
# No AssertionError, which is what a twin must lead to.
STRUCK_OTHERS = "whenever a line was cut it was that of another transaction of the worker"


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[Engine]:
    """Over a line that nobody cuts."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(TABLES.encode())
    async with headrace.connect(postgres_url) as engine:
        yield engine


@pytest.fixture
async def far(line: Proxy, engine: Engine) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(line.url)
    yield store
    await store.close()


def charges(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [int(item) for (item,) in connection.execute("SELECT item FROM charge ORDER BY item")]


async def work(engine: Engine, store: PostgresStore, flow: Flow, count: int = 1) -> Any:
    """One job over a store whose line may be cut."""
    job = await engine.submit_many(flow, range(1, count + 1))
    worker = Worker(store, [flow], options=PATIENT)
    running = asyncio.ensure_future(worker.run())
    try:
        view = await engine.wait(job, WAIT_S)
    finally:
        worker.stop_now()
        await asyncio.wait_for(running, WAIT_S)
    assert recount(await engine.store.audit(job)) == []
    return view


def shop(calls: list[int], cut: Any) -> Flow:
    """The first call of its handler prepares a cut."""
    flow = Flow("shop")

    @flow.stage(transaction="open", feeds="tell")
    async def pay(number: int, context: Context, out: Out) -> None:
        calls.append(number)
        await context.connection.execute(CHARGE, (number,))
        out.send("tell", number)
        if len(calls) == 1:
            cut()

    @flow.stage
    async def tell(number: int) -> None: ...

    return flow


class TestLinesThatBreak:
    async def test_a_commit_whose_reply_is_lost_was_made(
        self, engine: Engine, far: PostgresStore, line: Proxy, postgres_url: str
    ) -> None:
        calls: list[int] = []
        view = await work(engine, far, shop(calls, lambda: line.cut_reply_to(b"COMMIT")))
        assert (line.cuts, calls, charges(postgres_url)) == (1, [1], [1])
        assert (view.stages["pay"].done, view.stages["tell"].done) == (1, 1)

    async def test_a_commit_that_never_arrived_is_run_again_with_its_handler(
        self, engine: Engine, far: PostgresStore, line: Proxy, postgres_url: str
    ) -> None:
        for tries in range(1, TRIES_MAX + 1):
            calls: list[int] = []
            view = await work(engine, far, shop(calls, lambda: line.cut_before(b"COMMIT")))
            assert (line.cuts, charges(postgres_url)) == (tries, [1] * tries)
            assert (view.stages["pay"].done, view.stages["tell"].done) == (1, 1)
            if calls == [1, 1]:
                return
        raise RuntimeError(STRUCK_OTHERS)

    @pytest.mark.parametrize("pattern", [b"headrace.mark', true", b"headrace.settle"])
    async def test_a_line_that_breaks_before_commit_costs_no_attempt(
        self, engine: Engine, far: PostgresStore, line: Proxy, postgres_url: str, pattern: bytes
    ) -> None:
        calls: list[int] = []
        await work(engine, far, shop(calls, lambda: line.cut_reply_to(pattern)))
        assert (line.cuts, calls, charges(postgres_url)) == (1, [1, 1], [1])

    async def test_a_line_that_breaks_under_the_handler_costs_no_attempt(
        self, engine: Engine, far: PostgresStore, line: Proxy, postgres_url: str
    ) -> None:
        flow, calls = Flow("shop"), list[int]()

        @flow.stage(transaction="open", retry=RetryPolicy(attempts_max=1))
        async def pay(number: int, context: Context) -> None:
            calls.append(number)
            if len(calls) == 1:
                line.cut_reply_to(b"INSERT INTO charge")
            await context.connection.execute(CHARGE, (number,))

        view = await work(engine, far, flow)
        assert (view.state, line.cuts, calls, charges(postgres_url)) == (JobState.FINISHED, 1, [1, 1], [1])

    async def test_a_transaction_that_cannot_be_begun_waits(
        self, engine: Engine, far: PostgresStore, line: Proxy, postgres_url: str
    ) -> None:
        calls: list[int] = []
        line.cut_reply_to(b"BEGIN")
        await work(engine, far, shop(calls, lambda: None), count=3)
        assert (line.cuts, sorted(calls), charges(postgres_url)) == (1, [1, 2, 3], [1, 2, 3])

    async def test_a_list_whose_commit_was_not_made_runs_again(
        self, engine: Engine, far: PostgresStore, line: Proxy, postgres_url: str
    ) -> None:
        flow, calls = Flow("shop"), list[int]()

        @flow.stage(transaction="open", batch=5, batch_wait_s=0.3, concurrency=1)
        def pay(numbers: list[int], context: Context) -> None:
            calls.append(len(numbers))
            context.connection.cursor().executemany(CHARGE, [(number,) for number in numbers])
            if len(calls) == 1:
                line.cut_before(b"COMMIT")

        for tries in range(1, TRIES_MAX + 1):
            calls.clear()
            view = await work(engine, far, flow, count=5)
            assert (line.cuts, charges(postgres_url)) == (tries, sorted([1, 2, 3, 4, 5] * tries))
            assert view.stages["pay"].done == 5
            if sum(calls) == 10:
                return
        raise RuntimeError(STRUCK_OTHERS)


class Apart(PostgresTransaction):
    """Settles in another transaction than the handler's."""

    store: PostgresStore

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        answers = await self.store.settle(settlements)
        await self._commit()
        return answers


class SettlesApart(PostgresStore):
    async def begin(self, terms: Terms) -> PostgresTransaction:
        transaction = await super().begin(terms)
        apart = Apart(self._open, transaction._own, transaction._lent, transaction._mark)
        apart.store = self
        return apart


class SettlesAgain(PostgresStore):
    """Resolves a lost COMMIT by sending the settlement once more."""

    async def resolve(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return await self.settle(settlements)


@pytest.mark.parametrize("kind", [SettlesApart, SettlesAgain])
async def test_a_settlement_outside_its_transaction_is_noticed(
    engine: Engine, line: Proxy, postgres_url: str, kind: type[PostgresStore]
) -> None:
    twin = kind(line.url)
    try:
        await turns_red(
            TestLinesThatBreak.test_a_commit_that_never_arrived_is_run_again_with_its_handler,
            engine=engine,
            far=twin,
            line=line,
            postgres_url=postgres_url,
        )
    finally:
        await twin.close()


async def test_a_worker_killed_in_the_middle_leaves_nothing(engine: Engine, postgres_url: str, tmp_path: Path) -> None:
    copy_flow(Path(__file__).parent, tmp_path, ["open_flows"])
    workers = WorkerProcesses(postgres_url, flow_command("open_flows:SHOP"), tmp_path)
    job = await engine.submit_many(open_flows.SHOP, range(8))

    async def ended() -> JobView | None:
        if (view := await engine.job(job)).state is not JobState.OPEN:
            return view
        workers.replace_dead()
        return None

    try:
        workers.start(1)
        view = await eventually(ended, "the job ends", WAIT_S)
    finally:
        workers.stop()
    assert workers.deaths == len(open_flows.DIES), workers.log()
    assert (view.state, view.stages["pay"].done, view.stages["tell"].done) == (JobState.FINISHED, 8, 8)
    assert charges(postgres_url) == list(range(8))
    assert await engine.verify(job) == []


@pytest.mark.parametrize(("stage", "count"), [("hold", 1), ("hold_all", 4)])
async def test_a_frozen_holder_is_in_nobodys_way(
    engine: Engine, postgres_url: str, tmp_path: Path, stage: str, count: int
) -> None:
    """Its transaction has written the row that the next holder of its items has to write."""
    copy_flow(Path(__file__).parent, tmp_path, ["open_flows"])
    workers = WorkerProcesses(postgres_url, flow_command("open_flows:FROZEN"), tmp_path)
    job = await engine.submit_many(open_flows.FROZEN, range(count), stage=stage)

    async def holds_and_is_frozen() -> bool:
        return (await engine.job(job)).stages[stage].held >= count and state_of(workers.children[0].pid) == FROZEN

    try:
        workers.start(1)
        await eventually(holds_and_is_frozen, "the holder has frozen itself", WAIT_S)
        async with engine.worker(open_flows.FROZEN, options=WorkerOptions(hold_s=1.0, poll_s=0.05)):
            view = await engine.wait(job, WAIT_S)
        workers.thaw(0)
    finally:
        workers.stop()
    assert (view.state, view.stages[stage].done) == (JobState.FINISHED, count)
    with psycopg.connect(postgres_url) as connection:
        assert len(connection.execute("SELECT item FROM once").fetchall()) == count
