"""The report as a value and as Markdown: the root cause, what else was seen, what to do, and the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.rca.evidence import Evidence
from headrace_scheduler.rca.root_causes import Cause, RootCause, find_causes
from headrace_scheduler.rca.timeline import TimelineEntry, timeline

PLOT_PARTS = 30
_BLOCKS = "▁▂▃▄▅▆▇█"
TITLES = {
    Cause.CLOCK_SKEW: "A clock is off",
    Cause.NODE_DOWN: "A node is down",
    Cause.WORKER_DOWN: "A worker is down",
    Cause.NO_WORKER: "Jobs are due and not begun",
    Cause.HANDLER_FAILING: "A handler fails",
    Cause.HOT_RESOURCE: "A resource is hot",
    Cause.SATURATION: "The workers are saturated",
}
NOTHING = "Nothing looks wrong"


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure per part of the time."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RcaReport:
    """`phrased` is what a language model made of it, if one was asked."""

    evidence: Evidence
    causes: tuple[RootCause, ...]
    entries: tuple[TimelineEntry, ...]
    phrased: str = ""

    @property
    def headline(self) -> str:
        if not self.causes:
            return NOTHING
        return f"{TITLES[self.causes[0].cause]}: {self.causes[0].subject}"


def report_on(evidence: Evidence) -> RcaReport:
    causes = find_causes(evidence)
    return RcaReport(evidence, tuple(causes), tuple(timeline(evidence, causes)))


def plots(evidence: Evidence) -> list[Plot]:
    """What the history shows over the time, and the series that there are."""
    completed = [run.end_at for run in evidence.runs if run.status == JobStatus.COMPLETED]
    failed = [run.end_at for run in evidence.runs if run.status == JobStatus.FAILED]
    warned = [event.at for event in evidence.events if event.level != "info"]
    found = [
        Plot("runs completed", _counted(evidence, completed)),
        Plot("runs failed", _counted(evidence, failed)),
        Plot("jobs dead", _counted(evidence, [dead.at for dead in evidence.dead])),
        Plot("warnings in the logs", _counted(evidence, warned)),
    ]
    for name, title in (("in_progress", "jobs in progress"), ("clock_skew", "clock skew, s"), ("lwt_p99", "p99, s")):
        for series in evidence.named(name):
            label = series.labels.get("op") or series.labels.get("instance") or ""
            found.append(Plot(f"{title} {label}".strip(), _highest(evidence, series.points)))
    return found


def markdown(report: RcaReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: RcaReport) -> Iterator[str]:
    evidence = report.evidence
    yield f"# {report.headline}"
    yield f"From {time_text(evidence.since)} to {time_text(evidence.until)}: {_seen(evidence)}."
    yield from (f"> Not known: {what}" for what in evidence.missing)
    if report.phrased:
        yield "\n## In other words\n"
        yield from (f"> {line}" for line in report.phrased.splitlines())
        yield "\nA language model wrote this out of the causes below; it is no evidence."
    for number, each in enumerate(report.causes):
        yield f"\n## {'Root cause' if number == 0 else 'Seen as well'}: {each.cause} ({each.subject})\n"
        yield f"Since {time_text(each.began_at)}.\n"
        yield from (f"- {sign}" for sign in each.signs)
        yield "\nWhat you may do:\n"
        yield from (f"{place}. {action}" for place, action in enumerate(each.actions, 1))
    yield "\n## Over the time\n"
    yield "| what | | most |\n| --- | --- | --- |"
    yield from (
        f"| {plot.name} | `{blocks(plot.values)}` | {max(map(abs, plot.values)):g} |" for plot in plots(evidence)
    )
    yield "\n## Timeline\n"
    yield "| at | seen in | what | times |\n| --- | --- | --- | --- |"
    for entry in report.entries:
        yield f"| {time_text(entry.at)} | {entry.kind} | {entry.words.replace('|', '/')} | {entry.count} |"


def blocks(values: Sequence[float]) -> str:
    """A plot of one line of text."""
    most = max(map(abs, values), default=0.0) or 1.0
    return "".join(_BLOCKS[round(abs(value) / most * (len(_BLOCKS) - 1))] for value in values)


def time_text(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def _seen(evidence: Evidence) -> str:
    return (
        f"{len(evidence.jobs):,} jobs, {len(evidence.runs):,} runs, {len(evidence.dead):,} dead, "
        f"{len(evidence.locks):,} locks, {len(evidence.events):,} lines of logs, {len(evidence.series):,} series"
    )


def _counted(evidence: Evidence, moments: Sequence[datetime | None]) -> tuple[float, ...]:
    counts = [0.0] * PLOT_PARTS
    for at in moments:
        part = evidence.part_of(at, PLOT_PARTS) if at is not None else None
        if part is not None:
            counts[part] += 1
    return tuple(counts)


def _highest(evidence: Evidence, points: Sequence[tuple[datetime, float]]) -> tuple[float, ...]:
    highest = [0.0] * PLOT_PARTS
    for at, value in points:
        part = evidence.part_of(at, PLOT_PARTS)
        # A quantile of nothing is no number.
        if part is not None and value == value and abs(value) > abs(highest[part]):
            highest[part] = value
    return tuple(highest)
