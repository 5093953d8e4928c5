"""Runs whose worker was lost: which job may be to blame, and which certainly is.

A lost run is one that the history calls neither ended nor given back, while the job's lock is free or expired and its
status is still `running`. One says little: whoever kills or freezes a worker loses all of its runs. After two in a row
the job is a *suspect*, and its next run is alone in its process. If that is lost as well, it is a crash of the job.
The tokens of such runs are kept and not their number, so whoever dies between two of these statements counts nothing
twice; the end of the run in the history comes last, because it is the evidence.

Whoever calls holds the job's lock. Workers of other programs leave runs as well; they say of none that it is alone, and
are never charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from headrace_scheduler.jobs.values import Job, JobLosses, JobRun
from headrace_scheduler.tables.all_tables import AllTables

LOST = "lost"
"""How a run ends in the history whose worker was gone before it could say how."""
GIVEN_BACK = "given_back"
"""How a run ends in the history that was stopped without an outcome: no attempt was spent."""
SUSPECTED_AFTER = 2
"""Lost runs in a row. After one, all jobs of a worker that was killed would wait for each other, each alone."""


async def note_lost_runs(tables: AllTables, job: Job) -> Job:
    """The job with what its lost runs make of it. One that was cut off before it began leaves no trace of guilt."""
    runs = await tables.history.runs(job.job_id)
    lost = [run for run in runs if run.end_at is None]
    if not lost:
        return job
    before = job.losses
    alone = {run.fencing_token for run in lost} & {before.alone_token} - {None}
    crash_tokens = before.crash_tokens | {token for token in alone if token is not None}
    suspect = before.suspect or _lost_in_a_row(runs) >= SUSPECTED_AFTER
    losses = JobLosses(suspect, before.alone_token, crash_tokens)
    await tables.jobs.write_losses(job.job_id, losses)
    now = tables.now()
    await tables.tables.together(*(tables.history.ended(run, now, LOST) for run in lost))
    return replace(job, losses=losses)


def _lost_in_a_row(runs: Sequence[JobRun]) -> int:
    """Those since the last one that came to an end of its own; what was given back says nothing."""
    newest_first = sorted(runs, key=lambda run: run.fencing_token or 0, reverse=True)
    told = (run.end_at is None or run.status == LOST for run in newest_first if run.status != GIVEN_BACK)
    return sum(1 for _ in takewhile(bool, told))
