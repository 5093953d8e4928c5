"""A job that is submitted in the caller's transaction exists if and only if the caller commits."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import sqlalchemy
from callers import (
    ASYNC_CALLERS,
    CALLERS,
    Undo,
    async_engine_of,
    by_django,
    by_psycopg,
    by_psycopg_async,
    django_connection,
    engine_of,
)
from django.db import transaction
from waiting import until

import headrace
from headrace.core.errors import Busy, InvalidPayload, OperatorError, SchemaMismatch, TooLarge, TryAgain, Unreachable

flow = headrace.Flow("letters")


@flow.stage
async def write(name: str) -> None: ...


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[headrace.Engine]:
    async with headrace.connect(postgres_url) as engine:
        yield engine


def jobs(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [str(job) for (job,) in connection.execute("SELECT id FROM headrace.job ORDER BY id")]


def with_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE guest (name text PRIMARY KEY)")


def guests(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [str(name) for (name,) in connection.execute("SELECT name FROM guest ORDER BY name")]


@pytest.mark.parametrize("caller", CALLERS)
def test_a_commit_makes_the_job(postgres_url: str, caller: Any) -> None:
    async def done() -> int:
        async with headrace.connect(postgres_url) as engine, engine.worker(flow):
            return (await engine.wait(job, timeout_s=30)).stages["write"].done

    with caller(postgres_url) as connection:
        job = headrace.submit_in(connection, flow, "Lan")
        assert jobs(postgres_url) == []
    assert jobs(postgres_url) == [job]
    assert asyncio.run(done()) == 1


@pytest.mark.parametrize("caller", CALLERS)
def test_a_rollback_leaves_no_job(postgres_url: str, caller: Any) -> None:
    with pytest.raises(Undo), caller(postgres_url) as connection:
        headrace.submit_in(connection, flow, "Lan")
        raise Undo
    assert jobs(postgres_url) == []


@pytest.mark.parametrize("caller", ASYNC_CALLERS)
async def test_a_commit_makes_the_job_for_those_who_await(
    engine: headrace.Engine, postgres_url: str, caller: Any
) -> None:
    async with caller(postgres_url) as connection:
        job = await engine.submit(flow, "Lan", connection=connection)
        assert jobs(postgres_url) == []
    assert jobs(postgres_url) == [job]


@pytest.mark.parametrize("caller", ASYNC_CALLERS)
async def test_a_rollback_leaves_no_job_for_those_who_await(
    engine: headrace.Engine, postgres_url: str, caller: Any
) -> None:
    with pytest.raises(Undo):
        async with caller(postgres_url) as connection:
            await engine.submit(flow, "Lan", connection=connection)
            raise Undo
    assert jobs(postgres_url) == []


def test_a_savepoint_that_is_rolled_back_takes_its_job_along(postgres_url: str) -> None:
    with by_psycopg(postgres_url) as connection:
        kept = headrace.submit_in(connection, flow, "Lan")
        with pytest.raises(Undo), connection.transaction():
            headrace.submit_in(connection, flow, "Minh")
            raise Undo
    assert jobs(postgres_url) == [kept]
    with by_django(postgres_url) as connection, pytest.raises(Undo), transaction.atomic():
        headrace.submit_in(connection, flow, "Hoa")
        raise Undo
    assert jobs(postgres_url) == [kept]


def test_a_caller_that_dies_before_its_commit_leaves_no_job(postgres_url: str) -> None:
    program = """
        import os, signal, sys
        import headrace, psycopg
        flow = headrace.Flow("letters")
        @flow.stage
        async def write(name: str) -> None: ...
        connection = psycopg.connect(sys.argv[1])
        print(headrace.submit_in(connection, flow, "Lan"), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    line = [sys.executable, "-c", textwrap.dedent(program), postgres_url]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout.strip()
    assert jobs(postgres_url) == []


async def test_several_items_are_one_job(engine: headrace.Engine, postgres_url: str) -> None:
    with by_psycopg(postgres_url) as connection:
        job = headrace.submit_many_in(connection, flow, ["Lan", "Minh", "Hoa"])
    async with by_psycopg_async(postgres_url) as awaited:
        other = await engine.submit_many(flow, ["An", "Binh"], connection=awaited)
    async with engine.worker(flow):
        assert (await engine.wait(job, timeout_s=30)).stages["write"].done == 3
        assert (await engine.wait(other, timeout_s=30)).stages["write"].done == 2


async def test_what_does_not_fit_into_one_statement_is_refused_and_the_transaction_goes_on(
    engine: headrace.Engine, postgres_url: str
) -> None:
    many = ["x" * 200_000] * 22
    with by_psycopg(postgres_url) as connection:
        with pytest.raises(TooLarge, match="UPLOAD_BYTES"):
            headrace.submit_many_in(connection, flow, many)
        with pytest.raises(InvalidPayload):
            headrace.submit_in(connection, flow, "Lan", key="nul\0")
        job = headrace.submit_in(connection, flow, "Lan")
    async with by_psycopg_async(postgres_url) as awaited:
        with pytest.raises(TooLarge, match="UPLOAD_BYTES"):
            await engine.submit_many(flow, many, connection=awaited)
    assert jobs(postgres_url) == [job]


def test_a_key_means_the_same_job_inside_and_outside(postgres_url: str) -> None:
    with_table(postgres_url)
    with by_psycopg(postgres_url) as connection:
        job = headrace.submit_in(connection, flow, "Lan", key="k")
        assert headrace.submit_in(connection, flow, "Lan", key="k") == job
    with by_psycopg(postgres_url) as connection:
        assert headrace.submit_in(connection, flow, "Lan", key="k") == job
        connection.execute("INSERT INTO guest VALUES ('Lan')")
        with pytest.raises(headrace.Conflict, match="another body"):
            headrace.submit_in(connection, flow, "Minh", key="k")
    assert jobs(postgres_url) == [job]
    assert guests(postgres_url) == ["Lan"], "a conflict does not end the caller's transaction"


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_at_once_under_one_key_one_makes_the_job(postgres_url: str, commits: bool) -> None:
    def second() -> str:
        with by_psycopg(postgres_url) as connection:
            return headrace.submit_in(connection, flow, "Lan", key="k")

    before = earlier_job(postgres_url)
    with ThreadPoolExecutor(1) as pool:
        first = psycopg.connect(postgres_url)
        job = headrace.submit_in(first, flow, "Lan", key="k")
        other = pool.submit(second)
        until(lambda: waits_for_a_lock(postgres_url), "the second waits for the first")
        if commits:
            first.commit()
        else:
            first.rollback()
        first.close()
        found = other.result(timeout=10)
    assert (found == job) is commits
    assert jobs(postgres_url) == [before, found]


def earlier_job(url: str) -> str:
    """A job before all others, so that the graph is there and only keys are fought over."""
    with by_psycopg(url) as connection:
        return headrace.submit_in(connection, flow, "first")


def waits_for_a_lock(url: str) -> bool:
    with psycopg.connect(url) as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return connection.execute(query).fetchone() is not None


def test_a_snapshot_that_is_too_old_is_to_be_tried_again(postgres_url: str) -> None:
    earlier_job(postgres_url)
    late = psycopg.connect(postgres_url)
    late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    late.execute("SELECT 1")
    with by_psycopg(postgres_url) as connection:
        headrace.submit_in(connection, flow, "Lan", key="k")
    with pytest.raises(TryAgain) as refused:
        headrace.submit_in(late, flow, "Lan", key="k")
    assert isinstance(refused.value, Busy)
    assert isinstance(refused.value.__cause__, psycopg.errors.SerializationFailure)
    late.close()


@pytest.mark.parametrize("caller", CALLERS)
def test_a_store_of_another_version_is_refused_and_the_transaction_goes_on(postgres_url: str, caller: Any) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO headrace.migration VALUES (9999, 'newer')")
        connection.execute("CREATE TABLE guest (name text)")
    with caller(postgres_url) as connection:
        with pytest.raises(SchemaMismatch, match="9999"):
            headrace.submit_in(connection, flow, "Lan")
        execute(connection, "INSERT INTO guest VALUES ('Lan')")
    assert jobs(postgres_url) == []
    assert guests(postgres_url) == ["Lan"]


def execute(connection: Any, statement: str) -> None:
    if hasattr(connection, "in_atomic_block"):
        with connection.cursor() as cursor:
            cursor.execute(statement)
    elif isinstance(connection, psycopg.Connection):
        connection.execute(statement.encode())
    else:
        connection.execute(sqlalchemy.text(statement))


@pytest.mark.parametrize("caller", CALLERS)
def test_a_database_without_a_store_is_refused_by_name(postgres_url: str, caller: Any) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA headrace CASCADE")
    with pytest.raises(SchemaMismatch, match="lacks a part"), caller(postgres_url) as connection:
        headrace.submit_in(connection, flow, "Lan")


@pytest.mark.parametrize("caller", ASYNC_CALLERS)
async def test_a_store_that_vanished_is_refused_by_name(
    engine: headrace.Engine, postgres_url: str, caller: Any
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP FUNCTION headrace.submit_in")
    with pytest.raises(SchemaMismatch, match="lacks a part"):
        async with caller(postgres_url) as connection:
            await engine.submit(flow, "Lan", connection=connection)


def test_a_role_without_rights_is_told_what_it_lacks(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE ROLE visitor")
        connection.execute("SET ROLE visitor")
        with pytest.raises(OperatorError, match="forbids") as refused:
            headrace.submit_in(connection, flow, "Lan")
        assert "grant" in refused.value.hint
        connection.rollback()


def test_a_line_that_broke_submits_nothing(postgres_url: str) -> None:
    connection = psycopg.connect(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(Unreachable):
        headrace.submit_in(connection, flow, "Lan")
    assert jobs(postgres_url) == []
    connection.close()


async def test_a_connection_that_commits_by_itself_is_refused(engine: headrace.Engine, postgres_url: str) -> None:
    refused = pytest.raises(headrace.CallerError, match="by itself")
    with psycopg.connect(postgres_url, autocommit=True) as connection, refused:
        headrace.submit_in(connection, flow, "Lan")
    refused = pytest.raises(headrace.CallerError, match="AUTOCOMMIT")
    with engine_of(postgres_url, isolation_level="AUTOCOMMIT").begin() as connection, refused:
        headrace.submit_in(connection, flow, "Lan")
    for driver in ("psycopg", "asyncpg"):
        async with async_engine_of(postgres_url, driver, isolation_level="AUTOCOMMIT").begin() as awaited:
            with pytest.raises(headrace.CallerError, match="AUTOCOMMIT"):
                await engine.submit(flow, "Lan", connection=awaited)
    assert jobs(postgres_url) == []


def test_django_outside_of_a_transaction_is_refused(postgres_url: str) -> None:
    with django_connection(postgres_url) as connection, pytest.raises(headrace.CallerError, match="by itself"):
        headrace.submit_in(connection, flow, "Lan")
    assert jobs(postgres_url) == []


def test_a_transaction_that_has_failed_is_not_asked(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(headrace.CallerError, match="failed before"):
            headrace.submit_in(connection, flow, "Lan")
        connection.rollback()


async def test_each_kind_of_connection_has_its_own_door(engine: headrace.Engine, postgres_url: str) -> None:
    for caller in ASYNC_CALLERS:
        async with caller(postgres_url) as awaited:
            with pytest.raises(headrace.CallerError, match="to be awaited"):
                headrace.submit_in(awaited, flow, "Lan")
    # Django itself refuses to be used beside a running loop.
    for blocking in (caller for caller in CALLERS if caller is not by_django):
        refused = pytest.raises(headrace.CallerError, match="block the event loop")
        with blocking(postgres_url) as connection, refused:
            await engine.submit(flow, "Lan", connection=connection)


async def test_a_connection_to_something_else_is_refused(engine: headrace.Engine) -> None:
    with sqlite3.connect(":memory:") as connection:
        with pytest.raises(headrace.CallerError, match="sqlite") as refused:
            headrace.submit_in(connection, flow, "Lan")
        assert "engine.transaction()" in refused.value.hint
        with pytest.raises(headrace.CallerError, match="sqlite"):
            await engine.submit(flow, "Lan", connection=connection)
    connection.close()
    with sqlalchemy.create_engine("sqlite://").begin() as other, pytest.raises(headrace.CallerError, match="sqlite"):
        headrace.submit_in(other, flow, "Lan")
    with pytest.raises(headrace.CallerError, match=r"builtins\.str"):
        headrace.submit_in("postgresql://", flow, "Lan")


async def test_a_store_in_sqlite_points_to_its_own_transactions() -> None:
    async with headrace.connect("sqlite:///:memory:") as engine:
        with pytest.raises(headrace.CallerError) as refused:
            await engine.submit(flow, "Lan", connection=object())
        assert "engine.transaction()" in refused.value.hint


@pytest.mark.parametrize("notify", [True, False])
def test_nobody_is_woken_unless_asked_for(postgres_url: str, notify: bool) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as listener:
        listener.execute("LISTEN headrace")
        with by_psycopg(postgres_url) as connection:
            headrace.submit_in(connection, flow, "Lan", notify=notify)
            assert list(listener.notifies(timeout=0)) == []
        listener.execute("SELECT 1")
        assert bool(list(listener.notifies(timeout=0))) is notify


async def test_a_worker_that_rests_finds_the_job_by_itself(engine: headrace.Engine, postgres_url: str) -> None:
    async with engine.worker(flow):
        await engine.wait(await engine.submit(flow, "Lan"), timeout_s=30)
        with by_psycopg(postgres_url) as connection:
            job = headrace.submit_in(connection, flow, "Minh")
        async with asyncio.timeout(30):
            assert (await engine.wait(job)).stages["write"].done == 1
