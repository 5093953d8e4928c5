"""Bugs planted into real parts of the scheduler: the account of chaos finds each, and nothing where there is none."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from scheduler_losses import run_out
from scheduler_world import World, open_world
from test_chaos_account import RIGHT
from test_chaos_bank import SlowCaller, unreported
from waiting import eventually

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.tokens import Resource, Token, Tokens
from headrace.errors import ClaimLost
from headrace.sources import ItemState
from headrace.tables import UnitOfWork
from headrace_scheduler.chaos.account import violations
from headrace_scheduler.chaos.bank import TABLES, Bank, JournalEntry
from headrace_scheduler.chaos.chaos_run import job_accounts
from headrace_scheduler.chaos.fleet import WorkerLife
from headrace_scheduler.chaos.traffic import PlannedEnd
from headrace_scheduler.frame import FRAME
from headrace_scheduler.handlers.running_job import RunningJob
from headrace_scheduler.orders.database import OrdersDatabase
from headrace_scheduler.orders.fenced_sink import FencedSink
from headrace_scheduler.orders.settings import load_orders
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import JobSource

PIDS = (1, 2)
LIVES = [WorkerLife(pid, "worker") for pid in PIDS]


async def found(world: World, job_id: UUID) -> set[str]:
    """Rules that the job's rows break; of its effect nothing is said."""
    jobs = await job_accounts(world.tables, {job_id: PlannedEnd.COMPLETED})
    journal = [JournalEntry(f"job:{job_id}", run.fencing_token or 0, "effect", True) for run in jobs[0].runs]
    evidence = replace(RIGHT, jobs=jobs, effects=[(str(job_id), 1)], journal=journal[-1:], lives=LIVES)
    return {each.rule for each in violations(evidence)}


def holder(pid: int) -> str:
    return f"host:{pid}:ab"


class UnfencedSink(FencedSink):
    """The bug: nothing is compared."""

    def guard(self, tx: UnitOfWork, job: RunningJob) -> None:
        """Whoever comes may write."""


@pytest.mark.parametrize(("sink", "expected"), [(FencedSink, set()), (UnfencedSink, {"late_write_accepted"})])
async def test_a_sink_without_a_fence_check_is_found(postgres_database: str, sink: Any, expected: set[str]) -> None:
    async with OrdersDatabase(load_orders({"ORDERS_PG_DSN": postgres_database}), TABLES) as database:
        bank = Bank(database, sink(database))
        job_id, resource = str(RIGHT.jobs[0].job_id), f"job:{RIGHT.jobs[0].job_id}"
        late, after = (RunningJob(job_id, {}, resource, token, 1, unreported) for token in (1, 2))
        caller = SlowCaller()
        first = asyncio.ensure_future(bank.pay(late, 0.0, 0, caller.gone))
        await eventually(bank.journal, "the first run has begun")
        assert await bank.pay(after, 0.0, 0)
        caller.told.set()
        try:
            await first
        except ClaimLost:
            assert sink is FencedSink
        evidence = replace(RIGHT, effects=await bank.effects(), journal=await bank.journal())
        assert {each.rule for each in violations(evidence)} == expected


class UncheckedTokens(Tokens):
    """The bug: a token is reported as it was drawn."""

    async def is_newest(self, resource: Resource, token: Token) -> bool:
        return True


@pytest.mark.parametrize(
    ("tokens", "expected"), [(Tokens, set()), (UncheckedTokens, {"token_order", "status_stale", "worker_went_on"})]
)
async def test_an_unconfirmed_token_is_found(
    cassandra_environment: dict[str, str], tokens: type[Tokens], expected: set[str]
) -> None:
    """Two workers have a block each, and the first runs the job again after the second: its token is lower."""
    async with open_world(FRAME.load(cassandra_environment)) as world:
        session = world.parts.leases._session  # type: ignore[attr-defined]
        sources = [JobSource(world.tables, JobLocks(CassandraLeases(session, tokens=tokens(session))), 4) for _ in PIDS]
        job = await world.create()
        for number, state in ((0, ItemState.AGAIN), (1, ItemState.AGAIN), (0, ItemState.DONE)):
            world.source = sources[number]
            held = await world.hold(job.job_id, holder(PIDS[number]), 30.0)
            assert held is not None
            assert await world.source.settle(held, world.settlement(state))
            world.clock.move(seconds=5)
        assert await found(world, job.job_id) == expected


class BlindLocks(JobLocks):
    """The bug: whoever settles takes the lock for its own."""

    async def held(self, job_id: UUID, fence: int) -> bool:
        return True


@pytest.mark.parametrize(("locks", "expected"), [(JobLocks, set()), (BlindLocks, {"worker_went_on"})])
async def test_a_worker_that_goes_on_without_its_lock_is_found(
    embedded: World, locks: type[JobLocks], expected: set[str]
) -> None:
    job, right = await embedded.create(), embedded.source
    embedded.source = JobSource(embedded.tables, locks(embedded.parts.leases), 4)
    frozen = await embedded.hold(job.job_id, holder(PIDS[0]))
    assert frozen is not None
    await run_out(embedded, job.job_id)
    embedded.clock.move(seconds=YOUNG.total_seconds() + 1)

    async def put_back() -> bool:
        return await JobReconciler(embedded.parts).look() > 0

    await eventually(put_back, "its lock has expired, and the job waits again")
    late, embedded.source = embedded.source, right
    held = await embedded.hold(job.job_id, holder(PIDS[1]), 30.0)
    assert held is not None
    embedded.clock.move(seconds=5)
    await late.settle(frozen, embedded.settlement())
    assert await right.settle(held, embedded.settlement())
    assert await found(embedded, job.job_id) == expected
