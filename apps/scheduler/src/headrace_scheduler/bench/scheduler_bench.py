"""All measurements of a plan, one after another, and the goals that they are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headrace_scheduler.bench.bench_place import BenchPlace
from headrace_scheduler.bench.bench_plan import (
    FINISHED,
    GOALS,
    IDLE,
    IN_PROGRESS_SMALL,
    JOBS,
    LOCKED,
    LOCKS,
    WORKERS,
    BenchPlan,
    Finding,
)
from headrace_scheduler.bench.bench_report import write_report
from headrace_scheduler.bench.contender import RAW, RAW_LOCKS, SPECIFICATION
from headrace_scheduler.bench.job_bench import DELAYED, DIRECT, OURS, JobLoad, contender, ours
from headrace_scheduler.bench.lock_bench import lock_findings
from headrace_scheduler.bench.locked_bench import locked_finding
from headrace_scheduler.bench.poll_bench import finished_finding, idle_finding

Tell = Callable[[Finding], None]
TIMES_DIRECT, TIMES_DELAYED, RAW_SHARE, TIMES_WORKERS, IDLE_SHARE = 4.0, 8.0, 0.7, 3.5, 0.05
HIDDEN_S = 5.0
FINISHED_TIMES = 2.0
"""Not slower, as far as a poll of some milliseconds can be told from another."""


def run_bench(place: BenchPlace, plan: BenchPlan, tell: Tell, folder: Path) -> tuple[list[Finding], list[Path]]:
    """Measure; each finding is told as it comes, and the report holds it from then on, marked as incomplete until the
    end: what took minutes is not lost to whoever interrupts it. The answer is all findings and the report's files."""
    findings: list[Finding] = []
    parts = {LOCKS: lock_findings, JOBS: _jobs, WORKERS: _workers, IDLE: _idle, FINISHED: _finished}
    parts[LOCKED] = _locked
    with place.keyspace() as fresh:
        for part in plan.parts:
            for finding in parts[part](fresh, plan):
                findings.append(finding)
                write_report([*findings, *goals(findings)], folder, complete=False)
                tell(finding)
    for goal in goals(findings):
        findings.append(goal)
        tell(goal)
    return findings, write_report(findings, folder)


def _jobs(place: BenchPlace, plan: BenchPlan) -> Iterator[Finding]:
    yield from _compared(place, plan, JobLoad(DIRECT, plan.jobs, plan.buckets))
    if place.delayed is not None:
        yield from _compared(place, plan, JobLoad(DELAYED, plan.delayed_jobs, plan.buckets))


def _compared(place: BenchPlace, plan: BenchPlan, load: JobLoad) -> Iterator[Finding]:
    """In turns, so that all meet the same neighbours; the best round of each counts."""
    found: dict[str, list[Finding]] = {SPECIFICATION: [], RAW_LOCKS: [], RAW: [], OURS: []}
    few = JobLoad(load.line, plan.share(load.jobs), load.buckets)
    for _ in range(plan.rounds):
        found[SPECIFICATION].append(contender(place, SPECIFICATION, few))
        for who in (RAW_LOCKS, RAW):
            found[who].append(contender(place, who, load))
        found[OURS].append(ours(place, load))
    best = {who: max(runs, key=_rate) for who, runs in found.items()}
    for finding in best.values():
        yield {**finding, "times": round(_rate(finding) / _rate(best[SPECIFICATION]), 2)}


def _workers(place: BenchPlace, plan: BenchPlan) -> Iterator[Finding]:
    """NFR-3: what several workers do that hold few jobs each, where the line is slow."""
    line = DIRECT if place.delayed is None else DELAYED
    found = []
    for workers in (1, plan.workers):
        load = JobLoad(line, plan.delayed_jobs * workers // 2, plan.buckets, workers, IN_PROGRESS_SMALL)
        found.append({**ours(place, load), "part": WORKERS})
        yield {**found[-1], "times": round(_rate(found[-1]) / _rate(found[0]), 2)}


def _idle(place: BenchPlace, plan: BenchPlan) -> Iterator[Finding]:
    yield idle_finding(place, plan)


def _finished(place: BenchPlace, plan: BenchPlan) -> Iterator[Finding]:
    yield finished_finding(place, plan)


def _locked(place: BenchPlace, plan: BenchPlan) -> Iterator[Finding]:
    yield locked_finding(place, plan)


def goals(findings: Sequence[Finding]) -> Iterator[Finding]:
    """What was asked for, as far as it was measured."""
    rates = {(each["who"], each["line"]): _rate(each) for each in findings if each["part"] == JOBS}
    for line, wanted in ((DIRECT, TIMES_DIRECT), (DELAYED, TIMES_DELAYED)):
        if (OURS, line) in rates:
            times = rates[OURS, line] / rates[SPECIFICATION, line]
            yield _goal(f"times the specification, {line}", times, wanted)
    if (OURS, DIRECT) in rates:
        yield _goal("share of the raw limit", rates[OURS, DIRECT] / rates[RAW, DIRECT], RAW_SHARE)
    for each in findings:
        if each["part"] == WORKERS and each["workers"] != 1 and each["line"] == DELAYED:
            yield _goal(f"{each['workers']} workers, times one", float(str(each["times"])), TIMES_WORKERS)
        if each["part"] == IDLE:
            yield _goal("core of an idle worker", float(str(each["core_share"])), IDLE_SHARE, at_most=True)
        if each["part"] == FINISHED:
            times = float(str(each["times"]))
            yield _goal(f"poll after {each['jobs']} jobs, times before", times, FINISHED_TIMES, at_most=True)
        if each["part"] == LOCKED:
            hidden = float(str(each["hidden_s"]))
            yield _goal(f"s behind {each['locked']} locked jobs", hidden, HIDDEN_S, at_most=True)


def _goal(goal: str, found: float, wanted: float, at_most: bool = False) -> Finding:
    reached = found <= wanted if at_most else found >= wanted
    return {
        "part": GOALS,
        "goal": goal,
        "wanted": f"{'≤' if at_most else '≥'} {wanted:g}",
        "found": round(found, 3),
        "reached": reached,
    }


def _rate(finding: Finding) -> float:
    return float(str(finding["jobs_per_s"]))
