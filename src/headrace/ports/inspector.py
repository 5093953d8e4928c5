"""Reads for people. Each call is one snapshot; none of them locks or changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.audit import JobAudit
from headrace.core.jobs import DeadFilter, DeadView, FinishView, ItemView, JobFilter, JobView, WorkerView


class Inspector(Protocol):
    async def job(self, job: str) -> JobView:
        """`NotFound` if there is none."""

    async def jobs(self, which: JobFilter) -> Sequence[JobView]:
        """Newest first."""

    async def items(self, job: str, stage: str, after_seq: int, limit: int) -> Sequence[ItemView]:
        """In order of seq, over all generations: each item once, in its newest state."""

    async def dead(self, which: DeadFilter) -> Sequence[DeadView]:
        """Newest first."""

    async def finishes(self, job: str) -> Sequence[FinishView]:
        """Finish lines, one per generation that ended."""

    async def workers(self) -> Sequence[WorkerView]: ...

    async def audit(self, job: str) -> JobAudit:
        """The raw rows of one job's account, for `verify` to recount."""
