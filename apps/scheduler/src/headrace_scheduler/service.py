"""The services: `all` is the specification's worker, and each of its three parts can be run alone."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import TryAgain
from headrace.services import Asked, Service
from headrace.sources import SourceOptions, SourceWorker
from headrace_scheduler.api.access import access_of
from headrace_scheduler.cron.cron_firer import CronFirer
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.handlers.registry import HandlerRegistry, builtin_handlers
from headrace_scheduler.handlers.running_job import JobHandler
from headrace_scheduler.observe.traced_source import TracedHandlers, TracedSource
from headrace_scheduler.observe.write_probe import WriteProbe
from headrace_scheduler.parts import SchedulerParts
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.tables.audit_events import AuditEvents
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.tenants.places import BoundedSource, TenantPlaces
from headrace_scheduler.work.cancel_watch import CancelWatch
from headrace_scheduler.work.job_source import JobSource

if TYPE_CHECKING:
    from fastapi import APIRouter


@dataclass(frozen=True, slots=True)
class Roles:
    """What a service does."""

    api: bool = False
    worker: bool = False
    reconciler: bool = False


ROLES: Mapping[str, Roles] = {
    "all": Roles(api=True, worker=True, reconciler=True),
    "api": Roles(api=True),
    "worker": Roles(worker=True),
    "reconciler": Roles(reconciler=True),
}


class SchedulerService(Service):
    """One process of an installation, in one or several roles. `handlers` are those beside the scheduler's own."""

    def __init__(self, name: str, parts: SchedulerParts, handlers: Mapping[str, JobHandler] | None = None) -> None:
        self.name, self._parts, self._roles = name, parts, ROLES[name]
        known = {**builtin_handlers(parts.settings), **(handlers or {})}
        self.handlers = HandlerRegistry(known, runs=self._roles.worker)
        self.registry, self.idempotency = parts.registry, parts.request_keys
        self.worker = job_worker(parts, self.handlers) if self._roles.worker else None
        self._creator = FireCreator(parts.tables, parts.locks, parts.installation.buckets)
        self.access = access_of(parts.settings, AuditEvents(parts.tables.tables), parts.tables.now)
        self._polling = False
        self.health = {"tables": Asked(parts.answers)}
        poller = {"poller": Asked(self._polls)} if self.worker is not None else {}
        writes = WriteProbe(parts.tables.tables, parts.settings.home)
        self.parts = {**self.health, "writes": writes, "clock": Asked(self._clock_counts), **poller}

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            if self.worker is not None:
                group.create_task(self._work(self.worker, stop))
                group.create_task(CancelWatch(self._parts.tables, self.worker).run(stop))
                group.create_task(self._firer().run(stop))
            if self._roles.reconciler:
                group.create_task(JobReconciler(self._parts).run(stop))
            await stop.wait()

    def workers(self) -> Sequence[SourceWorker]:
        return () if self.worker is None else (self.worker,)

    def routes(self) -> Sequence[APIRouter]:
        if not self._roles.api:
            return ()
        from headrace_scheduler.api.audit_routes import audit_routes
        from headrace_scheduler.api.job_requests import JobRequests
        from headrace_scheduler.api.routes import JobSurface, dead_routes, job_routes, told_routes
        from headrace_scheduler.cron.calendar_routes import calendar_routes
        from headrace_scheduler.cron.operations import CronOperations
        from headrace_scheduler.cron.routes import cron_routes
        from headrace_scheduler.tables.job_list import JobList
        from headrace_scheduler.tenants.open_jobs import OpenJobs

        parts = self._parts
        buckets = parts.installation
        requests = JobRequests(parts.tables, parts.locks, self.handlers, buckets.buckets, parts.settings.lock_ttl_s)
        rules = parts.settings.tenants
        cron = CronOperations(parts.tables, self._creator, rules)
        open_jobs = OpenJobs(parts.tables, buckets.polled, rules)
        surface = JobSurface(requests, JobList(parts.tables, buckets.polled), cron, open_jobs)
        others = [calendar_routes(parts.tables), audit_routes(AuditEvents(parts.tables.tables))]
        return [job_routes(surface), told_routes(surface), dead_routes(surface), cron_routes(cron), *others]

    def _firer(self) -> CronFirer:
        tables = self._parts.tables
        return CronFirer(CronRows(tables.tables, tables.unread), self._creator, tables.now)

    async def _work(self, worker: SourceWorker, stop: asyncio.Event) -> None:
        running = asyncio.ensure_future(worker.run())
        stopped = asyncio.ensure_future(stop.wait())
        self._polling = True
        try:
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            worker.drain()
            await running
        finally:
            self._polling = False
            stopped.cancel()
            running.cancel()

    async def _clock_counts(self) -> None:
        """`ClockSkewed` while this clock is refused: then no job is taken, created or fired here."""
        self._parts.tables.now()

    async def _polls(self) -> None:
        if self.worker is None or not self._polling:
            raise TryAgain("the poller does not run")
        if still_s := self.worker.still_s():
            raise TryAgain(f"the poller has not got on for {still_s:.0f} s more than it may")


def job_worker(parts: SchedulerParts, handlers: HandlerRegistry) -> SourceWorker:
    """The worker of one process on the tables of an installation."""
    settings = parts.settings
    options = SourceOptions(
        name="jobs",
        in_progress_max=settings.max_in_progress,
        hold_s=settings.lock_ttl_s,
        poll_s=settings.poll_interval_s,
        retry=settings.retries,
        id=f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}",
        on_settled=parts.metrics.settled,
        quotes_errors=False,
    )
    places = TenantPlaces(settings.tenants)
    jobs = JobSource(parts.tables, parts.locks, parts.installation.polled, room=places.room)
    source = BoundedSource(TracedSource(jobs), parts.tables.queues, places)
    worker = SourceWorker(source, TracedHandlers(handlers), options)
    parts.metrics.watch(lambda: worker.in_progress, settings.max_in_progress)
    return worker
