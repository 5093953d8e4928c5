"""Effects of a run, refused if a later run of the same job has begun.

A worker that is frozen past its lease does not know it. When it wakes, another worker may have the job, with a higher
token. So the database itself remembers the highest token of each job, in one row:

- A run begins by raising the row to its token. From then on no earlier run changes anything.
- Every unit of work raises the row again, as its first statement. A row that is higher makes the unit a conflict, and
  nothing of it remains. The row is locked until the commit: a later run that begins meanwhile waits, and then sees what
  the earlier one has done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import headrace
from headrace.errors import ClaimLost, Conflict
from headrace.tables import UnitOfWork
from headrace_scheduler.handlers.running_job import RunningJob
from headrace_scheduler.orders.database import OrdersDatabase


class FencedSink:
    """Where the handlers of orders write."""

    def __init__(self, database: OrdersDatabase) -> None:
        self._database = database

    async def begin(self, job: RunningJob) -> None:
        """The first act of a run. `ClaimLost` if a later one has begun."""
        async with self.unit(job):
            pass

    @asynccontextmanager
    async def unit(self, job: RunningJob) -> AsyncIterator[UnitOfWork]:
        """One commit of this run. `ClaimLost` if a later one has begun, `Conflict` if the order was changed since it
        was read; both leave nothing."""
        engine = await self._database.engine()
        try:
            async with engine.transaction() as tx:
                self.guard(tx, job)
                yield tx
        except Conflict:
            await _refuse_late(engine, job)
            raise

    def guard(self, tx: UnitOfWork, job: RunningJob) -> None:
        """Comes before everything else that the unit does."""
        tx.run("fence_raise", resource=job.resource, fence=job.fencing_token, expect=1)


async def _refuse_late(engine: headrace.Engine, job: RunningJob) -> None:
    row = await engine.one("fence_of", resource=job.resource)
    if row is not None and row[0] > job.fencing_token:
        raise ClaimLost(
            f"{job.resource} was given to another run, whose token {row[0]} is above {job.fencing_token}",
            job.fencing_token,
        )
