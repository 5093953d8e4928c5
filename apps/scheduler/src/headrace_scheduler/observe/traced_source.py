"""The source of jobs, with a span and a log line for each step of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from uuid import UUID

import structlog

from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled, SourceContext
from headrace_scheduler.handlers.registry import HandlerRegistry
from headrace_scheduler.jobs.error_classes import error_class
from headrace_scheduler.jobs.values import RESOURCE
from headrace_scheduler.observe.spans import acquired, correlation_of, step
from headrace_scheduler.work.job_source import HeldJob, JobSource

log = structlog.get_logger("scheduler")


class TracedSource:
    """`headrace.sources.Source` on another. From `hold` on every line that is logged for a job has its
    `correlation_id`, whoever logs it: a worker serves an item from its hold to its end in one task."""

    def __init__(self, source: JobSource) -> None:
        self._source, self.features = source, source.features

    async def poll(self, count_max: int) -> Polled:
        return await self._source.poll(count_max)

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        began_ns = time.time_ns()
        held = await self._source.hold(candidate, holder, hold_s)
        if held is None:
            # A race that was lost is a line now and then; many about one resource say that another holds it.
            log.info("run.missed", resource=f"{RESOURCE}{candidate.key}", worker=holder)
            return None
        job_id, trace = _named(held)
        structlog.contextvars.bind_contextvars(correlation_id=correlation_of(trace, job_id))
        acquired(trace, began_ns, job_id, held.fence)
        event = "run.waits" if held.suspect else "run.began"
        log.info(event, job=held.key, fence=held.fence, attempt=held.attempts + 1, worker=holder)
        return held

    async def begin_alone(self, held: HeldItem) -> bool:
        log.info("run.alone", job=held.key, fence=held.fence, crashes=held.crashes)
        return await self._source.begin_alone(held)

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        return await self._source.renew(held, hold_s)

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        job_id, trace = _named(held)
        with step("release", trace, job_id=str(job_id), fencing_token=held.fence, state=str(settlement.state)):
            written = await self._source.settle(held, settlement)
        if written:
            log.info(
                "run.ended",
                job=held.key,
                fence=held.fence,
                state=str(settlement.state),
                took_s=round(settlement.took_s, 3),
                **_failure(settlement),
            )
        return written

    async def give_back(self, held: HeldItem) -> bool:
        job_id, trace = _named(held)
        with step("release", trace, job_id=str(job_id), fencing_token=held.fence, state="given_back"):
            written = await self._source.give_back(held)
        if written:
            # Nothing went wrong, and yet the next line of this job is another run.
            log.info("run.ended", job=held.key, fence=held.fence, state="given_back")
        return written

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        return await self._source.report(held, progress)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._source.on_wake(ring)


class TracedHandlers:
    """The handlers, with a span around each run."""

    def __init__(self, handlers: HandlerRegistry) -> None:
        self._handlers = handlers

    async def __call__(self, text: str | None, context: SourceContext) -> None:
        job_id, trace = _named(context.held)
        with step("run", trace, job_id=str(job_id), fencing_token=context.fence, attempt=context.attempt):
            await self._handlers(text, context)


def _failure(settlement: ItemSettlement) -> dict[str, str]:
    failure = settlement.failure
    if settlement.state is ItemState.DONE or failure is None:
        return {}
    return {"error_class": error_class(failure.reason, failure.rule)}


def _named(held: HeldItem) -> tuple[UUID, str | None]:
    row: HeldJob = held.row
    return row.job.job_id, row.job.terms.correlation_id
