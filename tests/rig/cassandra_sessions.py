"""The driver as the tests use it: one session by the URL of a node or a keyspace, closed with all its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, FallthroughRetryPolicy
from cassandra.query import ConsistencyLevel

CONNECT_S_MAX = 60.0
RECONNECT_S = 0.2


@contextmanager
def cassandra_session(url: str, **profile: Any) -> Iterator[Session]:
    """Nothing is tried again by the driver: a test sees what the line and the servers do."""
    place = urlsplit(url)
    settings = {
        "load_balancing_policy": DCAwareRoundRobinPolicy(parse_qs(place.query)["local_dc"][0]),
        "retry_policy": FallthroughRetryPolicy(),
        "consistency_level": ConsistencyLevel.LOCAL_QUORUM,
        "serial_consistency_level": ConsistencyLevel.LOCAL_SERIAL,
    }
    cluster = Cluster(
        [str(place.hostname)],
        port=place.port,
        connect_timeout=CONNECT_S_MAX,
        control_connection_timeout=CONNECT_S_MAX,
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_S, max_attempts=None),
        execution_profiles={EXEC_PROFILE_DEFAULT: ExecutionProfile(**{**settings, **profile})},
        protocol_version=5,
    )
    try:
        yield cluster.connect(place.path.lstrip("/") or None)
    finally:
        cluster.shutdown()
