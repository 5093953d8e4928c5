"""What a run of chaos must add up to, judged by what lies in the tables: nothing here looks at how it was done.

The argument is that of docs/scheduler.md, *Why an effect happens once*. Tokens decide; clocks are only believed where
they were right, and then with a tolerance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

from headrace_scheduler.chaos.bank import EFFECT, JournalEntry, ShopAccount
from headrace_scheduler.chaos.fault_plan import FaultKind
from headrace_scheduler.chaos.fleet import LifeClock, WorkerLife
from headrace_scheduler.chaos.traffic import PlannedEnd
from headrace_scheduler.jobs.values import JobRun, JobStatus, resource_of

TOLERANCE = timedelta(milliseconds=500)
"""By so much the clocks of two workers may differ that are both believed: one may be ahead, the other behind."""
LOST = "lost"
"""How the reconciler ends a run whose worker is gone."""
SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class JobAccount:
    """A job that was accepted. `status` None: the tables do not know it."""

    job_id: UUID
    planned: PlannedEnd
    status: str | None
    runs: tuple[JobRun, ...]


@dataclass(frozen=True, slots=True)
class ChaosEvidence:
    """What was read when everything had ended. `held` are locks of jobs that are still held; `sold` are the orders that
    were accepted, `stock` what there was of the article."""

    jobs: Sequence[JobAccount]
    effects: Sequence[tuple[str, int]]
    journal: Sequence[JournalEntry]
    held: Sequence[str]
    lives: Sequence[WorkerLife]
    shop: ShopAccount
    sold: int
    stock: int


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is one of the names below."""

    rule: str
    words: str


def violations(evidence: ChaosEvidence) -> list[Violation]:
    """Everything that is wrong; none is what is promised."""
    found = [*_ends(evidence), *_effects(evidence), *_tokens(evidence), *_orders(evidence), *_clocks(evidence)]
    for job in evidence.jobs:
        found += _runs(job, _clock_by_pid(evidence.lives))
    return found


def unfired(fired: Mapping[FaultKind, int]) -> list[FaultKind]:
    """Kinds that never happened, planned or not: the run shows nothing about them."""
    return [kind for kind in FaultKind if not fired.get(kind)]


def late_refused(journal: Sequence[JournalEntry]) -> int:
    """Acts of runs that came after a later run had begun, and were refused."""
    return sum(not entry.accepted for entry in journal)


def _ends(evidence: ChaosEvidence) -> Iterator[Violation]:
    for job in evidence.jobs:
        if job.status is None:
            yield Violation("job_lost", f"{job.job_id} was accepted, and the tables do not know it")
        elif job.status != job.planned:
            yield Violation("job_ended_wrong", f"{job.job_id} is {job.status}, and had to be {job.planned}")
    for resource in evidence.held:
        yield Violation("lock_left", f"{resource} is held, and nothing runs any more")


def _effects(evidence: ChaosEvidence) -> Iterator[Violation]:
    counts = Counter(job_id for job_id, _ in evidence.effects)
    for job in evidence.jobs:
        expected = 1 if job.planned is PlannedEnd.COMPLETED else 0
        if (count := counts[str(job.job_id)]) > expected:
            yield Violation("double_execution", f"{job.job_id} has {count} effects instead of {expected}")
        elif count < expected:
            yield Violation("effect_lost", f"{job.job_id} has {count} effects instead of {expected}")
    known = {str(job.job_id) for job in evidence.jobs}
    for job_id in counts.keys() - known:
        yield Violation("effect_unknown", f"{job_id} has an effect, and is no job that was accepted")


def _tokens(evidence: ChaosEvidence) -> Iterator[Violation]:
    """What the sink accepted, in its own order: tokens never fall, and each is that of a run in the history."""
    highest: dict[str, int] = {}
    granted = {
        (resource_of(job.job_id), run.fencing_token) for job in evidence.jobs for run in job.runs if run.fencing_token
    }
    for entry in evidence.journal:
        if not entry.accepted:
            continue
        if entry.token < highest.get(entry.resource, 0):
            late = f"after token {highest[entry.resource]}"
            yield Violation("late_write_accepted", f"{entry.resource}: {entry.act} with token {entry.token} {late}")
        if (entry.resource, entry.token) not in granted:
            yield Violation("grant_unknown", f"{entry.resource}: token {entry.token} is that of no run in the history")
        highest[entry.resource] = max(entry.token, highest.get(entry.resource, 0))
    if not any(entry.act == EFFECT and entry.accepted for entry in evidence.journal):
        yield Violation("nothing_done", "no effect was accepted")


def _runs(job: JobAccount, clocks: Mapping[int, LifeClock]) -> Iterator[Violation]:
    """Runs of one job in the order of their tokens, judged by the clocks of workers that had them right."""
    runs = sorted((run for run in job.runs if run.fencing_token), key=lambda run: run.fencing_token or 0)
    if job.status == JobStatus.COMPLETED and runs and runs[-1].status != JobStatus.COMPLETED:
        last = runs[-1]
        yield Violation(
            "status_stale", f"{job.job_id} is completed, and its last run {last.fencing_token} {last.status}"
        )
    believed = [run for run in runs if clocks.get(_pid(run)) in (LifeClock.RIGHT, LifeClock.OFF) and run.start_at]
    for earlier, later in pairwise(believed):
        assert earlier.start_at is not None
        assert later.start_at is not None
        tokens = f"{job.job_id}: run {later.fencing_token}"
        if later.start_at < earlier.start_at - TOLERANCE:
            yield Violation("token_order", f"{tokens} began before run {earlier.fencing_token}")
        if earlier.end_at is None or earlier.status in (LOST, JobStatus.RUNNING):
            continue
        if earlier.end_at > later.start_at + TOLERANCE:
            words = f"{tokens} had begun when run {earlier.fencing_token} ended as {earlier.status}"
            yield Violation("worker_went_on", words)


def _orders(evidence: ChaosEvidence) -> Iterator[Violation]:
    shop, sold = evidence.shop, evidence.sold
    if not shop.orders == shop.paid == shop.shipments == shop.shipped == sold:
        counts = f"{shop.orders} orders, {shop.paid} payments, {shop.shipments} shipments, {shop.shipped} shipped"
        yield Violation("orders_wrong", f"{sold} orders were accepted, and there are {counts}")
    if sold and shop.stock + sold != evidence.stock:
        yield Violation("stock_wrong", f"{evidence.stock} in stock less {sold} sold are not {shop.stock}")


def _clocks(evidence: ChaosEvidence) -> Iterator[Violation]:
    runs: dict[LifeClock, int] = defaultdict(int)
    clocks = _clock_by_pid(evidence.lives)
    for job in evidence.jobs:
        for run in job.runs:
            clock = clocks.get(_pid(run))
            runs[clock or LifeClock.RIGHT] += 1
            if clock is LifeClock.REFUSED:
                yield Violation("clock_not_refused", f"{job.job_id} was run by {run.worker_id}, whose clock is far off")
    if any(life.clock is LifeClock.OFF for life in evidence.lives) and not runs[LifeClock.OFF]:
        yield Violation("clock_refused", "no worker ran anything whose clock was off by less than is allowed")


def _clock_by_pid(lives: Sequence[WorkerLife]) -> dict[int, LifeClock]:
    return {life.pid: life.clock for life in lives}


def _pid(run: JobRun) -> int:
    """A worker's id names its machine, its process and its life."""
    parts = (run.worker_id or "").split(":")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 0
