"""How far projects are, as people and programs are told: what the ledger shows, with what only the database knows.

A count in Redis may be away, may have lost a second, and knows no cancellation. So it is given a short time to answer,
without which the truth answers alone; a cancelled project is called so; a DONE that contradicts our own crawl is not
passed on. A total that grows, a ledger that was put back and another replica that knows less would all make the bar run
backwards: the highest that anybody was shown is kept in the database, and nothing less is shown after it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

import structlog

from headrace.errors import HeadraceError
from headrace_smap.count.truth import Truth
from headrace_smap.parts import SmapParts
from headrace_smap.values import CANCELLED, DONE, SEALED, Standing

LEDGER_S_MAX = 0.5
"""Who asks for progress is to have it within a second, and the database needs its part of that."""
AWAY_S = 1.0
"""So long nobody waits again for a ledger that did not answer."""
NEARLY = 99.99

Progress = dict[str, object]
log = structlog.get_logger("smap")


class ProgressReader:
    """Reads the progress of projects. Any number may, in any number of processes."""

    def __init__(self, parts: SmapParts) -> None:
        self._database, self._ledger = parts.database, parts.ledger
        # A ledger in the store answers when the database does.
        self._patience_s = LEDGER_S_MAX if parts.settings.redis_url else None
        self._away_until = -math.inf

    async def read(self, projects: Sequence[str]) -> dict[str, Progress]:
        """The specification's answer for each; one that nobody knows, or that was deleted, has none."""
        if not projects:
            return {}
        # The ledger first: what was shown is read last, so no answer is older than what others had been told by then.
        seen = await self._seen(projects)
        names = {"projects": tuple(projects)}
        truths, marks = await self._database.transact(("truth_look", names), ("progress_marks", names))
        shown: dict[str, Progress] = {}
        for truth in (Truth(*row) for row in truths):
            standing = _standing(truth, seen.get(truth.project))
            if standing is not None:
                shown[truth.project] = _progress(standing, truth.cancelled_at is not None)
        return await self._never_less(shown, {project: tuple(mark) for project, *mark in marks})

    async def _seen(self, projects: Sequence[str]) -> dict[str, Standing | None]:
        """What the ledger shows; nothing while it does not answer."""
        now = asyncio.get_running_loop().time()
        if now < self._away_until:
            return {}
        try:
            async with asyncio.timeout(self._patience_s):
                return dict(zip(projects, await self._ledger.tallies(projects), strict=True))
        except (TimeoutError, HeadraceError) as error:
            if isinstance(error, HeadraceError) and not error.heals:
                raise
            log.warning("progress.from_database", error=str(error) or f"no answer for {LEDGER_S_MAX:g} s")
            self._away_until = asyncio.get_running_loop().time() + AWAY_S
            return {}

    async def _never_less(self, shown: dict[str, Progress], marks: dict[str, tuple[float, int]]) -> dict[str, Progress]:
        """The same, no project below what was shown of it before; what is above is kept."""
        rows = [
            {"project": project, "percent": percent, "processed": processed}
            for project, (percent, processed) in ((name, _mark(each)) for name, each in shown.items())
            if shown[project]["status"] != DONE and _is_above((percent, processed), marks.get(project, (0.0, 0)))
        ]
        if rows:
            for project, *mark in await self._database.rows("progress_raise", rows=rows):
                marks[project] = (mark[0], mark[1])
        return {name: _at_least(each, *marks.get(name, (0.0, 0))) for name, each in shown.items()}


def _standing(truth: Truth, seen: Standing | None) -> Standing | None:
    """What is to be shown, or None if there is nothing to show."""
    if truth.deleted_at is not None:
        return None
    if seen is None:
        return truth.standing() if truth.known else None
    early = truth.sealed_at is not None and seen.done < truth.total
    if seen.status == DONE and truth.finished_at is None and (truth.crawling or early):
        # Somebody else says so, and our own crawl or seal says that there is more: the reconciler takes it back.
        return replace(seen, status=truth.standing().status)
    return seen


def _progress(standing: Standing, cancelled: bool) -> Progress:
    shown = standing.progress()
    if standing.status not in SEALED and shown["percent"] == 100.0:
        # All that was found by now, while somebody still looks for more.
        shown["percent"] = NEARLY
    return {**shown, "status": CANCELLED} if cancelled else shown


def _mark(shown: Progress) -> tuple[float, int]:
    return float(str(shown["percent"])), int(str(shown["processed"]))


def _is_above(mark: tuple[float, int], kept: tuple[float, int]) -> bool:
    return mark[0] > kept[0] or mark[1] > kept[1]


def _at_least(shown: Progress, percent: float, processed: int) -> Progress:
    now_percent, now_processed = _mark(shown)
    total = int(str(shown["total"]))
    return {**shown, "percent": max(now_percent, percent), "processed": min(max(now_processed, processed), total)}
