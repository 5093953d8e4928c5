"""The account of chaos: every rule is broken once, and found."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from headrace_scheduler.chaos.account import ChaosEvidence, JobAccount, late_refused, unfired, violations
from headrace_scheduler.chaos.bank import JournalEntry, ShopAccount
from headrace_scheduler.chaos.fault_plan import FULL, SMALL, ChaosSize, FaultKind, plan_faults
from headrace_scheduler.chaos.fleet import LifeClock, WorkerLife
from headrace_scheduler.chaos.traffic import PlannedEnd
from headrace_scheduler.jobs.values import JobRun

JOB, NOW = UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC)
RESOURCE = f"job:{JOB}"


def run(token: int, status: str, begin_s: float, end_s: float | None, pid: int = 7) -> JobRun:
    end = None if end_s is None else NOW + timedelta(seconds=end_s)
    return JobRun(JOB, UUID(int=token), f"host:{pid}:ab", token, NOW + timedelta(seconds=begin_s), end, status)


LOST, DONE = run(1, "lost", 0, 9), run(2, "completed", 5, 6)
ACCOUNT = JobAccount(JOB, PlannedEnd.COMPLETED, "completed", (DONE, LOST))
RIGHT = ChaosEvidence(
    jobs=[ACCOUNT],
    effects=[(str(JOB), 2)],
    journal=[
        JournalEntry(RESOURCE, 1, "begin", True),
        JournalEntry(RESOURCE, 2, "begin", True),
        JournalEntry(RESOURCE, 1, "effect", False),
        JournalEntry(RESOURCE, 2, "effect", True),
    ],
    held=[],
    lives=[WorkerLife(7, "worker"), WorkerLife(8, "worker", LifeClock.REFUSED)],
    shop=ShopAccount(3, 3, 3, 3, 97),
    sold=3,
    stock=100,
)


def broken(**changes: object) -> ChaosEvidence:
    return replace(RIGHT, **changes)  # type: ignore[arg-type]


def job(**changes: object) -> ChaosEvidence:
    return broken(jobs=[replace(ACCOUNT, **changes)])  # type: ignore[arg-type]


def rules(evidence: ChaosEvidence) -> set[str]:
    return {each.rule for each in violations(evidence)}


def test_what_adds_up_is_not_complained_of() -> None:
    assert violations(RIGHT) == []
    assert late_refused(RIGHT.journal) == 1


@pytest.mark.parametrize(
    ("rule", "evidence"),
    [
        ("job_lost", job(status=None)),
        ("job_ended_wrong", job(status="running")),
        ("job_ended_wrong", job(status="dlq")),
        ("lock_left", broken(held=[RESOURCE])),
        ("double_execution", broken(effects=[(str(JOB), 1), (str(JOB), 2)])),
        ("effect_lost", broken(effects=[])),
        ("double_execution", job(planned=PlannedEnd.DEAD, status="dlq")),
        ("effect_unknown", broken(effects=[(str(JOB), 2), ("another", 1)])),
        (
            "late_write_accepted",
            broken(journal=[*RIGHT.journal, JournalEntry(RESOURCE, 1, "effect", True)]),
        ),
        ("grant_unknown", broken(journal=[*RIGHT.journal, JournalEntry(RESOURCE, 3, "begin", True)])),
        ("nothing_done", broken(journal=RIGHT.journal[:3])),
        ("status_stale", job(runs=(DONE, run(3, "running", 7, None)))),
        ("token_order", job(runs=(run(1, "lost", 9, 9), DONE))),
        ("worker_went_on", job(runs=(run(1, "completed", 0, 9), DONE))),
        ("clock_not_refused", job(runs=(run(1, "lost", 0, 3, pid=8), DONE))),
        ("clock_refused", broken(lives=[*RIGHT.lives, WorkerLife(9, "worker", LifeClock.OFF)])),
        ("orders_wrong", broken(shop=ShopAccount(3, 3, 2, 2, 97))),
        ("orders_wrong", broken(sold=4)),
        ("stock_wrong", broken(shop=ShopAccount(3, 3, 3, 3, 98))),
    ],
)
def test_each_rule_is_kept_by_the_account(rule: str, evidence: ChaosEvidence) -> None:
    assert rule in rules(evidence)


def test_a_clock_that_jumped_is_not_believed() -> None:
    lives = [*RIGHT.lives, WorkerLife(9, "worker", LifeClock.JUMPED)]
    runs = (run(1, "completed", 900, 901, pid=9), DONE)
    assert rules(replace(job(runs=runs), lives=lives)) == set()


def test_a_kind_that_never_happened_makes_a_run_void() -> None:
    fired = dict.fromkeys(FaultKind, 1)
    assert unfired(fired) == []
    assert unfired(fired | {FaultKind.NODE_PAUSE: 0}) == [FaultKind.NODE_PAUSE]


@pytest.mark.parametrize("size", [SMALL, FULL])
def test_a_plan_has_every_kind_as_often_as_asked_and_follows_from_its_seed(size: ChaosSize) -> None:
    plan = plan_faults(7, 60.0, 4.0, size)
    assert plan == plan_faults(7, 60.0, 4.0, size)
    assert plan != plan_faults(8, 60.0, 4.0, size)
    faults = [fault for lane in plan.lanes for fault in lane]
    assert {kind: sum(fault.kind is kind for fault in faults) for kind in FaultKind} == dict(size.targets)
    assert all(0 <= fault.at_s <= 60.0 for fault in faults)
    assert all(fault.lasts_s > 4.0 for fault in faults if fault.kind is FaultKind.WORKER_FREEZE)
    offsets = {kind: [abs(fault.size) for fault in faults if fault.kind is kind] for kind in FaultKind}
    assert max(offsets[FaultKind.CLOCK_OFF]) < 0.4 < min(offsets[FaultKind.CLOCK_REFUSED])
