"""Schedules on PostgreSQL keep their contract, with several handles on one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from postgres_databases import TEMPLATE, emptied

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.errors import Unknown
from headrace.ports.parts import Parts
from headrace.testing.contracts import SchedulesContract
from headrace.testing.contracts.schedules import NIGHTLY, firing, jobs, seen
from headrace.testing.passage import Passage, RealPassage
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy

HANDLES = 3


class TestPostgresSchedules(SchedulesContract):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres: PostgresServer) -> Iterator[str]:
        with postgres.database(TEMPLATE) as url:
            yield url

    @pytest.fixture(scope="class")
    @classmethod
    def open_stores(cls, database: str) -> Iterator[Sequence[Parts]]:
        stores = [PostgresStore(database) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            asyncio.run(store.close())

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage()

    @pytest.fixture
    def store(self, handles: Sequence[Parts]) -> Parts:
        return handles[0]

    @pytest.fixture
    def handles(self, database: str, open_stores: Sequence[Parts]) -> Sequence[Parts]:
        emptied(database)
        return open_stores


@pytest.fixture
def line(postgres_url: str) -> Iterator[Proxy]:
    with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def far(line: Proxy) -> AsyncIterator[PostgresStore]:
    """A handle with one connection, over the line that will be cut."""
    store = await PostgresStore.open(line.url, lanes=1)
    yield store
    await store.close()


@pytest.mark.parametrize(("cut", "fired_before"), [("cut_reply_to", 1), ("cut_before", 0)])
async def test_a_fire_whose_commit_is_not_answered_is_made_once(
    store: PostgresStore, far: PostgresStore, line: Proxy, cut: str, fired_before: int
) -> None:
    await far.schedules.add(NIGHTLY)
    due = await seen(far)
    getattr(line, cut)(b"COMMIT")
    with pytest.raises(Unknown):
        await far.schedules.fire(firing(due, due.handled_ms + 1, job="first"))
    assert (line.cuts, await jobs(store)) == (1, fired_before)
    (fire,) = await far.schedules.fire(firing(due, due.handled_ms + 1, job="second"))
    assert fire.job == ("first" if fired_before else "second")
    assert await jobs(store) == 1
