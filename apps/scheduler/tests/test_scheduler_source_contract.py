"""The jobs of both worlds pass the contract of sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from scheduler_world import World

from headrace.sources import HeldItem, ItemCandidate, ItemState, Source
from headrace.testing.contracts import SourceContract, SuppliedItem
from headrace.testing.passage import Passage, RealPassage
from headrace_scheduler.jobs.values import JobStatus, resource_of
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.work.job_source import JobSource

AN_HOUR_S = 3_600.0
STATES = {JobStatus.COMPLETED: ItemState.DONE, JobStatus.DLQ: ItemState.DEAD}


class DecodedSource(JobSource):
    """The contract looks into payloads; those of jobs are text, and decoded by their handlers."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        held = await super().hold(candidate, holder, hold_s)
        return held and replace(held, payload=json.loads(held.payload))


class JobSupply:
    """`SourceSupply` on the tables of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.source: Source = self.handle()

    def handle(self) -> Source:
        return DecodedSource(self._world.tables, self._world.parts.locks, self._world.parts.installation.polled)

    def wall(self) -> float:
        return self._world.clock().timestamp()

    async def add(self, payload: Mapping[str, object]) -> str:
        return str((await self._world.create(dict(payload))).job_id)

    async def look(self, key: str) -> SuppliedItem:
        job = await self._world.tables.jobs.find(UUID(key))
        assert job is not None
        dead = await self._world.tables.dead.find(job.job_id)
        # The table counts failed runs, the contract also the one that was done.
        attempts = job.attempts + (job.status == JobStatus.COMPLETED)
        return SuppliedItem(STATES.get(JobStatus(job.status)), attempts, dead.last_error if dead else "")

    async def occupy(self, key: str) -> None:
        """A worker of another program has the lock, and leaves the pending row where it is."""
        await self._world.parts.leases.acquire(resource_of(UUID(key)), "another", AN_HOUR_S)

    async def sweep(self) -> None:
        self._world.clock.move(seconds=YOUNG.total_seconds() + 1)
        await JobReconciler(self._world.parts).look()


class TestJobSource(SourceContract):
    features = JobSource.features

    @pytest.fixture
    def supply(self, world: World) -> JobSupply:
        return JobSupply(world)

    @pytest.fixture
    async def handles(self, supply: JobSupply) -> Sequence[Source]:  # type: ignore[override]
        return [supply.handle() for _ in range(3)]

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage(0.6)
