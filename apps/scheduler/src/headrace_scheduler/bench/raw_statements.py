"""The raw limit: the statements of one job of ours, sent for others by the driver alone.

One job is held and settled by the source, and what it sends is recorded. The replay puts the keys of other jobs into
the same statements; each answer sends the next one from the driver's own thread, so that only the driver is at work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.sources import ItemSettlement, ItemState
from headrace.tables import CassandraOptions, CassandraTables
from headrace_scheduler.bench.plain_driver import WaitingJob
from headrace_scheduler.jobs.values import resource_of
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cassandra_tables import CassandraJobTables
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import JobSource

HOLD_S = 30.0
RESOURCES = frozenset({"resource", "resource_id"})
REPLAY_S_MAX = 300.0


@dataclass(frozen=True, slots=True)
class SentStatement:
    """A statement with the values that it was sent with, as bytes; those of the job's key are replaced."""

    text: str
    values: tuple[bytes | None, ...]
    consistency: int
    serial_consistency: int


SentMessage = Sequence[SentStatement]
"""One statement, or several that were sent together."""


async def record(options: CassandraOptions, buckets: int) -> list[SentMessage]:
    """What the source sends for one waiting job, from its hold to its end; polls are left out."""
    sent: list[SentMessage] = []

    def listen(response: Any) -> None:
        message, known = response.query, response.session.cluster._prepared_statements
        if hasattr(message, "prepared_statement"):
            sent.append([_sent(message.prepared_statement, message.values)])
        else:
            sent.append([_sent(known[query_id], values) for _, query_id, values in message._statements_and_parameters])

    async with CassandraTables.open(options, "headrace_scheduler") as tables:
        source = JobSource(AllTables.on(CassandraJobTables(tables)), JobLocks(tables.leases), buckets)
        (candidate, *_) = (await source.poll(1)).candidates
        tables.session.driver.add_request_init_listener(listen)
        held = await source.hold(candidate, "raw", HOLD_S)
        if held is None or not await source.settle(held, ItemSettlement(ItemState.DONE, 1, time.time())):
            raise RuntimeError("a job that nobody else holds could not be run")
        tables.session.driver.remove_request_init_listener(listen)
    return sent


def lock_writes(sent: Sequence[SentMessage]) -> list[SentMessage]:
    """The lightweight transactions alone: token, lock, release. Nobody can run a job of this contract with less."""
    return [message for message in sent if " IF " in message[0].text]


def _sent(prepared: Any, values: Sequence[bytes | None]) -> SentStatement:
    levels = (prepared.consistency_level, prepared.serial_consistency_level)
    return SentStatement(prepared.query_string, tuple(values), *levels)


Step = Sequence[tuple[Any, SentStatement]]
"""A message with its statements as this session has prepared them."""


class RawReplay:
    """Sends the recorded messages for many jobs, so many jobs at a time."""

    def __init__(self, session: Any, sent: Sequence[SentMessage], jobs: Sequence[WaitingJob]) -> None:
        self._session, self._jobs = session, iter(jobs)
        self._steps: list[Step] = [[self._prepare(each) for each in message] for message in sent]
        self._lock, self._over, self._lanes = threading.Lock(), threading.Event(), 0
        self._failure: BaseException | None = None
        self.done = 0

    def run(self, lanes: int) -> float:
        """How long it took to send all of them."""
        began, self._lanes = time.perf_counter(), lanes
        for _ in range(lanes):
            self._next_job()
        if not self._over.wait(REPLAY_S_MAX):
            raise TimeoutError(f"the raw statements were not answered within {REPLAY_S_MAX:g} s")
        if self._failure is not None:
            raise self._failure
        return time.perf_counter() - began

    def _prepare(self, sent: SentStatement) -> tuple[Any, SentStatement]:
        prepared = self._session.prepare(sent.text)
        prepared.consistency_level, prepared.serial_consistency_level = sent.consistency, sent.serial_consistency
        return prepared, sent

    def _next_job(self) -> None:
        with self._lock:
            job = next(self._jobs, None)
            if job is None:
                self._lanes -= 1
                if not self._lanes:
                    self._over.set()
                return
        self._next_step(None, job, iter(self._steps))

    def _next_step(self, _: object, job: WaitingJob, steps: Iterator[Step]) -> None:
        step = next(steps, None)
        if step is None:
            with self._lock:
                self.done += 1
            self._next_job()
            return
        future = self._session.execute_async(_message(step, job))
        future.add_callbacks(self._next_step, self._fail, callback_args=(job, steps))

    def _fail(self, error: BaseException, *_: object) -> None:
        self._failure = error
        self._over.set()


def _message(step: Step, job: WaitingJob) -> Any:
    from cassandra.query import BatchStatement, BatchType

    if len(step) == 1:
        return _bound(*step[0], job)
    batch = BatchStatement(BatchType.UNLOGGED, consistency_level=step[0][1].consistency)
    for each in step:
        batch.add(_bound(*each, job))
    return batch


def _bound(prepared: Any, sent: SentStatement, job: WaitingJob) -> Any:
    """The statement for another job: values of columns that are the job's own are bound anew."""
    from cassandra.query import BoundStatement

    own: dict[str, object] = {
        "bucket_id": job.bucket_id,
        "scheduled_time": job.scheduled_time,
        "job_id": job.job_id,
        **dict.fromkeys(RESOURCES, resource_of(job.job_id)),
    }
    bound = BoundStatement(prepared)
    values = list(sent.values)
    for place, column in enumerate(prepared.column_metadata):
        if column.name in own:
            value = own[column.name]
            text = column.name == "job_id" and column.type.typename != "uuid"
            values[place] = column.type.serialize(str(value) if text else value, prepared.protocol_version)
    bound.values = values
    return bound
