"""Workers that take a job and are gone."""

from __future__ import annotations

from uuid import UUID

from scheduler_world import World
from waiting import eventually

from headrace_scheduler.reconciler.reconciler import YOUNG

MOMENT_S = 0.05


async def lose(world: World, job_id: UUID, holder: str = "gone", alone: bool = False) -> int:
    """Let a worker take the job and die; the token of its lock, which has expired."""
    item = await world.hold(job_id, holder)
    assert item is not None
    assert not alone or await world.source.begin_alone(item)
    await expire(world, job_id)
    return item.fence


async def is_free(world: World, job_id: UUID) -> bool:
    lease = await world.parts.locks.look(job_id)
    return lease is None or lease.free


async def run_out(world: World, *job_ids: UUID) -> None:
    """Let the locks of jobs expire. The last renewal of each is a short one: a lock that was short from the beginning
    might be over, on a busy machine, before its holder has done what it is to do under it."""
    for job_id in job_ids:
        lease = await world.parts.locks.look(job_id)
        if lease is not None and not lease.free:
            await world.parts.locks.renew(job_id, lease.fence, MOMENT_S)
    for job_id in job_ids:
        await eventually(lambda job_id=job_id: is_free(world, job_id), "the lock has expired")


async def run_all_out(world: World) -> None:
    """The same for all jobs that are due."""
    await run_out(world, *(row.key.job_id for row in await world.rows()))


async def expire(world: World, job_id: UUID) -> None:
    await run_out(world, job_id)
    # Past the moment in which a row may be between two statements.
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
