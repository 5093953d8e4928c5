"""The reconciler: once a second it lays the truth beside what the ledger shows, and puts right what differs.

It runs in every process of ours; a lease lets one of them work. Two at once would do no harm, because everything it
does may be done again. One project that cannot be put right does not keep it from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from headrace.errors import HeadraceError
from headrace.services import NamedLease, Term, leader, rest
from headrace_smap.count.accountant import Accountant, mirror_row
from headrace_smap.count.completions import utc_now
from headrace_smap.count.reconciliation.metrics import Metrics
from headrace_smap.count.reconciliation.rules import (
    NOT_SEALED,
    ON_ITS_WAY,
    ReconcilerMemory,
    View,
    beyond_total,
    fingerprint,
    is_complete_but_open,
    is_stuck,
    is_told_late,
    known,
    may_be_sealed,
    must_restore,
    still_for,
)
from headrace_smap.count.remembered import Remembered
from headrace_smap.count.truth import SHOWN, Truth, look
from headrace_smap.envelope import PROJECT_CHARS_MAX
from headrace_smap.parts import SmapParts
from headrace_smap.values import DONE, Standing

LEASE = "smap/reconciler"
HOLD_S = 3.0
MIRROR_MAX = 1_000
FINISHED_PER_LOOK = 500
"""Finished projects seldom change: beyond this number they take turns."""
ORPHANS_MAX = 1_000
log = structlog.get_logger("smap")


class Reconciler:
    """`run` until it is stopped; `tick` is one look at everything."""

    def __init__(self, parts: SmapParts, accountant: Accountant, now: Callable[[], datetime] = utc_now) -> None:
        self._database, self._ledger, self._settings = parts.database, parts.ledger, parts.settings
        self._accountant, self._now = accountant, now
        self._memories: dict[str, ReconcilerMemory] = {}
        self._told: Remembered[str] = Remembered()
        self._metrics = Metrics(parts.registry)
        self._lease = NamedLease(parts.engine.leases, LEASE, HOLD_S)
        self._orphans: list[str] = []
        self._looks = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Look every `SMAP_RECONCILE_S` seconds while this process leads."""

        async def look_again(_term: Term) -> None:
            while not stop.is_set():
                try:
                    await self.tick()
                except HeadraceError as error:
                    log.warning("reconciler.failing", error=str(error), hint=error.hint)
                await rest(stop, self._settings.reconcile_s)

        await leader(self._lease, look_again, stop)

    async def tick(self) -> None:
        """One look at every project that is unfinished, finished lately, or shown by the ledger."""
        now, era = self._now(), await self._ledger.era()
        watched = {name for (name,) in await self._database.rows("truth_watch", since=now - SHOWN)}
        shown = {name for name in await self._ledger.projects() if is_name(name)}
        for project in self._memories.keys() - watched - shown:
            del self._memories[project]
        truths = self._due(await look(self._database, sorted(watched | shown)))
        standings = await self._standings(truths)
        if await self._ledger.era() != era:
            # The server was restarted meanwhile: what was read may be less than it was, and nobody's deed.
            return
        views, changed = [], []
        for truth, seen in standings:
            lost = truth.status is not None and (truth.era != era or (seen is not None and not seen.whole))
            view = await self._deal_with(View(truth, seen, lost, now))
            views.append(view)
            if view.seen is not None and truth.deleted_at is None and _differs(truth, view.seen, era):
                # What is not whole may be less than it was by nobody's deed: it is kept where it is more.
                read = _read_from(truth, era) if view.seen.whole else {}
                changed.append({**mirror_row(truth.project, view.seen), **read})
        if changed and await self._ledger.era() == era:
            await self._mirror(changed)
        self._metrics.show(views)
        await self._count_orphans(now)

    async def _count_orphans(self, now: datetime) -> None:
        """Posts of a project that nobody opened are kept and counted nowhere. If nobody ever does, its opening was lost
        with the second that Redis lost."""
        rows = await self._database.rows("truth_orphans", before=now - NOT_SEALED, room=ORPHANS_MAX)
        names = [name for (name,) in rows]
        self._metrics.orphans.set(len(names))
        if names and names != self._orphans:
            hint = "open it again in Redis and it is counted, or headrace smap delete PROJECT"
            log.error("projects.never_opened", count=len(names), some=names[:10], hint=hint)
        self._orphans = names

    async def _standings(self, truths: Sequence[Truth]) -> list[tuple[Truth, Standing | None]]:
        """What the ledger shows of each, without those that it cannot read."""
        try:
            seen = await self._ledger.tallies([truth.project for truth in truths])
            return list(zip(truths, seen, strict=True))
        except HeadraceError as refused:
            if refused.heals:
                raise
            # Somebody has put something else under a key of ours. One by one, so that it is only this one.
            found = []
            for truth in truths:
                try:
                    found.append((truth, await self._ledger.tally(truth.project)))
                except HeadraceError as error:
                    self._tell_of(truth.project, error)
            return found

    def _due(self, truths: Sequence[Truth]) -> list[Truth]:
        """All that are unfinished, and some of the others in turn."""
        at_rest = [truth for truth in truths if truth.announced_at is not None]
        if len(at_rest) <= FINISHED_PER_LOOK:
            return list(truths)
        self._looks += 1
        first = self._looks * FINISHED_PER_LOOK % len(at_rest)
        chosen = (at_rest + at_rest)[first : first + FINISHED_PER_LOOK]
        return [*(truth for truth in truths if truth.announced_at is None), *chosen]

    async def _deal_with(self, view: View) -> View:
        try:
            return await self._put_right(view)
        except HeadraceError as error:
            self._tell_of(view.truth.project, error)
            return view

    def _tell_of(self, project: str, error: HeadraceError) -> None:
        """What is wrong with one project alone is said once, and the others go on; what passes stops the look."""
        if error.heals:
            raise error
        if self._told.get(project) != str(error):
            self._told.put(project, str(error))
            log.error("project.not_reconciled", project=project, error=str(error), hint=error.hint)

    async def _put_right(self, view: View) -> View:
        project = view.truth.project
        if view.truth.deleted_at is not None:
            if view.seen is not None:
                await self._ledger.forget(project)
            return view
        memory = self._memories.setdefault(project, ReconcilerMemory())
        memory.note(view)
        if must_restore(view, memory):
            view = await self._restored(view, memory)
        if may_be_sealed(view, self._settings.seal_idle_s or None) and view.seen is not None:
            log.warning("project.sealed_idle", project=project, total=view.seen.total)
            view = _with(view, await self._accountant.seal(project, view.seen.total))
        is_open = view.truth.crawling
        if view.seen is not None and view.seen.reached and view.seen.status != DONE and not is_open:
            view = _with(view, await self._accountant.cross(project))
        memory.note(view)
        await self._finish(view, memory)
        self._watch_over(view, memory)
        return view

    async def _restored(self, view: View, memory: ReconcilerMemory) -> View:
        # It may have been finished or deleted since it was read: what is put back is the truth of now.
        (truth,) = await look(self._database, [view.truth.project])
        view = replace(view, truth=truth)
        if not must_restore(view, memory):
            return view
        seen, least = view.seen, known(view)
        after = await self._accountant.restore(truth.project, least)
        memory.restored = fingerprint(least, truth, after)
        if seen is None or (after.counted, after.failed, after.status) != (seen.counted, seen.failed, seen.status):
            self._metrics.restored.inc()
            log.info("project.restored", project=truth.project, status=after.status, counted=after.counted)
        if seen is not None and least.status == DONE and (seen.status, seen.total) != (after.status, after.total):
            self._metrics.repaired.inc()
            log.warning("project.repaired", project=truth.project, shown=seen.status, shown_total=seen.total)
        return _with(view, after)

    async def _finish(self, view: View, memory: ReconcilerMemory) -> None:
        """DONE gets its finish row, and a finish row its announcement: ours, unless somebody else's was heard."""
        truth, seen = view.truth, view.seen
        if truth.finished_at is not None:
            if truth.announced_at is None and truth.heard:
                await self._accountant.finisher.told(truth.project)
            elif truth.announced_at is None and is_told_late(truth.finished_at, view.now):
                await self._accountant.finisher.announce(truth)
        elif seen is not None and seen.status == DONE and not truth.crawling:
            if truth.heard:
                await self._accountant.finisher.finish(truth.project, seen, told=True)
            elif memory.done_since is not None and view.now - memory.done_since >= ON_ITS_WAY:
                finished = await self._accountant.finisher.finish(truth.project, seen)
                if finished.announced_at is None and seen.done > seen.counted:
                    await self._accountant.finisher.announce(finished)

    def _watch_over(self, view: View, memory: ReconcilerMemory) -> None:
        """Say once that a project is complete and not sealed, or sealed and does not come to its end."""
        project, alarm = view.truth.project, ""
        if is_complete_but_open(view) and still_for(view) >= NOT_SEALED:
            alarm, hint = "project.complete_but_not_sealed", f"headrace smap seal {project}"
        elif is_stuck(view):
            alarm, hint = "project.sealed_but_unfinished", "are its messages in a queue, or dead letters of the bus?"
        elif memory.older is not None and beyond_total(view, memory.older.settled):
            alarm, hint = "project.more_than_its_total", "a total was lost with Redis, or its collector miscounts"
        if alarm and memory.alarmed != alarm and view.seen is not None:
            log.error(alarm, project=project, total=view.seen.total, done=view.seen.done, hint=hint)
        memory.alarmed = alarm

    async def _mirror(self, rows: Sequence[dict[str, object]]) -> None:
        for first in range(0, len(rows), MIRROR_MAX):
            part, now = list(rows[first : first + MIRROR_MAX]), self._now()
            await self._database.transact(
                ("truth_know", {"projects": tuple(str(row["project"]) for row in part), "now": now}),
                ("truth_mirror", {"rows": part, "now": now}),
                ("truth_mirror_projects", {"rows": part}),
            )


def is_name(name: str) -> bool:
    """Whether a key of the ledger can be a project of ours; others may keep what they like beside it."""
    return 0 < len(name) <= PROJECT_CHARS_MAX and name.isprintable()


def _with(view: View, seen: Standing | None) -> View:
    return replace(view, seen=seen)


def _read_from(truth: Truth, era: str) -> dict[str, object]:
    """What a mirrored row may lower, if nobody has kept anything else meanwhile."""
    others = {"from_others": truth.others, "from_others_failed": truth.others_failed}
    return {"from_rank": truth.rank, "from_total": truth.total, **others, "era": era}


def _differs(truth: Truth, seen: Standing, era: str) -> bool:
    kept = (truth.status, truth.total, truth.done, truth.errors, truth.others, truth.others_failed, truth.era)
    row = mirror_row(truth.project, seen)
    return kept != (*(row[name] for name in ("status", "total", "done", "errors", "others", "others_failed")), era)
