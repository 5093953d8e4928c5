"""Open transactions: what a handler does in the store's own database is there exactly if its item is done."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from open_bench import CHARGE, EXPIRE, ONCE, PATIENT, SHORT, TABLE, TWICE, WAIT_S, charges, query, run
from waiting import eventually

import headrace
from headrace import Context, Dead, Engine, Flow, JobState, Out, Retry, Snooze, WorkerOptions
from headrace.core.errors import CallerError, Conflict, InvalidFlow, TransactionEnded

TELL = "INSERT INTO told VALUES (current_setting(''idle_in_transaction_session_timeout''))"


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[Engine]:
    query(postgres_url, TABLE)
    async with headrace.connect(postgres_url) as engine:
        yield engine


def answer(number: int, call: int) -> Any:
    """Most are done; some end otherwise, after their effect."""
    match number:
        case 3 if call == 1:
            raise ValueError("the first time")
        case 4:
            raise ValueError("every time")
        case 5:
            return Dead("hopeless", "rule")
        case 6 if call == 1:
            return Retry("not yet")
        case 7 if call == 1:
            return Snooze(0.01)
    return None


async def test_an_effect_is_there_exactly_if_its_item_is_done(engine: Engine, postgres_url: str) -> None:
    flow, calls = Flow("shop"), Counter[int]()

    @flow.stage(transaction="open", feeds="tell", retry=TWICE, tolerate=2)
    async def pay(number: int, context: Context, out: Out) -> Any:
        calls[number] += 1
        await context.connection.execute(CHARGE, (number,))
        out.send("tell", number)
        return answer(number, calls[number])

    @flow.stage
    async def tell(number: int) -> None: ...

    view = await run(engine, flow, *range(30))
    assert charges(postgres_url) == [number for number in range(30) if number not in (4, 5)]
    assert (view.stages["pay"].done, view.stages["pay"].dead, view.stages["tell"].done) == (28, 2, 28)
    assert (calls[1], calls[3], calls[4], calls[5], calls[6], calls[7]) == (1, 2, 2, 1, 2, 2)


async def test_a_handler_in_a_thread_has_a_transaction_too(engine: Engine, postgres_url: str) -> None:
    flow, calls = Flow("shop"), Counter[int]()

    @flow.stage(transaction="open", retry=TWICE, tolerate=2, concurrency=4)
    def pay(number: int, context: Context) -> Any:
        calls[number] += 1
        context.connection.execute(CHARGE, (number,))
        return answer(number, calls[number])

    view = await run(engine, flow, *range(20))
    assert charges(postgres_url) == [number for number in range(20) if number not in (4, 5)]
    assert (view.stages["pay"].done, view.stages["pay"].dead) == (18, 2)


async def test_a_barrier_may_run_in_a_transaction(engine: Engine, postgres_url: str) -> None:
    flow = Flow("shop")

    @flow.stage
    async def find(number: int) -> None: ...

    @flow.stage(after="find", transaction="open")
    async def report(context: Context) -> None:
        await context.connection.execute(CHARGE, (99,))

    await run(engine, flow, 1, 2)
    assert charges(postgres_url) == [99]


async def test_a_claim_lost_while_the_handler_ran_leaves_nothing(engine: Engine, postgres_url: str) -> None:
    """With a hold that long, the settlement is the first to hear of it."""
    flow, calls = Flow("shop"), list[int]()

    @flow.stage(transaction="open", feeds="tell", concurrency=1)
    async def pay(number: int, context: Context, out: Out) -> None:
        calls.append(number)
        await context.connection.execute(CHARGE, (10 * number + len(calls),))
        out.send("tell", len(calls))
        if len(calls) == 1:
            query(postgres_url, EXPIRE, context.fence)
            await engine.store.sweep()

    @flow.stage
    async def tell(number: int) -> None: ...

    view = await run(engine, flow, 1, options=PATIENT)
    assert (len(calls), charges(postgres_url)) == (2, [12])
    assert (view.stages["pay"].done, view.stages["tell"].total) == (1, 1)


async def test_the_heart_renews_the_claim_of_a_handler_that_outlasts_its_hold(
    engine: Engine, postgres_url: str
) -> None:
    flow, calls = Flow("shop"), list[int]()

    @flow.stage(transaction="open")
    async def pay(number: int, context: Context) -> None:
        calls.append(number)
        await context.connection.execute(CHARGE, (number,))
        seen = set[Any]()

        def renewed_five_times() -> bool:
            seen.add(_until(postgres_url, context.fence))
            return len(seen) == 6

        await eventually(renewed_five_times, "the claim is renewed five times", WAIT_S)

    await run(engine, flow, 1, options=WorkerOptions(hold_s=0.6, poll_s=0.05))
    assert (calls, charges(postgres_url)) == ([1], [1])


def _until(url: str, fence: int) -> Any:
    return query(url, "SELECT until FROM headrace.claim WHERE fence = %s", fence)[0]


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "COMMIT AND CHAIN", "END"])
@pytest.mark.parametrize("swallows", [False, True])
async def test_an_item_whose_handler_ends_the_transaction_is_not_done(
    engine: Engine, postgres_url: str, text: str, swallows: bool
) -> None:
    """It is not tried again either: that would leave its effects once more."""
    flow, calls = Flow("shop"), list[int]()

    @flow.stage(transaction="open", retry=TWICE)
    async def pay(number: int, context: Context) -> None:
        calls.append(number)
        await context.connection.execute(CHARGE, (number,))
        try:
            await context.connection.execute(text)
        except TransactionEnded:
            if not swallows:
                raise

    view = await run(engine, flow, 1)
    (letter,) = await engine.dead()
    assert (view.state, view.stages["pay"].dead, len(calls)) == (JobState.FAILED, 1, 1)
    assert (letter.reason, letter.rule) == ("TransactionEnded", "never_retried")


async def test_a_handler_does_not_end_its_connection(engine: Engine, postgres_url: str) -> None:
    flow = Flow("shop")

    @flow.stage(transaction="open")
    async def pay(number: int, context: Context) -> None:
        await context.connection.execute(CHARGE, (number,))
        for verb in ("commit", "rollback", "close"):
            with pytest.raises(CallerError, match="a handler does not"):
                await getattr(context.connection, verb)()

    await run(engine, flow, 1)
    assert charges(postgres_url) == [1]


async def test_a_savepoint_of_the_handler_is_its_own_affair(engine: Engine, postgres_url: str) -> None:
    flow = Flow("shop")

    @flow.stage(transaction="open")
    async def pay(number: int, context: Context) -> None:
        await context.connection.execute(CHARGE, (number,))
        with pytest.raises(ValueError, match="only this"):
            async with context.connection.transaction():
                await context.connection.execute(CHARGE, (number + 100,))
                raise ValueError("only this")

    await run(engine, flow, 1, 2)
    assert charges(postgres_url) == [1, 2]


async def test_an_error_that_was_swallowed_fails_the_attempt(engine: Engine, postgres_url: str) -> None:
    flow = Flow("shop")

    @flow.stage(transaction="open", retry=ONCE)
    async def pay(number: int, context: Context) -> None:
        await context.connection.execute(CHARGE, (number,))
        with pytest.raises(psycopg.Error):
            await context.connection.execute("SELECT 1 / 0")

    view = await run(engine, flow, 1)
    (letter,) = await engine.dead()
    assert (view.stages["pay"].dead, charges(postgres_url)) == (1, [])
    assert "went on as if it had not" in letter.error


async def test_what_cannot_be_committed_fails_the_attempt(engine: Engine, postgres_url: str) -> None:
    flow = Flow("shop")
    query(postgres_url, "ALTER TABLE charge DROP CONSTRAINT charge_pkey")

    @flow.stage(transaction="open", retry=TWICE, concurrency=1)
    async def pay(number: int, context: Context) -> None:
        for _ in range(context.attempt % 2 + 1):
            await context.connection.execute(CHARGE, (number,))

    view = await run(engine, flow, 1, 2)
    assert (view.stages["pay"].done, charges(postgres_url)) == (2, [1, 2])


async def test_a_handler_that_takes_too_long_leaves_nothing(engine: Engine, postgres_url: str) -> None:
    flow, calls = Flow("shop"), Counter[int]()

    @flow.stage(transaction="open", retry=TWICE, timeout_s=0.3)
    async def pay(number: int, context: Context) -> None:
        calls[number] += 1
        await context.connection.execute(CHARGE, (10 * number + calls[number],))
        if calls[number] == 1:
            await context.connection.execute("SELECT pg_sleep(30)")

    await run(engine, flow, 1)
    assert (calls[1], charges(postgres_url)) == (2, [12])


async def test_a_thread_that_does_not_end_loses_its_connection(engine: Engine, postgres_url: str) -> None:
    flow, calls, broke, go = Flow("shop"), list[int](), threading.Event(), threading.Event()

    @flow.stage(transaction="open", retry=TWICE, timeout_s=0.3)
    def pay(number: int, context: Context) -> None:
        calls.append(number)
        connection = context.connection
        connection.execute(CHARGE, (10 * number + len(calls),))
        if len(calls) == 1:
            go.wait(WAIT_S)
            try:
                connection.execute("SELECT 1")
            except (Conflict, psycopg.Error):
                broke.set()

    await run(engine, flow, 1)
    go.set()
    await eventually(broke.is_set, "the connection of the late call breaks", WAIT_S)
    assert charges(postgres_url) == [12]


async def test_a_connection_that_was_kept_is_refused(engine: Engine, postgres_url: str) -> None:
    flow, kept = Flow("shop"), list[Any]()

    @flow.stage(transaction="open", concurrency=1)
    async def pay(number: int, context: Context) -> None:
        for connection in kept:
            with pytest.raises(Conflict, match="that call is over"):
                await connection.execute(CHARGE, (number + 100,))
        kept.append(context.connection)
        await context.connection.execute(CHARGE, (number,))

    await run(engine, flow, 1, 2, 3)
    assert charges(postgres_url) == [1, 2, 3]


async def test_a_handler_finds_a_session_without_traces_of_others(engine: Engine, postgres_url: str) -> None:
    flow, found = Flow("shop"), list[Any]()

    @flow.stage(transaction="open", concurrency=1)
    async def pay(number: int, context: Context) -> None:
        connection = context.connection
        asked = await connection.execute("SELECT current_setting('search_path'), to_regclass('pg_temp.mine')")
        found.append(await asked.fetchone())
        await connection.execute("SET search_path = nowhere")
        await connection.execute("CREATE TEMP TABLE mine (item integer)")
        await connection.execute("DEALLOCATE ALL")
        with pytest.raises(psycopg.Error, match="before any query"):
            async with connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    view = await run(engine, flow, 1, 2, 3)
    assert (view.stages["pay"].done, found) == (3, [('"$user", public', None)] * 3)


async def test_the_server_ends_what_is_left_alone(engine: Engine, postgres_url: str) -> None:
    """During the handler that is longer than it may take; once the claim is locked, two seconds."""
    flow = Flow("shop")
    query(postgres_url, "CREATE TABLE told (patience text)")
    query(postgres_url, f"CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {TELL}; RETURN NULL; END'")
    query(
        postgres_url,
        "CREATE CONSTRAINT TRIGGER tell AFTER INSERT ON charge DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION tell()",
    )

    @flow.stage(transaction="open", timeout_s=25)
    async def pay(number: int, context: Context) -> None:
        await context.connection.execute(TELL.replace("''", "'"))
        await context.connection.execute(CHARGE, (number,))

    await run(engine, flow, 1)
    assert query(postgres_url, "SELECT patience FROM told") == [("30s",), ("2s",)]


async def test_a_cursor_is_refused_in_an_open_transaction(engine: Engine, postgres_url: str) -> None:
    flow = Flow("shop")

    @flow.stage(transaction="open")
    async def pay(number: int, context: Context, out: Out) -> None:
        with pytest.raises(InvalidFlow, match="not before"):
            await out.commit(cursor=1)
        with pytest.raises(InvalidFlow, match="records statements"):
            context.sql(CHARGE, (number,))
        await context.connection.execute(CHARGE, (number,))

    await run(engine, flow, 1)
    assert charges(postgres_url) == [1]


async def test_stopping_now_leaves_nothing_of_what_runs(engine: Engine, postgres_url: str) -> None:
    flow, started = Flow("shop"), asyncio.Event()

    @flow.stage(transaction="open")
    async def pay(number: int, context: Context) -> None:
        await context.connection.execute(CHARGE, (number,))
        started.set()
        await asyncio.Event().wait()

    job = await engine.submit(flow, 1)
    with pytest.raises(KeyError):
        async with engine.worker(flow, options=SHORT):
            await started.wait()
            raise KeyError
    tally = (await engine.job(job)).stages["pay"]
    assert (tally.waiting, tally.held, charges(postgres_url)) == (1, 0, [])
