"""The driver without headrace: what the measurements compare with, and what fills the tables."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from headrace_scheduler.jobs.buckets import bucket_of
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import resource_of

if TYPE_CHECKING:
    from headrace.tables import CassandraOptions

AT_A_TIME = 64
# A busy machine that is being filled may keep a statement waiting; that is no finding.
REQUEST_S_MAX = 60.0
_KEY = "bucket_id, scheduled_time, job_id"
FILL = (
    f"INSERT INTO jobs_by_id ({_KEY}, pending_time, max_duration_seconds) VALUES (?, ?, ?, ?, 60)",
    f"INSERT INTO jobs_sharded ({_KEY}, payload, status, attempts) VALUES (?, ?, ?, '{{}}', 'pending', 0) "
    "USING TIMESTAMP ?",
    f"INSERT INTO jobs_pending_by_bucket ({_KEY}, payload) VALUES (?, ?, ?, '{{}}')",
)
FINISHED = f"DELETE FROM jobs_pending_by_bucket WHERE {_KEY.replace(',', ' = ? AND')} = ?"
RELEASED = "DELETE FROM locks WHERE resource_id = ?"
LOCK = (
    "INSERT INTO locks (resource_id, holder, fencing_token, expire_at, epoch) VALUES (?, 'another', 1, ?, 1) "
    "IF NOT EXISTS"
)
DRAWN = "INSERT INTO lock_seq (resource, last_seq) VALUES (?, 1)"


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """The key of a job that does nothing."""

    bucket_id: int
    scheduled_time: datetime
    job_id: UUID

    @property
    def key(self) -> tuple[int, datetime, UUID]:
        return self.bucket_id, self.scheduled_time, self.job_id


@contextmanager
def plain_session(options: CassandraOptions, keyspace: str | None = None) -> Iterator[Any]:
    """A session of the driver with the consistencies of the lock client."""
    from cassandra import ConsistencyLevel
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import DCAwareRoundRobinPolicy

    profile = ExecutionProfile(
        load_balancing_policy=DCAwareRoundRobinPolicy(options.local_dc),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=REQUEST_S_MAX,
    )
    cluster = Cluster(
        list(options.hosts),
        port=options.port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        # Whoever measures at the limit leaves little for whoever connects.
        connect_timeout=REQUEST_S_MAX,
        control_connection_timeout=REQUEST_S_MAX,
        # As ours: what is compared are statements, and not these two settings.
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        compression=False,
    )
    try:
        yield cluster.connect(options.keyspace if keyspace is None else keyspace or None)
    finally:
        cluster.shutdown()


def new_jobs(count: int, buckets: int) -> list[WaitingJob]:
    """So many jobs that are due. Each has a time of its own, as jobs of clients have."""
    now = datetime.now(UTC)
    moments = (whole_ms(now - timedelta(seconds=60) + timedelta(milliseconds=number)) for number in range(count))
    ids = (uuid4() for _ in range(count))
    return [WaitingJob(bucket_of(job_id, buckets), moment, job_id) for job_id, moment in zip(ids, moments, strict=True)]


def fill(session: Any, jobs: Sequence[WaitingJob]) -> None:
    """Write these jobs as a client does."""
    register, add, enqueue = (session.prepare(text) for text in FILL)
    together(session, [(register, (*job.key, job.scheduled_time)) for job in jobs])
    # All at one time: the write times that are recorded of one job are then above the status of every other.
    written_us = int(datetime.now(UTC).timestamp() * 1_000_000)
    together(session, [(add, (*job.key, written_us)) for job in jobs])
    together(session, [(enqueue, job.key) for job in jobs])


def lock(session: Any, jobs: Sequence[WaitingJob], until: datetime) -> None:
    """Lock these jobs for another holder, as a program that knows the contract does."""
    acquire = session.prepare(LOCK)
    together(session, [(acquire, (resource_of(job.job_id), until)) for job in jobs])


def leave_tombstones(session: Any, count: int, buckets: int, since: timedelta) -> None:
    """What so many finished jobs leave in the queue, spread over the last while, and in the tables of locks."""
    now = datetime.now(UTC)
    deletion, release, draw = (session.prepare(text) for text in (FINISHED, RELEASED, DRAWN))
    step = since / count
    keys = [(number % buckets, whole_ms(now - since + step * number), UUID(int=number)) for number in range(count)]
    together(session, [(deletion, key) for key in keys])
    for statement in (release, draw):
        together(session, [(statement, (resource_of(key[2]),)) for key in keys])


def together(session: Any, statements: list[tuple[Any, tuple[object, ...]]]) -> None:
    from cassandra.concurrent import execute_concurrent

    execute_concurrent(session, statements, concurrency=AT_A_TIME, raise_on_first_error=True)
