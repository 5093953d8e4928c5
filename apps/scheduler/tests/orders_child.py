"""A worker in a process of its own that comes to grief in the middle of a payment: after its first act, before it pays.

`orders_child.py dies {environment}`: takes jobs like any worker, and is killed -9 in its third payment.
`orders_child.py freezes|freezes_unfenced {environment} JOB`: takes one job, stops itself, and when somebody lets it go
on it says how its run ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from uuid import UUID

from orders_shop import Shop, UnfencedSink, no_report, open_shop
from scheduler_world import World, open_world

from headrace.sources import SourceOptions, SourceWorker
from headrace_scheduler.frame import FRAME
from headrace_scheduler.handlers.registry import HandlerRegistry, payload_of
from headrace_scheduler.handlers.running_job import RunningJob
from headrace_scheduler.orders.order_handlers import PaymentLimit
from headrace_scheduler.orders.values import OrderJob, PlacedOrder

# Longer than a worker takes to come to grief; the test lets its locks run out.
LOCK_S = 120.0
DIES_IN_PAYMENT = 3


class Doom:
    """A provider that sends this process a signal."""

    def __init__(self, number: signal.Signals, calls: int = 1) -> None:
        self._number, self._left = number, calls

    async def refusal(self, order: PlacedOrder) -> str:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), self._number)
        return await PaymentLimit(None).refusal(order)


async def dies(world: World, shop: Shop) -> None:
    doom = Doom(signal.SIGKILL, DIES_IN_PAYMENT)
    worker = SourceWorker(
        world.source, HandlerRegistry(shop.handlers(doom)), SourceOptions(poll_s=0.05, hold_s=LOCK_S, in_progress_max=4)
    )
    print("ready", flush=True)
    await worker.run()


async def freezes(world: World, shop: Shop, job_id: UUID) -> None:
    item = await world.hold(job_id, "frozen", LOCK_S)
    assert item is not None
    job = RunningJob(item.key, payload_of(str(item.payload)), f"job:{item.key}", item.fence, 1, no_report)
    try:
        ended = await shop.handlers(Doom(signal.SIGSTOP))[OrderJob.PAYMENT].run(job)
    except Exception as error:
        ended = type(error).__name__
    print(json.dumps(ended), flush=True)


async def main(deed: str, environment: dict[str, str], *job: str) -> None:
    async with open_world(FRAME.load(environment)) as world, open_shop(environment) as shop:
        if deed == "dies":
            await dies(world, shop)
            return
        if deed == "freezes_unfenced":
            shop.sink = UnfencedSink(shop.database)
        await freezes(world, shop, UUID(job[0]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:]))
