"""Collects the evidence: rows of the tables, lines of logs, series of a Prometheus. It only reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from headrace.errors import HeadraceError
from headrace_scheduler.jobs.error_classes import error_class
from headrace_scheduler.jobs.values import DeadJob, JobRun
from headrace_scheduler.parts import SchedulerParts
from headrace_scheduler.rca.evidence import Audited, Evidence, LogEvent, SeenDeath, SeenJob, SeenLock
from headrace_scheduler.rca.log_files import read_log
from headrace_scheduler.rca.prometheus_series import read_series
from headrace_scheduler.tables.audit_events import AuditEvents
from headrace_scheduler.tables.job_list import JobList, JobQuestion

JOBS_MAX = 2_000
LOCKS_MAX = 2_000
DEAD_PAGE = 500
DEAD_MAX = 5_000


@dataclass(frozen=True, slots=True)
class WhereToLook:
    """The time, and what there is beside the tables."""

    since: datetime
    until: datetime
    logs: Sequence[Path] = ()
    prometheus: str = ""


async def collect(parts: SchedulerParts, where: WhereToLook) -> Evidence:
    """What cannot be had is named in the evidence, and the rest is judged."""
    found = logged(where)
    try:
        found = await _from_tables(parts, found)
    except HeadraceError as error:
        if not error.heals:
            raise
        found = missed(found, f"tables: {type(error).__name__}")
    if not where.prometheus:
        return missed(found, "metrics: no --prometheus was named")
    try:
        return replace(found, series=tuple(await read_series(where.prometheus, where.since, where.until)))
    except HeadraceError as error:
        return missed(found, f"metrics: {error}")


def logged(where: WhereToLook) -> Evidence:
    """What the logs say alone."""
    events: list[LogEvent] = []
    for path in where.logs:
        events += read_log(path, where.since, where.until)
    events.sort(key=lambda event: event.at)
    found = Evidence(where.since, where.until, events=tuple(events))
    return found if where.logs else missed(found, "logs: no --log was named")


def missed(evidence: Evidence, what: str) -> Evidence:
    return replace(evidence, missing=(*evidence.missing, what))


async def _from_tables(parts: SchedulerParts, found: Evidence) -> Evidence:
    tables, since, until = parts.tables, found.since, found.until
    rows, more = await JobList(tables, parts.installation.polled).page(JobQuestion(since, until), JOBS_MAX)
    runs: list[JobRun] = []
    for row in rows:
        runs += await tables.history.runs(row.key.job_id)
    locks: list[SeenLock] = []
    async for lease in parts.leases.leases():
        if lease.holder and len(locks) < LOCKS_MAX:
            locks.append(SeenLock(lease.name, lease.holder, lease.fence, lease.free))
    found = replace(
        found,
        jobs=tuple(SeenJob(row.key.job_id, row.key.scheduled_time, row.status) for row in rows),
        runs=tuple(sorted(runs, key=lambda run: run.start_at or since)),
        dead=tuple([_death(dead) for dead in await _dead(parts) if since <= dead.last_attempt_at < until]),
        locks=tuple(locks),
        audited=tuple(await _audited(parts, since, until)),
    )
    return found if more is None else missed(found, f"jobs: only the latest {len(rows):,}")


async def _dead(parts: SchedulerParts) -> list[DeadJob]:
    found: list[DeadJob] = []
    after = None
    while len(found) < DEAD_MAX and (page := await parts.tables.dead.page(after, DEAD_PAGE)):
        found, after = found + page, page[-1].job_id
    return found


async def _audited(parts: SchedulerParts, since: datetime, until: datetime) -> list[Audited]:
    found: list[Audited] = []
    day = since.date()
    while day <= until.date():
        for event in await AuditEvents(parts.tables.tables).of_day(day.isoformat()):
            # A new job is no act of an operator, and there may be thousands.
            if since <= event.at < until and event.action != "POST /jobs":
                found.append(Audited(event.at, event.action, event.subject))
        day += timedelta(days=1)
    return found


def _death(dead: DeadJob) -> SeenDeath:
    named = error_class(dead.error_class or "", "") or (dead.last_error or "").partition(":")[0]
    return SeenDeath(dead.job_id, dead.last_attempt_at, named if named.isidentifier() else "refused", _kind(dead))


def _kind(dead: DeadJob) -> str:
    """The type of its payload, and nothing else of it."""
    try:
        payload = json.loads(dead.payload or "{}")
    except ValueError:
        return "unreadable"
    kind = payload.get("type", "none") if isinstance(payload, dict) else "unreadable"
    return kind if isinstance(kind, str) and kind.isidentifier() else "unknown"
