"""The end of a project: one row that says so, and one event that tells it.

The finish row is written once, by whoever comes first, with the counts that were seen; everybody reads it back. What is
published is made from the row alone, so every repeat is the same to the byte and carries the same `event_id`. A crash
between the row and the event leaves a row without `announced_at`, which the reconciler finds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from headrace_smap.count.truth import Truth
from headrace_smap.envelope import completed_id, job_completed, traced
from headrace_smap.parts import SmapParts
from headrace_smap.values import Standing

log = structlog.get_logger("smap")


class Finisher:
    """Writes finish rows and announces them."""

    def __init__(self, parts: SmapParts, now: Callable[[], datetime]) -> None:
        self._database, self._bus, self._now = parts.database, parts.bus, now

    async def finish(self, project: str, seen: Standing, told: bool = False) -> Truth:
        """The line was crossed, and this was seen there. `told`: somebody has announced it already.

        If foreign workers counted too, one of them may have crossed in the same moment and be about to announce it.
        Then the reconciler announces it, unless it hears of that within two seconds.
        """
        now = self._now()
        counts = {"total": seen.total, "done": seen.done, "errors": seen.errors}
        values = {"project": project, "now": now, "event": completed_id(project), "announced": told, **counts}
        *_, rows = await self._database.transact(
            ("truth_know", {"projects": (project,), "now": now}),
            ("truth_finish", values),
            ("truth_finish_project", {"project": project}),
            ("truth_look", {"projects": (project,)}),
        )
        truth = Truth(*rows[0])
        if truth.finished_at == now:
            about = {"cancelled": truth.cancelled_at is not None, "traceparent": truth.traceparent}
            log.info("project.finished", project=project, **counts, **about)
        if not truth.announced_at and seen.done <= seen.counted:
            await self.announce(truth)
        return truth

    async def announce(self, truth: Truth) -> None:
        """Tell what the finish row says, and write down that it was told."""
        if truth.finished_at is None:
            return
        event = job_completed(truth.project, truth.final(), truth.finished_at)
        await self._bus.publish([traced(event, truth.traceparent)])
        await self.told(truth.project)

    async def told(self, project: str) -> None:
        await self._database.rows("truth_announced", project=project, now=self._now())
