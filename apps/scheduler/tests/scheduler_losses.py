"""Workers that take a job and are gone."""

from __future__ import annotations

from uuid import UUID

from scheduler_world import World
from waiting import eventually

from headrace_scheduler.reconciler.reconciler import YOUNG

MOMENT_S = 0.2
ALONE_S = 2.0


async def lose(world: World, job_id: UUID, holder: str = "gone", alone: bool = False) -> int:
    """Let a worker take the job and die; the token of its lock, which has expired."""
    # Time enough for another statement, and no more.
    item = await world.hold(job_id, holder, MOMENT_S if not alone else ALONE_S)
    assert item is not None
    assert not alone or await world.source.begin_alone(item)
    await expire(world, job_id)
    return item.fence


async def expire(world: World, job_id: UUID) -> None:
    async def free() -> bool:
        lease = await world.parts.locks.look(job_id)
        return lease is None or lease.free

    await eventually(free, "the lock has expired")
    # Past the moment in which a row may be between two statements.
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
