"""Operator verbs that are more than one call on a port, written once for all surfaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headrace.core.backoff import Backoff
from headrace.core.errors import CallerError, NotFound
from headrace.core.graph import Kind
from headrace.core.jobs import ItemView, JobFilter, JobView
from headrace.core.recount import Finding, dropped, explain_open, recount
from headrace.core.tally import JobState
from headrace.ports.inspector import Inspector

PAGE = 100
# Less than this is more often a slip than an id.
ID_PART_CHARS_MIN = 4
CANDIDATES_SHOWN = 5
LOOKS = Backoff(0.01, 0.25, jitter=0.0)


@dataclass(frozen=True, slots=True)
class Verified:
    """One job's recount: what is wrong with its account, what is open in it and why, and how many items of it nobody
    can recount any more, because retention dropped them. `readable` is False if nothing of it is left to recount."""

    job: str
    findings: tuple[Finding, ...]
    open: tuple[str, ...]
    dropped: int = 0
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Unwanted:
    """An open stage that none of the flows at hand has a handler for."""

    job: str
    flow: str
    stage: str
    waiting: int


@dataclass(frozen=True, slots=True)
class Unattended:
    """A stage in which items wait and of which nobody holds any; `oldest_at` is when its oldest job was submitted."""

    flow: str
    stage: str
    waiting: int
    oldest_at: float


async def find_job(inspector: Inspector, given: str) -> str:
    """The id of the job that is meant, by all of it or by a beginning or end that no other job has."""
    try:
        return (await inspector.job(given)).id
    except NotFound:
        if len(given) < ID_PART_CHARS_MIN:
            raise
        found = [view.id for view in await inspector.jobs(JobFilter(part=given, limit=CANDIDATES_SHOWN + 1))]
        if not found:
            raise
    if len(found) > 1:
        more = ", …" if len(found) > CANDIDATES_SHOWN else ""
        raise CallerError(f"several jobs could be meant by {given!r}", ", ".join(found[:CANDIDATES_SHOWN]) + more)
    return found[0]


async def every_job(inspector: Inspector, which: JobFilter) -> AsyncIterator[JobView]:
    """All jobs that match, newest first, page by page: a limit of 0 means no limit."""
    left = which.limit or None
    page_filter = replace(which, limit=PAGE if left is None else min(PAGE, left))
    while page := await inspector.jobs(page_filter):
        for job in page:
            yield job
        if left is not None:
            left -= len(page)
        if len(page) < page_filter.limit or left == 0:
            return
        page_filter = replace(page_filter, before=page[-1].id, limit=PAGE if left is None else min(PAGE, left))


class ItemSource(Protocol):
    """Where items are listed: an inspector, or an engine, which decodes their payloads."""

    async def items(self, job: str, stage: str, after_seq: int, limit: int) -> Sequence[ItemView]: ...


async def every_item(source: ItemSource, job: str, stages: Sequence[str], limit: int) -> AsyncIterator[ItemView]:
    """Items of these stages in order, at most `limit` of them."""
    for stage in stages:
        after = -1
        while limit > 0 and (page := await source.items(job, stage, after, min(PAGE, limit))):
            for item in page:
                yield item
            limit -= len(page)
            after = page[-1].seq


async def verify(inspector: Inspector, job: str) -> Verified:
    """Recount one job from its chunks and bit planes, in one snapshot, without trusting its tallies."""
    audit = await inspector.audit(job)
    readable = audit.generation > audit.pruned
    return Verified(job, tuple(recount(audit)), tuple(explain_open(audit)), dropped(audit), readable)


async def verify_all(inspector: Inspector, which: JobFilter) -> AsyncIterator[Verified]:
    """Recount every job that matches; one that retention removes meanwhile is no finding."""
    async for view in every_job(inspector, which):
        try:
            yield await verify(inspector, view.id)
        except NotFound:
            continue


async def watch(inspector: Inspector, job: str) -> AsyncIterator[JobView]:
    """The job as it moves: each state that differs from the one before, the last one being its end.

    Looks often while something happens and seldom while nothing does.
    """
    seen: JobView | None = None
    looks = 0
    while True:
        view = await inspector.job(job)
        looks = 1 if view != seen else looks + 1
        if view != seen:
            yield view
        if view.state is not JobState.OPEN:
            return
        seen = view
        await asyncio.sleep(LOOKS.pause_s(looks))


async def idle(inspector: Inspector) -> bool:
    """Whether no job is open."""
    return not await inspector.jobs(JobFilter(state=JobState.OPEN, limit=1))


async def unwanted(inspector: Inspector, known: Iterable[tuple[str, str]]) -> list[Unwanted]:
    """Open work that no handler among `known` (flow, stage) would take: worker and submitter differ in version."""
    handled = set(known)
    found = []
    async for view in every_job(inspector, JobFilter(state=JobState.OPEN, limit=0)):
        for spec in view.graph.stages:
            tally = view.stages.get(spec.name)
            if spec.kind is Kind.EXTERNAL or tally is None or tally.closed or (view.flow, spec.name) in handled:
                continue
            found.append(Unwanted(view.id, view.flow, spec.name, tally.waiting))
    return found


async def out_of_reach(inspector: Inspector, known: Iterable[tuple[str, str]]) -> list[Unwanted]:
    """What waits in open jobs, provided that none of it can be moved by a handler among `known` (flow, stage), by an
    external event or by a resume; else an empty list."""
    handled = set(known)
    found: list[Unwanted] = []
    async for view in every_job(inspector, JobFilter(state=JobState.OPEN, limit=0)):
        lacking = []
        for spec in view.graph.stages:
            tally = view.stages.get(spec.name)
            if tally is None or not tally.waiting + tally.held:
                continue
            if view.paused or tally.held or spec.kind is Kind.EXTERNAL or (view.flow, spec.name) in handled:
                return []
            lacking.append(Unwanted(view.id, view.flow, spec.name, tally.waiting))
        if not lacking:
            return []
        found += lacking
    return found


async def unattended(inspector: Inspector, before: float) -> list[Unattended]:
    """Stages with waiting items that nobody holds any of, in jobs that were submitted before this moment."""
    held: set[tuple[str, str]] = set()
    waiting: dict[tuple[str, str], Unattended] = {}
    async for view in every_job(inspector, JobFilter(state=JobState.OPEN, limit=0)):
        for spec in view.graph.stages:
            tally, place = view.stages.get(spec.name), (view.flow, spec.name)
            if tally is None or spec.kind is Kind.EXTERNAL:
                continue
            if tally.held:
                held.add(place)
            if tally.waiting and not view.paused and view.submitted_at < before:
                so_far = waiting.get(place, Unattended(*place, 0, view.submitted_at))
                oldest_at = min(so_far.oldest_at, view.submitted_at)
                waiting[place] = Unattended(*place, so_far.waiting + tally.waiting, oldest_at)
    return [found for place, found in waiting.items() if place not in held]
