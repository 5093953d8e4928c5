"""A dead job that shall run again, by a request that is cut off between two statements."""

from __future__ import annotations

import pytest
from scheduler_world import World

from headrace.errors import Unknown
from headrace.sources import ItemState
from headrace.testing.contracts.source import LOSS
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler


@pytest.mark.parametrize("statement", ["dead_delete", "job_pending_time", "pending_add"])
async def test_a_rerun_that_is_cut_off_leaves_no_dead_row_of_a_job_that_completes(
    statement: str, embedded: World
) -> None:
    job = await embedded.create()
    item = await embedded.hold(job.job_id)
    assert item is not None
    assert await embedded.source.settle(item, embedded.settlement(ItemState.DEAD, attempts=5, failure=LOSS))
    embedded.recorded.broken[statement] = Unknown("cut off")
    with pytest.raises(Unknown):
        await embedded.requests.redrive(job.job_id)
    embedded.clock.move(seconds=YOUNG.total_seconds() + 1)
    await JobReconciler(embedded.parts).look()
    again = await embedded.hold(job.job_id)
    assert again is not None
    assert again.attempts == 0
    assert await embedded.source.settle(again, embedded.settlement())
    assert await embedded.status(job.job_id) == JobStatus.COMPLETED
    assert await embedded.tables.dead.find(job.job_id) is None
