"""Sweeping: every worker ends expired claims as soon as the earliest has expired. No lease is needed for it."""

from __future__ import annotations

import asyncio

from headrace.core.errors import HeadraceError
from headrace.ports.store import Store
from headrace.runtime.settler import Outage
from headrace.runtime.yard import Yard

SWEEP_S_MIN, SWEEP_S_MAX, IDLE_S_MAX = 0.02, 1.0, 5.0
JITTER_S = 0.05


async def sweep_for_ever(store: Store, yard: Yard) -> None:
    outage = Outage(yard)
    # While nobody holds anything, a claim made right after a look is found before it can have expired.
    idle_s = min(yard.options.hold_s / 2, IDLE_S_MAX)
    while True:
        try:
            swept = await store.sweep()
        except HeadraceError as error:
            if not error.heals:
                raise
            await outage.wait("store.failing", error)
            continue
        outage.reset()
        if swept.lost:
            yard.observer.event("claims.swept", lost=swept.lost)
            yard.ring()
        wait_s = idle_s if swept.wait_s is None else max(SWEEP_S_MIN, min(swept.wait_s, SWEEP_S_MAX))
        await asyncio.sleep(wait_s + JITTER_S * yard.seams.chance.random())
