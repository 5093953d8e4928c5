"""Deletes rows of files that are done with for long, in the background: some batches, then others have their turn."""

from __future__ import annotations

import structlog

from headrace_pm.tables.retention import FileRetention
from headrace_pm.work.events import PipelineEvents

# 1.4 million files a day are sixteen rows a second: a batch of 500 every half minute.
EVERY_S = 300.0
BATCHES_MAX = 10
log = structlog.get_logger("headrace_pm.work")


class RetentionSweep:
    """The rounds of one process. Without a retention only what belongs to no row goes."""

    def __init__(self, retention: FileRetention, keeps_all: bool, events: PipelineEvents) -> None:
        self._retention, self._keeps_all, self._events = retention, keeps_all, events

    async def round(self) -> bool:
        """True if there is more."""
        files, is_more = 0, not self._keeps_all
        for _ in range(BATCHES_MAX):
            if not is_more:
                break
            deleted, is_more = await self._retention.purge()
            files += deleted
        orphans = await self._retention.purge_orphans()
        self._events.purged(files)
        if files or orphans:
            log.info("files.purged", files=files, orphans=orphans)
        return is_more
