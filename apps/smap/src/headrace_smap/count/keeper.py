"""Keeping the account: what every process of ours does beside its service, whichever of the four that is.

The reconciler and the listener for ends of projects belong to no service: any of the four may be somebody else's, and
the account must be put right and its end be told all the same. Of all processes one reconciles, by a lease; the ends of
projects are heard by whoever comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace_smap.count.accountant import Accountant
from headrace_smap.count.completions import completions
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.parts import SmapParts

STOP_S_MAX = 10.0


@asynccontextmanager
async def keeping(parts: SmapParts, stop: asyncio.Event) -> AsyncIterator[None]:
    """Keep the account for as long as the block runs, once per process; whatever is told from here on is heard."""
    ends = completions(parts)
    await ends.prepare()
    reconciler = Reconciler(parts, Accountant(parts))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run(stop)) for part in (ends, reconciler)]
        try:
            yield
        finally:
            stop.set()
            _, late = await asyncio.wait(tasks, timeout=STOP_S_MAX)
            for task in late:
                # Whatever it was about to do, another process or the next life of this one does again.
                task.cancel()
