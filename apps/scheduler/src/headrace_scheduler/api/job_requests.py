"""What can be asked of jobs, once for every surface: REST, commands, and whoever enqueues from inside.

Only the holder of a job's lock writes its state. So whoever wants a job to run again, or no more, takes the lock first,
and is refused while a worker has it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import structlog

from headrace.errors import Conflict, InvalidPayload, NotFound
from headrace.services import while_held
from headrace_scheduler.handlers.registry import HandlerRegistry
from headrace_scheduler.jobs.buckets import bucket_of
from headrace_scheduler.jobs.schedule_words import scheduled_time
from headrace_scheduler.jobs.texts import check_readable, payload_text
from headrace_scheduler.jobs.values import NO_TERMS, DeadJob, Job, JobKey, JobRun, JobStatus, JobTerms, Pending
from headrace_scheduler.observe.spans import correlation_of, step, traceparent
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.dead_list import DeadList
from headrace_scheduler.tables.job_rows import JobSummary
from headrace_scheduler.tables.job_tables import micros
from headrace_scheduler.tenants.tenant_queue import DEFAULT_NAME, QueueName
from headrace_scheduler.work.callbacks import callback_payload
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import enqueue

HOLDER = "api"
log = structlog.get_logger("scheduler")


@dataclass(frozen=True, slots=True)
class JobWish:
    """A job as a client wants it."""

    schedule: str
    payload: Mapping[str, Any]
    terms: JobTerms = NO_TERMS
    queue: QueueName = DEFAULT_NAME


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job with its queue, the run that began last, and what a list tells of it."""

    job: Job
    queue: QueueName
    last_run: JobRun | None
    summary: JobSummary


class JobRequests:
    """Creates, finds, repeats and cancels jobs: of all tenants, or of one, to whom the others' do not exist."""

    def __init__(
        self, tables: AllTables, locks: JobLocks, handlers: HandlerRegistry, buckets: int, hold_s: float
    ) -> None:
        self.tables = tables
        self._locks, self._handlers, self._buckets, self._hold_s = locks, handlers, buckets, hold_s
        self._tenant = ""

    def of_tenant(self, tenant: str) -> JobRequests:
        """The same for one tenant; "": for all."""
        requests = copy.copy(self)
        requests._tenant = tenant
        return requests

    def check(self, payload: Mapping[str, Any], callback_url: str | None) -> None:
        """Refuse a payload that no handler takes, that does what is not allowed, or that others could not read; and a
        callback that is not allowed."""
        self._handlers.admit(payload)
        check_readable(payload)
        if callback_url is not None:
            try:
                self._handlers.admit(callback_payload(callback_url))
            except InvalidPayload as error:
                raise InvalidPayload(f"callback_url: {error}", error.hint) from None

    async def create(self, wish: JobWish, seed: str, again: bool = False) -> Job:
        """A job whose id is the seed, a UUID of version 7: its time is when the job was first asked for. The same call
        `again` finds what the first has left, and does the rest."""
        self.check(wish.payload, wish.terms.callback_url)
        with step("enqueue", wish.terms.correlation_id, job_id=seed) as span:
            terms = replace(wish.terms, correlation_id=traceparent(span, wish.terms.correlation_id))
            job = await self._create(replace(wish, terms=terms), seed, again)
        correlation_id = correlation_of(terms.correlation_id, job.job_id)
        log.info("job.created", job=str(job.job_id), bucket=job.key.bucket_id, correlation_id=correlation_id)
        return job

    async def _create(self, wish: JobWish, seed: str, again: bool) -> Job:
        job_id, asked_at = UUID(seed), moment_of(seed)
        # The seed was dated by the same clock, and one that is wrong refuses here.
        self.tables.now()
        if again and (found := await self.tables.jobs.find(job_id)) is not None and found.status != JobStatus.PENDING:
            return found
        queue = await self.tables.queues.queue(wish.queue)
        key = JobKey(queue.bucket(job_id, self._buckets), scheduled_time(wish.schedule, asked_at), job_id)
        job = Job(key, payload_text(wish.payload), JobStatus.PENDING, 0, micros(asked_at), wish.terms)
        await self.tables.add_waiting(job)
        return job

    async def find(self, job_id: UUID) -> JobDetail:
        job = await self._job(job_id)
        queue = await self.tables.queues.of_bucket(job.key.bucket_id)
        last_run, summary = await asyncio.gather(self.tables.history.last(job_id), self.tables.jobs.summary(job_id))
        return JobDetail(job, queue.name, last_run, summary)

    async def run_again(self, job_id: UUID) -> Job:
        """Enqueue a job that has ended, from its first attempt on. `Conflict` while it waits or runs."""
        return await while_held(self._run_again(job_id), self._hold_s)

    async def _run_again(self, job_id: UUID) -> Job:
        _refuse_open(await self._job(job_id))
        async with self._locked(job_id) as job:
            _refuse_open(job)
            outcome = await self.tables.jobs.outcome(job_id)
            await self.tables.jobs.forget_cancel(job)
            if job.losses.crash_tokens:
                # It starts anew; whether it kills its worker is seen again.
                await self.tables.jobs.write_losses(job_id, replace(job.losses, crash_tokens=frozenset()))
            # It waits before it is no dead job any more, and is found by a worker after that. A request that is cut off
            # between two of these is carried on by the reconciler.
            job = await self.tables.jobs.write_status(job, JobStatus.PENDING, 0)
            await self.tables.dead.remove(job_id)
            return await enqueue(self.tables, job, self.tables.now(), outcome.pending_time)

    async def dead_tenant(self, job_id: UUID) -> str:
        """Whose dead job it is. Another tenant's is none, and nothing tells the two apart."""
        return (await self._dead(job_id))[1]

    async def redrive(self, job_id: UUID) -> Job:
        """Let a dead job run again. One that only another program knew gets a row of its own."""
        dead, _ = await self._dead(job_id)
        if await self.tables.jobs.find(job_id) is None:
            key = JobKey(bucket_of(job_id, self._buckets), scheduled_time("now", self.tables.now()), job_id)
            await self.tables.jobs.add(Job(key, dead.payload, JobStatus.DLQ, 0, micros(self.tables.now())))
        return await self.run_again(job_id)

    async def _dead(self, job_id: UUID) -> tuple[DeadJob, str]:
        dead, tenant = await self.tables.dead.find(job_id), await DeadList(self.tables).tenant(job_id)
        if dead is None or self._tenant not in ("", tenant):
            raise NotFound(f"there is no dead job {job_id}")
        return dead, tenant

    async def cancel(self, job_id: UUID) -> Job:
        """A job that waits is cancelled at once, one that runs by its worker a second or two later. `Conflict` if it
        has ended."""
        return await while_held(self._cancel(job_id), self._hold_s)

    async def _cancel(self, job_id: UUID) -> Job:
        job = await self._job(job_id)
        if job.ended:
            raise Conflict(f"job {job_id} is {job.status}")
        # What runs is its worker's to end, or the reconciler's: the lock says which run was lost, until it is taken.
        if job.status != JobStatus.RUNNING:
            # Refused: a worker takes it just now.
            with suppress(Conflict):
                async with self._locked(job_id) as held:
                    if not (held.ended or held.status == JobStatus.RUNNING):
                        return await self._cancel_waiting(held)
                    job = held
        if not job.ended:
            now = self.tables.now()
            await self.tables.jobs.ask_cancel(job_id, now)
            await self.tables.cancels.add(job_id, now)
        return job

    async def _cancel_waiting(self, job: Job) -> Job:
        outcome = await self.tables.jobs.outcome(job.job_id)
        job = await self.tables.jobs.write_status(job, JobStatus.CANCELLED, job.attempts)
        if outcome.pending_time is not None:
            pending = Pending(job.key.bucket_id, outcome.pending_time, job.job_id)
            await self.tables.pending.remove(await self.tables.pending.read(pending) or pending)
        return job

    async def _job(self, job_id: UUID) -> Job:
        job = await self.tables.jobs.find(job_id)
        if job is None or not await self._is_shown(job):
            raise NotFound(f"there is no job {job_id}")
        return job

    async def _is_shown(self, job: Job) -> bool:
        return self._tenant in ("", (await self.tables.queues.of_bucket(job.key.bucket_id)).name.tenant)

    @asynccontextmanager
    async def _locked(self, job_id: UUID) -> AsyncIterator[Job]:
        """The job as it is under its lock."""
        # A name of its own for every request: a lock knows its holder by the name.
        leased = await self._locks.take(job_id, f"{HOLDER}:{uuid4()}", self._hold_s)
        if leased is None:
            raise Conflict(f"job {job_id} is held by a worker", "try again when it has ended")
        try:
            yield (await self._job(job_id)).under(leased.lease.fence)
        finally:
            await self._locks.release(job_id, leased.lease.fence)


def moment_of(seed: str) -> datetime:
    """The time of a UUID of version 7."""
    return datetime.fromtimestamp((UUID(seed).int >> 80) / 1_000, UTC)


def _refuse_open(job: Job) -> None:
    if not job.ended:
        raise Conflict(f"job {job.job_id} is {job.status}", "it can run again when it has ended")
