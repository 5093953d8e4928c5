"""A PostgreSQL sink that goes away under a running worker, for real: behind a proxy that refuses, resets and heals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from waiting import eventually

import headrace
from headrace import Context, Engine, Flow, JobState, RetryPolicy, WorkerOptions
from headrace.adapters.postgres.sink import PostgresSink
from headrace.core.errors import HeadraceError
from headrace.ports.sink import Change
from headrace.testing.rig.proxy import Proxy

TABLES = "CREATE TABLE IF NOT EXISTS charge (item integer NOT NULL)"
CHARGE = "INSERT INTO charge (item) VALUES (?)"
SHORT = WorkerOptions(hold_s=2.0, poll_s=0.05, partial_s=0.05, grace_s=0.1)
ONCE = RetryPolicy(attempts_max=1)
WAIT_S = 60.0


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with headrace.connect(f"sqlite:///{tmp_path}/jobs.db") as engine:
        yield engine


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def sink(proxy: Proxy) -> AsyncIterator[PostgresSink]:
    sink = PostgresSink(proxy.url, TABLES)
    yield sink
    await sink.close()


def charges(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT item FROM charge ORDER BY item")]


class Shop:
    """A flow whose handlers need the sink, and what they met."""

    def __init__(self, sink: PostgresSink) -> None:
        self.flow, self.met = Flow("shop"), list[HeadraceError]()

        @self.flow.stage(sink=sink, retry=ONCE, concurrency=8)
        async def pay(number: int, context: Context) -> None:
            try:
                await sink.once(context.effect(), Change(CHARGE, (number,)))
            except HeadraceError as error:
                self.met.append(error)
                raise


async def test_a_sink_that_goes_away_under_the_work_spends_no_attempt(
    engine: Engine, sink: PostgresSink, proxy: Proxy, postgres_url: str
) -> None:
    shop = Shop(sink)
    proxy.latency(0.02)
    job = await engine.submit_many(shop.flow, range(200))
    async with engine.worker(shop.flow, options=SHORT):
        await eventually(lambda: _done(engine, job, 8), "the work has begun")
        proxy.refuse()
        proxy.reset()
        await eventually(lambda: _met(shop, 3), "the outage is met")
        proxy.heal()
        view = await engine.wait(job, WAIT_S)
    assert (view.state, view.stages["pay"].done) == (JobState.FINISHED, 200)
    assert charges(postgres_url) == list(range(200)), "each once, also those whose answer was lost"
    assert all(error.heals for error in shop.met)


async def test_a_sink_that_is_not_there_yet_is_waited_for(
    engine: Engine, sink: PostgresSink, proxy: Proxy, postgres_url: str
) -> None:
    shop = Shop(sink)
    proxy.refuse()
    job = await engine.submit_many(shop.flow, range(50))
    async with engine.worker(shop.flow, options=SHORT):
        await eventually(lambda: _met(shop, 3), "the outage is met")
        assert (await engine.job(job)).stages["pay"].done == 0
        proxy.heal()
        view = await engine.wait(job, WAIT_S)
    assert view.state is JobState.FINISHED
    assert charges(postgres_url) == list(range(50))


async def test_a_sink_that_does_not_let_us_in_is_waited_for(engine: Engine, postgres_url: str) -> None:
    """Whoever changes a password first in the server must not lose what is on its way."""
    role = "not_yet_there"
    place = urlsplit(postgres_url)
    sink = PostgresSink(place._replace(netloc=f"{role}@{place.hostname}:{place.port}").geturl(), TABLES)
    shop = Shop(sink)
    job = await engine.submit_many(shop.flow, range(5))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        async with engine.worker(shop.flow, options=SHORT):
            await eventually(lambda: _met(shop, 2), "the refusal is met")
            connection.execute(f"CREATE ROLE {role} LOGIN SUPERUSER".encode())
            view = await engine.wait(job, WAIT_S)
        await sink.close()
        connection.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER".encode())
        connection.execute(f"DROP ROLE {role}".encode())
    assert (view.state, charges(postgres_url)) == (JobState.FINISHED, list(range(5)))
    assert f'role "{role}" does not exist' in str(shop.met[0])


async def _done(engine: Engine, job: str, count: int) -> bool:
    return (await engine.job(job)).stages["pay"].done >= count


async def _met(shop: Shop, count: int) -> bool:
    return len(shop.met) >= count
