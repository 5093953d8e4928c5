"""Series by the names of the specification: all there at 0, and what each of them counts."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from scheduler_losses import run_out
from scheduler_world import HOLD_S, World
from waiting import eventually, turn

from headrace.ports import LeaseOperation, LeaseOutcome, LeaseVerb
from headrace.sources import HeldItem, ItemSettlement, ItemState
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.metrics import SchedulerMetrics, renewal_of
from headrace_scheduler.reconciler.reconciler import LEASE, JobReconciler

LOCKS = (
    "lock_acquire_attempt_total",
    "lock_acquire_success_total",
    "lock_takeover_success_total",
    "lock_renew_success_total",
    "lock_renew_failure_total",
    "lock_release_success_total",
    "lock_release_failure_total",
)
PLAIN = ("jobs_in_progress", "job_duration_seconds_count", "jobs_dlq_total", "lock_clock_skew_seconds", *LOCKS)
OPERATIONS = ("acquire", "renew", "release", "takeover", "next_seq")


def counted(registry: CollectorRegistry) -> dict[str, float | None]:
    """Every series of the specification; None: it is not there."""
    found = {name: registry.get_sample_value(name) for name in PLAIN}
    for status in ("completed", "failed"):
        found[status] = registry.get_sample_value("jobs_processed_total", {"status": status})
    for op in OPERATIONS:
        found[op] = registry.get_sample_value("lwt_latency_seconds_count", {"op": op})
    return found


async def cut_off(renewal: asyncio.Future[bool]) -> None:
    renewal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await renewal


async def test_every_series_is_at_0_before_the_first_job_also_while_the_reconciler_leads(embedded: World) -> None:
    stop = asyncio.Event()
    leading = asyncio.ensure_future(JobReconciler(embedded.parts).run(stop))

    async def leads() -> bool:
        lease = await embedded.parts.leases.look(LEASE)
        return lease is not None and lease.holder != ""

    await eventually(leads, "the reconciler leads")
    assert set(counted(embedded.parts.registry).values()) == {0.0}
    stop.set()
    await leading
    assert set(counted(embedded.parts.registry).values()) == {0.0}


async def test_locks_of_jobs_are_counted_as_they_are_used(embedded: World) -> None:
    held = await embedded.hold((await embedded.create()).job_id)
    assert held is not None
    assert await embedded.source.renew(held, HOLD_S)
    assert await embedded.source.settle(held, embedded.settlement())
    found = counted(embedded.parts.registry)
    assert [found[name] for name in LOCKS] == [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert [found[op] for op in OPERATIONS] == [1.0, 1.0, 1.0, 0.0, 0.0]


async def test_a_renewal_that_the_end_of_its_run_overtakes_is_no_failure(world: World) -> None:
    """It is cut off when the run has ended, or finds the lock released; one that nobody answers is a failure."""
    held = await world.hold((await world.create()).job_id)
    assert held is not None
    renewal = asyncio.ensure_future(world.source.renew(held, HOLD_S))
    await turn()
    settling = asyncio.ensure_future(world.source.settle(held, world.settlement()))
    await turn()
    await cut_off(renewal)
    assert await settling
    assert not await world.source.renew(held, HOLD_S)
    assert counted(world.parts.registry)["lock_renew_failure_total"] == 0.0
    other = await world.hold((await world.create()).job_id)
    assert other is not None
    renewal = asyncio.ensure_future(world.source.renew(other, HOLD_S))
    await turn()
    await cut_off(renewal)
    assert counted(world.parts.registry)["lock_renew_failure_total"] == 1.0


async def test_an_error_while_a_run_ends_is_a_failed_renewal() -> None:
    ended = SchedulerMetrics(CollectorRegistry())
    with renewal_of(lambda: True):
        ended.lease_used(LeaseOperation(LeaseVerb.RENEW, 0.01, LeaseOutcome.FAILED))
    assert counted(ended.registry)["lock_renew_failure_total"] == 1.0


def test_refusals_and_takeovers_are_told_apart() -> None:
    metrics = SchedulerMetrics(CollectorRegistry())
    for op in LeaseVerb:
        for outcome in LeaseOutcome:
            metrics.lease_used(LeaseOperation(op, 0.01, outcome))
    found = counted(metrics.registry)
    # Of each three one was granted, one refused and one not answered.
    assert [found[name] for name in LOCKS] == [3.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0]
    assert {found[op] for op in OPERATIONS} == {3.0}


def test_a_run_is_counted_once_and_a_dead_job_in_its_own_series() -> None:
    metrics = SchedulerMetrics(CollectorRegistry())
    metrics.settled(HeldItem("a", None, 1), ItemSettlement(ItemState.DONE, 1, 0.0, 0.5))
    metrics.settled(HeldItem("b", None, 2), ItemSettlement(ItemState.AGAIN, 0, 0.0, 0.5))
    found = counted(metrics.registry)
    assert (found["completed"], found["failed"], found["jobs_dlq_total"]) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("ended", "spent", "counts"),
    [("completed", 0, (1.0, 0.0, 0.0)), ("failed", 0, (0.0, 1.0, 0.0)), ("failed", 4, (0.0, 1.0, 1.0))],
)
async def test_a_run_whose_worker_died_at_its_end_is_counted_by_the_reconciler(
    ended: str, spent: int, counts: tuple[float, ...], embedded: World
) -> None:
    job = await embedded.create()
    held = await embedded.hold(job.job_id, "gone")
    assert held is not None
    await embedded.tables.jobs.write_status(held.row.job, JobStatus.RUNNING, spent)
    await embedded.recorded.together(embedded.tables.history.ended(held.row.run, embedded.clock(), ended))
    await run_out(embedded, job.job_id)
    embedded.clock.move(seconds=10)
    for _ in range(2):
        await JobReconciler(embedded.parts).look()
        found = counted(embedded.parts.registry)
        assert (found["completed"], found["failed"], found["jobs_dlq_total"]) == counts
