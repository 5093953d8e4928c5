"""A child of a supervisor: the real worker, or the first time a twin of it that lives and does not get on."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from headrace import Flow
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Grant
from headrace.runtime.programs import die_with_parent, tell_ready
from headrace.runtime.seams import Seams
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

FLOW = Flow("reported")
HOLD_S = 1.0
REPORT_S = 0.1
STILL_S_MAX = 1.0
HANDLING_S_MAX = 5.0


@FLOW.stage(timeout_s=HANDLING_S_MAX)
async def one(takes_s: float) -> None:
    await asyncio.sleep(takes_s)


class Stuck(Worker):
    """Holds what it was granted, renews it, and does nothing with it."""

    async def _accept(self, grant: Grant, asked_at: float) -> None:
        for claim in grant.claims:
            self._yard.hold(self._slice(claim, asked_at))
        if grant.claims:
            await self._yard.until(lambda: False)


async def main(path: str, twin: bool) -> None:
    die_with_parent()
    stuck_before = Path(f"{path}-stuck")
    broken = twin and not stuck_before.exists()
    stuck_before.touch()
    store = await SqliteStore.open(path)
    seams = Seams()
    worker = (Stuck if broken else Worker)(store, [FLOW], seams, WorkerOptions(hold_s=HOLD_S))
    report = tell_ready()
    report(0.0, worker.handling_s_max)
    seams.threads.beat(REPORT_S, lambda: report(worker.still_s(), worker.handling_s_max))
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(os.environ["REPORTED_STORE"], sys.argv[1] == "stuck"))
