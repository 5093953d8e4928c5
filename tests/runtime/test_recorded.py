"""Recorded statements: the effect and the account in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from runtime_bench import Bench

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Settled, Settlement
from headrace.core.errors import CallerError, Conflict
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow

ONCE = RetryPolicy(attempts_max=1)
INSERT = "INSERT INTO effect (number) VALUES (?)"


class Number(msgspec.Struct):
    value: int


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE effect (number INTEGER NOT NULL CHECK (number <> 13))")
    connection.close()
    yield store
    await store.close()


def effects(path: str) -> list[int]:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return sorted(row[0] for row in connection.execute("SELECT number FROM effect"))
    finally:
        connection.close()


async def test_an_effect_is_in_the_table_exactly_when_its_item_is_done(bench: Bench, path: str) -> None:
    flow, calls = Flow("digest"), Counter[int]()

    @flow.stage(transaction="recorded", feeds="two", retry=RetryPolicy(attempts_max=2, first_s=0), tolerate=2)
    async def one(number: int, context: Context, out: Out) -> None:
        calls[number] += 1
        context.sql(INSERT, (number,))
        out.send("two", number)
        if number == 5 or (number == 6 and calls[number] == 1):
            raise ValueError("after it was recorded")

    @flow.stage
    async def two(number: int) -> None: ...

    view = await bench.run(flow, *range(20))
    assert effects(path) == [number for number in range(20) if number not in (5, 13)]
    assert (view.stages["one"].done, view.stages["one"].dead, view.stages["two"].done) == (18, 2, 18)
    letters = {letter.reason: letter for letter in await bench.dead(view.id)}
    assert "CHECK" in letters["RecordedFailure"].error


async def test_each_item_of_a_list_records_for_itself(bench: Bench, path: str) -> None:
    flow = Flow("digest")

    @flow.stage(transaction="recorded", batch=20, batch_wait_s=0.1, retry=ONCE, tolerate=1)
    async def one(numbers: list[Number], context: Context) -> None:
        with pytest.raises(CallerError, match="many items"):
            context.sql(INSERT, (1,))
        for number in numbers:
            context.of(number).sql(INSERT, (number.value,))

    view = await bench.run(flow, *(Number(value) for value in range(20)))
    assert (view.stages["one"].done, view.stages["one"].dead) == (19, 1)
    assert effects(path) == [number for number in range(20) if number != 13]


async def test_a_statement_on_the_account_itself_is_refused(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(transaction="recorded", retry=ONCE)
    async def one(number: int, context: Context) -> None:
        context.sql("DELETE FROM headrace_job")

    view = await bench.run(flow, 1)
    assert view.state is JobState.FAILED


class Sealed:
    """A store in which one stage takes no items: every settlement that sends to it is refused, whole."""

    def __init__(self, store: SqliteStore, stage: str) -> None:
        self._store, self._stage = store, stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        answers = []
        for settlement in settlements:
            if any(parcel.stage == self._stage for parcel in settlement.sends):
                answers.append(Settled(settlement.fence, False, f"sealed:{self._stage}"))
            else:
                answers += await self._store.settle([settlement])
        return answers


async def test_items_that_send_to_a_sealed_stage_fail_and_the_others_do_not(bench: Bench, store: SqliteStore) -> None:
    flow = Flow("digest")

    @flow.stage(feeds=("open", "shut"), retry=ONCE, tolerate=2)
    async def one(number: int, out: Out) -> None:
        out.send("shut" if number in (2, 4) else "open", number)

    @flow.stage(name="open")
    async def reached(number: int) -> None: ...

    @flow.stage(name="shut")
    async def unreached(number: int) -> None: ...

    view = await bench.run(flow, *range(6), store=Sealed(store, "shut"))
    assert (view.stages["one"].done, view.stages["one"].dead) == (4, 2)
    assert (view.stages["open"].done, view.stages["shut"].total) == (4, 0)


async def test_a_commit_to_a_sealed_stage_is_refused_to_its_handler(bench: Bench, store: SqliteStore) -> None:
    flow, refused = Flow("digest"), []

    @flow.stage(feeds=("shut"), retry=ONCE)
    async def one(number: int, out: Out) -> None:
        out.send("shut", number)
        with pytest.raises(Conflict, match="refused") as refusal:
            await out.commit(cursor=1)
        refused.append(refusal.value)

    @flow.stage(name="shut")
    async def unreached(number: int) -> None: ...

    view = await bench.run(flow, 1, store=Sealed(store, "shut"))
    assert view.stages["one"].done == 1
    assert len(refused) == 1
