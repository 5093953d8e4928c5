"""What a stage says about its transaction, and what follows when it cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from runtime_bench import Bench
from waiting import eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Want
from headrace.core.errors import Conflict, InvalidFlow, TooLarge
from headrace.core.retry import RetryPolicy
from headrace.ports.store import Features
from headrace.ports.transactions import OPEN_TRANSACTIONS_MAX
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow
from headrace.runtime.observe import Observer
from headrace.runtime.seams import Seams
from headrace.runtime.settler import Settler
from headrace.runtime.slices import Slice
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions, Yard


async def handle(number: int, context: Context) -> None: ...


def test_a_stage_says_which_transaction_it_wants() -> None:
    flow = Flow("shop")
    flow.stage(name="one")(handle)
    flow.stage(name="two", transaction="recorded")(handle)
    flow.stage(name="three", transaction="open")(handle)
    assert [stage.transaction for stage in flow.stages.values()] == ["", "recorded", "open"]


def test_another_word_is_refused() -> None:
    options: dict[str, Any] = {"transaction": "closed"}
    with pytest.raises(InvalidFlow, match="neither 'recorded' nor 'open'"):
        Flow("shop").stage(**options)(handle)


@pytest.mark.parametrize("transaction", ["recorded", "open"])
def test_a_handler_that_could_not_reach_its_transaction_is_refused(transaction: Any) -> None:
    async def blind(number: int, out: Out) -> None: ...

    with pytest.raises(InvalidFlow, match="takes a Context"):
        Flow("shop").stage(transaction=transaction)(blind)


def test_the_transaction_is_no_part_of_the_graph() -> None:
    """A job that was submitted before it was declared goes on with it."""
    graphs = []
    for options in ({}, {"transaction": "open"}):
        flow, given = Flow("shop"), dict[str, Any](options)
        flow.stage(**given)(handle)
        graphs.append(flow.graph.digest)
    assert graphs[0] == graphs[1]


async def test_a_worker_refuses_an_open_transaction_where_there_is_none(store: SqliteStore) -> None:
    flow = Flow("shop")
    flow.stage(transaction="open")(handle)
    with pytest.raises(InvalidFlow, match="needs a PostgreSQL store") as refusal:
        Worker(store, [flow])
    assert 'transaction="recorded"' in refusal.value.hint


class Roomy:
    """A store that says it has open transactions. None is ever asked for."""

    features = Features(open_transactions=True)

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_more_transactions_than_there_are_is_refused_by_name(store: SqliteStore) -> None:
    roomy: Any = Roomy(store)
    for concurrency, fits in ((OPEN_TRANSACTIONS_MAX // 2, True), (OPEN_TRANSACTIONS_MAX // 2 + 1, False)):
        flow = Flow("shop")
        for name in ("one", "two"):
            flow.stage(name=name, transaction="open", concurrency=concurrency)(handle)
        if fits:
            Worker(roomy, [flow])
        else:
            with pytest.raises(TooLarge, match="OPEN_TRANSACTIONS_MAX"):
                Worker(roomy, [flow])


async def test_a_settlement_that_travels_in_a_transaction_is_not_sent_by_itself(
    bench: Bench, store: SqliteStore
) -> None:
    """Even if something else of its claim is to be settled: that waits until the transaction has ended."""
    flow = Flow("shop")
    flow.stage(name="one")(handle)
    job = await bench.submit(flow, 1, 2)
    grant = await store.claim("worker", [Want("shop", "one", 2, 1)], 60.0)
    yard = Yard(Seams(), WorkerOptions(), Observer("worker"))
    settler = Settler(store, yard, lambda work, reason: None)
    travelling, other = [Slice(claim, flow.stages["one"], yard.now(), yard.now() + 60.0) for claim in grant.claims]
    for work in (travelling, other):
        yard.hold(work)
        work.next = 1
    travelling.travel(0b1)
    settler.soon(travelling)
    settler.soon(other)
    running = asyncio.ensure_future(settler.run())
    await eventually(lambda: other.ended, "the other is settled")
    tally = (await store.job(job)).stages["one"]
    assert (tally.done, tally.held) == (1, 1)
    travelling.refused(frozenset({0}), Conflict("rolled back"))
    travelling.forgo(0)
    settler.soon(travelling)
    await eventually(lambda: travelling.ended, "the one that travelled is given back")
    running.cancel()
    tally = (await store.job(job)).stages["one"]
    assert (tally.done, tally.waiting) == (1, 1)


async def test_what_was_not_declared_is_refused_with_the_way_out(bench: Bench) -> None:
    flow, hints = Flow("shop"), list[str]()

    @flow.stage(retry=RetryPolicy(attempts_max=1))
    async def one(number: int, context: Context) -> None:
        with pytest.raises(InvalidFlow) as no_record:
            context.sql("INSERT INTO effect VALUES (1)")
        with pytest.raises(InvalidFlow) as no_connection:
            _ = context.connection
        hints.extend((no_record.value.hint, no_connection.value.hint))

    view = await bench.run(flow, 1)
    assert view.stages["one"].done == 1
    assert hints == ['declare it with transaction="recorded"', 'declare it with transaction="open"']
