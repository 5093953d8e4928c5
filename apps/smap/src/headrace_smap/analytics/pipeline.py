"""A batch through the analysts, so that every post comes to an end of its own.

If whoever computes a batch is lost, its posts are given out one by one: the guilty one is then alone with its analyst,
and the others are done.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from headrace_smap.analytics.analysts import Analysts, Lost
from headrace_smap.analytics.posts import Fault
from headrace_smap.analytics.work import Outcome, Work

LOST_MAX = 2
"""So often may a post lose an analyst while it is alone with it: once could be an accident of the machine."""
LOST = "whoever analysed this post was lost with it"

log = structlog.get_logger("smap")


class Analysis:
    """`limit_s` is what one post may take; a batch that takes longer is looked at post by post."""

    def __init__(self, analysts: Analysts, limit_s: float) -> None:
        self._analysts, self._limit_s = analysts, limit_s

    async def run(self, works: Sequence[Work]) -> list[Outcome]:
        """What becomes of each, in their order."""
        if not works:
            return []
        if len(works) > 1:
            try:
                return await self._analysts.run(works, self._limit_s)
            except Lost as error:
                log.warning("analyst.lost", posts=len(works), late=error.late)
        return [await self._alone(work) for work in works]

    async def _alone(self, work: Work) -> Outcome:
        for _ in range(LOST_MAX):
            try:
                return (await self._analysts.run([work], self._limit_s))[0]
            except Lost as error:
                log.warning("analyst.lost", posts=1, late=error.late, project=work.project)
                if error.late:
                    return None, Fault("time_limit", f"the analysis took longer than {self._limit_s:g} s")
        return None, Fault("worker_lost", LOST)
