"""Functions are made anew while calls are in the middle of them: these are run again, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from open_bench import CHARGE, ONCE, PATIENT, TABLE, WAIT_S, charges
from sqlalchemy.exc import DBAPIError
from waiting import eventually

import headrace
from headrace import Context, Flow, JobState
from headrace.adapters.postgres import schema
from headrace.adapters.postgres.connections import Connection, is_again, meaning, sqlstate_of, translate
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Settlement, Want
from headrace.core.jobs import Submission
from headrace.testing.contracts.bench import flow, parcel, work

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
# The server has looked up the function before it waits for the lock, and calls it afterwards.
MINT_AFTER = "SELECT headrace.mint() FROM (SELECT pg_advisory_xact_lock(7) OFFSET 0) AS waited"
OTHER = "UPDATE headrace.migration SET functions = 'other' WHERE number = (SELECT max(number) FROM headrace.migration)"


@asynccontextmanager
async def remade_in_the_middle(url: str) -> AsyncIterator[None]:
    """What settles in this block has its functions made anew before it gets its locks."""
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watcher:
        holder.execute("SELECT FROM headrace.chunk_state FOR UPDATE")
        yield
        await eventually(lambda: watcher.execute(WAITING).fetchone() is not None, "a settlement waits", WAIT_S)
        watcher.execute(OTHER)
        assert await schema.up(url) == ["functions"]
        holder.rollback()


async def test_a_settlement_is_applied(store: PostgresStore, postgres_url: str) -> None:
    one = flow(work("a"))
    await store.submit(Submission("j", one.name, one.graph, (parcel("a", 3),)))
    (claim,) = (await store.claim("w", [Want(one.name, "a", 3, 3)], 60.0)).claims
    async with remade_in_the_middle(postgres_url):
        settling = asyncio.ensure_future(store.settle([Settlement(claim.fence, 1, done=0b111)]))
    assert [answer.accepted for answer in await settling] == [True]
    assert (await store.job("j")).stages["a"].done == 3


async def test_an_open_transaction_costs_no_attempt(postgres_url: str) -> None:
    books, hit = Flow("books"), asyncio.Event()

    @books.stage(transaction="open", retry=ONCE)
    async def book(item: int, context: Context) -> None:
        await context.connection.execute(CHARGE, (item,))
        if not hit.is_set():
            hit.set()
            await go_on.wait()

    go_on = asyncio.Event()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(TABLE.encode())
    async with headrace.connect(postgres_url) as engine, engine.worker(books, options=PATIENT):
        job = await engine.submit(books, 1)
        await asyncio.wait_for(hit.wait(), WAIT_S)
        async with remade_in_the_middle(postgres_url):
            go_on.set()
        view = await engine.wait(job, WAIT_S)
    assert (view.state, view.stages["book"].dead) == (JobState.FINISHED, 0)
    assert charges(postgres_url) == [1]


async def test_a_server_that_counts_calls_has_them_run_again(postgres_url: str) -> None:
    """It notices by itself that a function is gone, at the first call of it on a connection."""
    tries = []

    def mint(connection: Connection) -> object:
        tries.append(connection)
        return connection.execute(MINT_AFTER).fetchone()

    lane = Lanes(postgres_url, 1, lambda connection: None)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        assert other.execute("SHOW track_functions").fetchone() == ("all",)
        other.execute("SELECT pg_advisory_lock(7)")
        minting = asyncio.ensure_future(lane.write(mint))
        await eventually(lambda: other.execute(WAITING).fetchone() is not None, "the call waits", WAIT_S)
        other.execute(OTHER)
        assert await schema.up(postgres_url) == ["functions"]
        other.execute("SELECT pg_advisory_unlock(7)")
        assert await minting
    lane.close()
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("state", "reason", "heals"),
    [
        ("XX000", "cache lookup failed for function 16974", True),
        ("XX000", "could not parse a geometry", False),
        ("XX001", "invalid page in block 7", False),
        ("42883", "function call to something else", False),
    ],
)
def test_no_other_trouble_inside_the_server_is_waited_out(
    postgres_url: str, state: str, reason: str, heals: bool
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(f"DO $$ BEGIN RAISE EXCEPTION '{reason}' USING ERRCODE = '{state}'; END $$".encode())
        behind = DBAPIError("SELECT 1", (), raised.value)
    assert (raised.value.sqlstate, is_again(raised.value)) == (state, heals)
    assert translate(postgres_url, raised.value, broken=False, write=True).heals is heals
    found = sqlstate_of(behind)
    assert found is not None
    assert meaning(found, str(behind), "here", write=False).heals is heals
