"""Three nodes, of which one does not answer: what is asked goes to the others, within seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from lock_clients import client_on, resource, session_on

from headrace.adapters.cassandra.options import CassandraOptions
from headrace.adapters.cassandra.schema import apply_schema
from headrace.adapters.cassandra.session import CassandraSession
from headrace.testing.passage import ManualClock
from headrace.testing.rig.cassandra_cluster import CassandraCluster

ROWS = 12
PATIENCE_S = 30.0
"""What one statement would wait for a node that does not answer."""
SOON_S = 25.0
"""Some seconds, and more on a machine that is busy: less than what a lock lasts by default, and than the patience."""


@pytest.fixture
async def session(cluster_keyspace: str) -> AsyncIterator[CassandraSession]:
    await apply_schema(CassandraOptions.of(cluster_keyspace))
    opened = await session_on(cluster_keyspace, timeout_s=PATIENCE_S)
    yield opened
    await opened.close()


async def test_locks_are_read_renewed_and_granted_without_a_node(
    session: CassandraSession, cassandra_cluster: CassandraCluster, clock: ManualClock
) -> None:
    """Frozen, because that is worse than dead: its connections stay open, and nobody says that it is gone."""
    leases = client_on(session, clock)
    held = [(await leases.acquire(resource(), "one", 300.0)).lease for _ in range(ROWS)]
    await asyncio.to_thread(cassandra_cluster.nodes[1].pause)
    try:
        began = time.monotonic()
        assert all(await asyncio.gather(*(leases.look(lease.name) for lease in held)))
        renewed = await asyncio.gather(*(leases.renew(lease.name, lease.fence, 300.0) for lease in held))
        granted = await asyncio.gather(*(leases.acquire(resource(), "two", 300.0) for _ in range(ROWS)))
        took_s = time.monotonic() - began
    finally:
        # Whoever drops the keyspace would wait a minute for it to agree.
        await asyncio.to_thread(cassandra_cluster.nodes[1].resume)
    assert all(renewed)
    assert all(answer.granted for answer in granted)
    assert took_s < SOON_S
