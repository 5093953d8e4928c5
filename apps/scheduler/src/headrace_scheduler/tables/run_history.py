"""Runs of jobs: `job_history`, one row for each."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from headrace_scheduler.jobs.values import JobRun
from headrace_scheduler.tables.job_tables import JobTables, as_id

RUNS_MAX = 1_000
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RunHistory:
    """Statements about runs, as calls."""

    def __init__(self, tables: JobTables) -> None:
        self._tables = tables

    async def begin(self, run: JobRun) -> None:
        await self._tables.rows(
            "run_begin",
            job_id=str(run.job_id),
            run_id=run.run_id,
            worker_id=run.worker_id,
            fencing_token=run.fencing_token,
            start_at=run.start_at,
            status=run.status,
        )

    async def end(self, job_id: UUID, run_id: UUID, end_at: datetime, status: str) -> None:
        await self._tables.rows("run_end", job_id=str(job_id), run_id=run_id, end_at=end_at, status=status)

    async def runs(self, job_id: UUID) -> list[JobRun]:
        """The latest first: by their begin, as the ids of runs have no order."""
        found = await self._tables.rows("runs", job_id=str(job_id), room=RUNS_MAX)
        runs = [JobRun(job_id, as_id(run_id), *rest) for run_id, *rest in found]
        return sorted(runs, key=lambda run: run.start_at or _LONG_AGO, reverse=True)

    async def last(self, job_id: UUID) -> JobRun | None:
        found = await self.runs(job_id)
        return found[0] if found else None
