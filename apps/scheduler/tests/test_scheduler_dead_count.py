"""What waits for a person is told of, and what a repair leaves behind is soon free again."""

from __future__ import annotations

from uuid import uuid4

import pytest
from scheduler_losses import lose
from scheduler_world import World

from headrace.errors import Unreachable
from headrace_scheduler.jobs.values import DeadJob
from headrace_scheduler.reconciler.dead_count import DeadCount
from headrace_scheduler.reconciler.repair import HOLD_S as REPAIR_S
from headrace_scheduler.reconciler.repair import Repairer


async def test_a_repair_that_dies_keeps_its_job_from_others_for_seconds(world: World) -> None:
    job = await world.create()
    await lose(world, job.job_id)
    world.recorded.broken["runs"] = Unreachable("the process is gone here")
    with pytest.raises(Unreachable):
        await Repairer(world.parts, "reconciler:one").repair(job.key)
    lock = await world.parts.locks.look(job.job_id)
    assert lock is not None
    assert lock.holder.startswith("reconciler:")
    assert lock.left_s <= REPAIR_S < world.parts.settings.lock_ttl_s


async def test_dead_jobs_are_counted_until_somebody_has_come(world: World) -> None:
    def told() -> float | None:
        return world.parts.registry.get_sample_value("jobs_dead")

    assert told() == 0.0
    for _ in range(2):
        await world.tables.dead.add(DeadJob(uuid4(), 5, "it failed", world.clock(), "{}"))
    count = DeadCount(world.parts)
    await count.step()
    assert told() == 2.0
    assert await world.tables.dead.count(1) == 1
    (dead, _) = await world.tables.dead.page(None, 10)
    await world.tables.dead.remove(dead.job_id)
    await count.step()
    assert told() == 2.0, "it is not counted all the time"
    count.stop()
    assert told() == 0.0, "another process counts"
    await count.step()
    assert told() == 1.0
