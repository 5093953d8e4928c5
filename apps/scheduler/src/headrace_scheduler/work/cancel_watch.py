"""Lets running jobs that somebody cancelled end within a second or two, and not only at their next renewal.

One read a second for all jobs of a worker, and none while it has no job. What is found is renewed at once; the renewal
sees the cancel, ends the run and is refused.
"""

from __future__ import annotations

import asyncio

import structlog

from headrace.errors import HeadraceError
from headrace.services import rest
from headrace.sources import SourceWorker
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cancel_requests import CancelRequest

LOOK_S = 1.0
log = structlog.get_logger("scheduler")


class CancelWatch:
    """Looks for cancels of what a worker has in hand."""

    def __init__(self, tables: AllTables, worker: SourceWorker) -> None:
        self._tables, self._worker = tables, worker
        self._done: set[CancelRequest] = set()

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await rest(stop, LOOK_S)
            if not self._worker.in_progress:
                continue
            try:
                await self.look()
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("cancels.not_seen", error=str(error))

    async def look(self) -> None:
        """One that is not in hand yet may be in a moment, so it is looked for again."""
        found = await self._tables.cancels.latest(self._tables.now())
        told = self._worker.renew_now({str(job_id) for _, job_id in found - self._done})
        self._done = {request for request in found if request in self._done or str(request[1]) in told}
