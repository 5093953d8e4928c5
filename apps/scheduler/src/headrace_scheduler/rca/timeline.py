"""The timeline: what happened when, with what repeats told once per part of the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.rca.evidence import Evidence
from headrace_scheduler.rca.root_causes import SKEW_S, RootCause

PARTS = 60
ENTRIES_MAX = 500
NAMED = ("call", "error", "error_class", "resource")


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """`kind` is where it was seen: run, dead, log, metric, audit, cause."""

    at: datetime
    kind: str
    words: str
    count: int = 1


def timeline(evidence: Evidence, causes: list[RootCause]) -> list[TimelineEntry]:
    """The earliest first, at most `ENTRIES_MAX`."""
    first: dict[tuple[int, str, str], datetime] = {}
    counts: Counter[tuple[int, str, str]] = Counter()
    for at, kind, words in sorted(_moments(evidence)):
        part = evidence.part_of(at, PARTS)
        if part is not None:
            first.setdefault((part, kind, words), at)
            counts[part, kind, words] += 1
    found = [TimelineEntry(first[key], key[1], key[2], count) for key, count in counts.items()]
    found += [TimelineEntry(each.began_at, "cause", f"{each.cause}: {each.subject}") for each in causes]
    return sorted(found, key=lambda entry: entry.at)[:ENTRIES_MAX]


def _moments(evidence: Evidence) -> Iterator[tuple[datetime, str, str]]:
    for run in evidence.runs:
        if run.end_at is not None and run.status != JobStatus.COMPLETED:
            yield run.end_at, "run", f"a run of {run.worker_id} ended {run.status}"
    for dead in evidence.dead:
        yield dead.at, "dead", f"a job of the type {dead.kind} is dead: {dead.error_class}"
    for event in evidence.events:
        if event.level != "info" or event.event in ("run.missed", "lease.taken"):
            about = [event.fields[name] for name in NAMED if name in event.fields]
            yield event.at, "log", " ".join([event.event, *about])
    for audited in evidence.audited:
        yield audited.at, "audit", f"{audited.action} of {audited.subject}"
    for series in evidence.named("clock_skew"):
        for at, value in series.points:
            if abs(value) > SKEW_S:
                yield at, "metric", f"the clock of {series.labels.get('instance', 'a worker')} is off"
