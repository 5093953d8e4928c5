"""A keyspace with the lock tables, shared by the tests of a run, and sessions in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from lock_clients import PATIENT, session_on

from headrace.adapters.cassandra.options import CassandraOptions
from headrace.adapters.cassandra.schema import apply_schema
from headrace.adapters.cassandra.session import CassandraSession
from headrace.testing.passage import ManualClock
from headrace.testing.rig.cassandra import CassandraServer


@pytest.fixture(scope="session")
def lock_keyspace(cassandra_server: CassandraServer) -> Iterator[str]:
    """Making tables takes a second or two; a resource of one's own takes nothing."""
    with cassandra_server.keyspace() as url:
        asyncio.run(apply_schema(replace(CassandraOptions.of(url), **PATIENT)))
        yield url


@pytest.fixture
async def session(lock_keyspace: str) -> AsyncIterator[CassandraSession]:
    opened = await session_on(lock_keyspace)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
