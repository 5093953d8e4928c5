"""What the report says, read from the tables: a value, from which the page is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.errors import CallerError
from headrace.tables import OpenTables
from headrace_pm.operators.delivery_gaps import GapReport, gap_report
from headrace_pm.operators.periods import EPOCH, PeriodSpan
from headrace_pm.report.error_groups import ErrorGroup, grouped
from headrace_pm.tables.counts import FileCounts

# Apart from the sinks: Kafka has acknowledged a file before ClickHouse shows it, and only who looks knows when it does.
SEEN = "clickhouse"
SINKS = ("both", "mysql", "kafka", SEEN)
PERCENTILES = (50, 95, 99)
# A chart of about fifty columns can be read.
STEPS_S = (300, 900, 3_600, 3 * 3_600, 6 * 3_600, 86_400)
STEPS_MAX = 60
MESSAGES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class FileLatency:
    """How long files took: how many took how many seconds."""

    seconds: Mapping[int, int]

    @property
    def count(self) -> int:
        return sum(self.seconds.values())

    def percentile(self, share: float) -> int | None:
        """The least number of seconds within which this share (of 100) was done; None without files."""
        needed, done = self.count * share / 100, 0
        for seconds in sorted(self.seconds):
            done += self.seconds[seconds]
            if done >= needed:
                return seconds
        return None


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """Everything of a span of time. `steps` are the columns of the charts; `gaps` is None if no element is known, and
    `gaps_missing` says why."""

    made_at: datetime
    steps: PeriodSpan
    now: Mapping[str, int]
    states: Mapping[int, Mapping[str, int]]
    latency: Mapping[str, FileLatency]
    latency_steps: Mapping[int, FileLatency]
    errors: tuple[ErrorGroup, ...]
    gaps: GapReport | None
    gaps_missing: str = ""

    @property
    def seen(self) -> int:
        return sum(sum(counts.values()) for counts in self.states.values())


async def pipeline_report(
    tables: OpenTables, first: datetime, end: datetime, periods: PeriodSpan, made_at: datetime
) -> PipelineReport:
    """Read it: files between two moments, and which of the periods are missing."""
    steps = PeriodSpan.around(first, end, step_for(end - first))
    asked = {"first": steps.first, "end": steps.end, "step_s": steps.period_s}
    states: dict[int, Counter[str]] = {}
    for step, state, count in await tables.rows("report_states", **asked):
        states.setdefault(_place(steps, step), Counter())[state] += count
    by_sink: dict[str, Counter[int]] = {sink: Counter() for sink in SINKS}
    by_step: dict[int, Counter[int]] = {}
    for step, sink, seconds, count in await tables.rows("report_latency", **asked):
        by_sink[sink][seconds] += count
        if sink == SINKS[0]:
            by_step.setdefault(_place(steps, step), Counter())[seconds] += count
    gaps, why = await _gaps(tables, periods)
    return PipelineReport(
        made_at,
        steps,
        await FileCounts(tables).by_state(),
        states,
        {sink: FileLatency(counts) for sink, counts in by_sink.items()},
        {step: FileLatency(counts) for step, counts in by_step.items()},
        grouped(await tables.rows("report_errors", first=steps.first, end=steps.end, count_max=MESSAGES_MAX)),
        gaps,
        why,
    )


async def _gaps(tables: OpenTables, periods: PeriodSpan) -> tuple[GapReport | None, str]:
    """A report is wanted also where nobody can say what is missing; then it says why."""
    try:
        return await gap_report(tables, periods), ""
    except CallerError as error:
        return None, str(error)


def step_for(length: timedelta) -> int:
    """The shortest step of which there are not too many."""
    seconds = length.total_seconds()
    return next((step for step in STEPS_S if seconds / step <= STEPS_MAX), STEPS_S[-1])


def _place(steps: PeriodSpan, step: int) -> int:
    return steps.number_of(EPOCH + timedelta(seconds=int(step) * steps.period_s))
