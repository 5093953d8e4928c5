"""Runs of jobs: `job_history`, one row for each."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobRun
from headrace_scheduler.tables.job_tables import JobTables, Write, as_id

PAGE = 1_000
_FIRST_ID = UUID(int=0)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RunHistory:
    """Statements about runs, as calls."""

    def __init__(self, tables: JobTables, page: int = PAGE) -> None:
        self._tables, self._page = tables, page

    def begun(self, run: JobRun) -> Write:
        """The write that says that a run has begun."""
        values = {"worker_id": run.worker_id, "fencing_token": run.fencing_token, "start_at": run.start_at}
        return "run_begin", {"job_id": str(run.job_id), "run_id": run.run_id, **values, "status": run.status}

    def ended(self, run: JobRun, end_at: datetime, status: str) -> Write:
        """The write that says how a run has ended."""
        return "run_end", {
            "job_id": str(run.job_id),
            "run_id": run.run_id,
            "end_at": whole_ms(end_at),
            "status": status,
        }

    async def runs(self, job_id: UUID) -> list[JobRun]:
        """All of them, the latest first: by their begin, as the ids of runs have no order. An outage makes many."""
        runs, after = list[JobRun](), _FIRST_ID
        while True:
            found = await self._tables.rows("runs", job_id=str(job_id), after=after, room=self._page)
            runs += [JobRun(job_id, as_id(run_id), *rest) for run_id, *rest in found]
            if len(found) < self._page:
                break
            after = runs[-1].run_id
        return sorted(runs, key=lambda run: run.start_at or _LONG_AGO, reverse=True)

    async def last(self, job_id: UUID) -> JobRun | None:
        found = await self.runs(job_id)
        return found[0] if found else None
