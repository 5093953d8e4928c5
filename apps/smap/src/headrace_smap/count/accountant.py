"""The account of a project: what is true is in the database, what is shown in the ledger, what is told on the bus.

The database is written first, then the ledger, then the event, then the message is acknowledged. Each of these writes
may be repeated as it is: a crash between any two leaves a message that comes again, or a difference that the reconciler
sees, and the repeat ends where the first would have ended. The argument, step by step:

1. *An item counts once.* It is a row by (project, path). `settled` and `failed` change by what the very same statement
   newly wrote, so a repeat, also of a transaction whose answer was lost, changes nothing. A failed item may become
   done by an analysis, nothing else ever changes; so the order of two settlements of one item does not matter, but for
   a failure and a cancellation, of which the first stays.
2. *The ledger never runs ahead of the truth* and counts by membership: an item is in its set or not, whoever put it
   there. A settlement, its repeat and a rebuild from the truth therefore commute, and all of them may run at once. If
   the process dies between database and ledger, the message comes again; if it does not (a lost ledger, a hash that
   came later), the reconciler finds fewer counted than settled and adds the difference.
3. *The line is crossed once.* The script that brings `done` to the total of a sealed project sets DONE; the total of an
   unsealed one is never reached, because the crawl itself is an open item. Whether our own crawl is over we know
   ourselves, whatever status somebody else writes: a mark beside the hash and the truth both say so. A line that
   nobody crossed, because the last increment or the seal was somebody else's, is crossed by the reconciler.
4. *A seal counts from the moment it is in the truth.* Whoever dies before the ledger hears of it leaves a row with
   `sealed_at`, and the reconciler repeats the seal. Nothing is found after it: a page is added under that row's lock.
5. *It finishes once.* DONE without a finish row, whoever set it, gets one; the row is unique and says what is told. It
   is told until `announced_at` is written, always under the same `event_id`.
6. *A foreign service may do what it likes to the hash.* We never lower `done`, follow its totals and states as long as
   we have not sealed, and keep our own knowledge beside it. What it wrote is mirrored here at every settlement and
   every second, so that a lost ledger is rebuilt with it. A hash without a status is what foreign increments make of a
   lost one: it is absent, and what it counts is added to what they had counted.
7. *An absent hash is made only for a project that somebody opened.* Posts of an unknown one are kept, and counted when
   it appears.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from headrace.errors import NotFound
from headrace_smap.count.completions import utc_now
from headrace_smap.count.finisher import Finisher
from headrace_smap.count.progress_reader import ProgressReader
from headrace_smap.count.remembered import Remembered
from headrace_smap.count.truth import SHOWN, Truth, item_name, look, rank
from headrace_smap.database import Step
from headrace_smap.parts import SmapParts
from headrace_smap.values import CRAWL_OPEN, CRAWLING, DONE, PostEnd, Standing

RESTORE_MAX = 5_000
BODY_BYTES_MAX = 65_536
CANCELLED_KNOWN = timedelta(seconds=1)


class ItemEnd(msgspec.Struct, frozen=True):
    """How one post ended. `body` is the message of one that failed, so that it can be tried again."""

    project: str
    item: str
    ok: bool = True
    reason: str = ""
    body: bytes | None = None

    @property
    def spared(self) -> bool:
        """It counts as done, and the reason says why nobody analysed it."""
        return self.ok and bool(self.reason)

    @property
    def kept_body(self) -> str | None:
        """As the truth keeps it. Without it a post is tried again by its path alone, so a swollen one can be spared."""
        if self.ok or self.body is None or len(self.body) > BODY_BYTES_MAX:
            return None
        return self.body.hex()


class Accountant:
    """The only owner of truth and ledger. Every call may be repeated as it is."""

    def __init__(self, parts: SmapParts, now: Callable[[], datetime] = utc_now) -> None:
        self._database, self._ledger, self._now = parts.database, parts.ledger, now
        self.finisher, self.reader = Finisher(parts, now), ProgressReader(parts)
        self._mirrored: Remembered[tuple[str, int, int, int]] = Remembered()
        self._finished: Remembered[bool] = Remembered()
        self._crawled: Remembered[bool] = Remembered()
        self._cancelled: Remembered[tuple[bool, datetime]] = Remembered()
        self._rebuilding: Remembered[asyncio.Lock] = Remembered()

    async def open(self, project: str) -> bool:
        """A new project, or one that a foreign service opened. False: it was deleted, and its name stays with it."""
        _, rows = await self._database.transact(
            ("truth_open", {"project": project, "now": self._now()}), ("truth_look", {"projects": (project,)})
        )
        truth = Truth(*rows[0])
        if truth.shows(self._now()):
            # One that was lost is not begun anew: what had been counted would be gone.
            await (self._ledger.open(project) if truth.is_new else self._rebuild(project))
        return truth.known

    async def expect(self, project: str, found: int) -> Standing | None:
        """Our collector has found so many by now. None: nobody opened the project."""
        if not self._crawled.get(project):
            now = self._now()
            await self._database.transact(
                ("truth_know", {"projects": (project,), "now": now}), ("truth_crawl", {"project": project, "now": now})
            )
            self._crawled.put(project, True)
        return await self._shown(project, lambda: self._ledger.expect(project, found))

    async def seal(self, project: str, total: int | None = None) -> Standing | None:
        """Nobody will find more. Without a total: what our collector found, or what the ledger shows."""
        shown = await self._total_of(project) if total is None else total
        _, rows = await self._database.transact(
            ("truth_seal", {"project": project, "total": total, "shown": shown, "now": self._now()}),
            ("truth_look", {"projects": (project,)}),
        )
        return await self._show_seal(Truth(*rows[0]))

    async def cancel(self, project: str) -> bool:
        """Stop at what was found by now. False: it had ended, or nobody knows it."""
        seen = await self._ledger.tally(project)
        (truth,) = await look(self._database, [project])
        if seen is None and not truth.known:
            return False
        now = self._now()
        *_, rows = await self._database.transact(
            ("truth_know", {"projects": (project,), "now": now}),
            ("truth_cancel", {"project": project, "shown": seen.total if seen else truth.total, "now": now}),
            ("truth_cancel_project", {"project": project}),
            ("truth_look", {"projects": (project,)}),
        )
        truth = Truth(*rows[0])
        if truth.cancelled_at is None or truth.finished_at is not None:
            return False
        await self._show_seal(truth)
        return True

    async def cancelled(self, projects: Iterable[str]) -> set[str]:
        """Those whose posts need not be analysed any more, as it was a second ago or later."""
        now, asked = self._now(), set(projects)
        known = {project: self._cancelled.get(project) for project in asked}
        stale = sorted(name for name, entry in known.items() if not entry or not (entry[0] or now < entry[1]))
        if stale:
            rows = await self._database.rows("truth_cancelled", projects=tuple(stale))
            found = {project for (project,) in rows}
            for name in stale:
                self._cancelled.put(name, (name in found, now + CANCELLED_KNOWN))
        return {project for project in asked if (entry := self._cancelled.get(project)) and entry[0]}

    async def settle(self, ends: Sequence[ItemEnd], steps: Sequence[Step] = ()) -> None:
        """Posts ended. The steps are written in the same transaction, before them."""
        by_project = _sorted_out(ends)
        rows = [
            {
                "project": project,
                "item": item,
                "ok": end.ok,
                "reason": end.reason or None,
                "body": end.kept_body,
            }
            for project, items in by_project.items()
            for item, end in items.items()
        ]
        if rows:
            steps = (*steps, ("truth_settle", {"rows": rows, "now": self._now()}))
        if failed := [row for row in rows if not row["ok"]]:
            steps = (*steps, ("truth_reasons", {"rows": failed}))
        if steps:
            await self._database.transact(*steps)
        for project, items in by_project.items():
            failed_before = await self._failed_of(project, [item for item, end in items.items() if end.spared])
            ends_of = [PostEnd(item, end.ok and item not in failed_before) for item, end in items.items()]
            await self._count(project, ends_of)

    async def progress(self, project: str) -> dict[str, object] | None:
        """The specification's answer. None: no such."""
        return (await self.reader.read([project])).get(project)

    async def forget(self, project: str) -> None:
        """Remove items and counts for good. A row stays behind that says so, for whoever comes late."""
        await self._database.transact(
            ("truth_forget_items", {"project": project}),
            ("truth_forget", {"project": project, "now": self._now()}),
            ("truth_forget_project", {"project": project}),
            ("progress_forget", {"project": project}),
        )
        await self._ledger.forget(project)

    async def restore(self, project: str, known: Standing) -> Standing:
        """Add to the ledger what the truth knows: this standing, and all items."""
        after, standing = "", None
        while True:
            rows = await self._database.rows("truth_items", project=project, after=after, room=RESTORE_MAX)
            if rows or standing is None:
                standing = await self._ledger.restore(project, known, [PostEnd(item, ok) for item, ok in rows])
            if len(rows) < RESTORE_MAX:
                return standing
            after = rows[-1][0]

    async def cross(self, project: str) -> Standing | None:
        """Look at the line, and finish if that crossed it."""
        return await self._shown(project, lambda: self._ledger.settle(project, ()))

    async def _failed_of(self, project: str, items: Sequence[str]) -> set[str]:
        """Those that failed before. What is spared was not analysed again, so a failure stays one."""
        if not items:
            return set()
        rows = await self._database.rows("truth_failed_of", project=project, items=tuple(items))
        return {item for (item,) in rows}

    async def _count(self, project: str, ends: Sequence[PostEnd]) -> None:
        seen = await self._shown(project, lambda: self._ledger.settle(project, ends))
        if seen is None or seen.status == DONE:
            # One that ended so long ago that nobody mirrors it any more: what is read of it follows from the truth.
            when = {"project": project, "before": self._now() - SHOWN}
            await self._database.transact(("truth_recount", when), ("truth_recount_projects", when))

    async def _shown(self, project: str, call: Callable[[], Awaitable[Standing | None]]) -> Standing | None:
        """Tell the ledger; if it does not have the project, rebuild it first. Then do what follows from its answer."""
        seen = await call()
        if seen is None and await self._rebuild(project):
            seen = await call()
        if seen is not None:
            await self._mirror(project, seen)
            if seen.status == DONE and seen.ours and not self._finished.get(project):
                truth = await self.finisher.finish(project, seen)
                self._finished.put(project, truth.ended)
        return seen

    async def _show_seal(self, truth: Truth) -> Standing | None:
        if not truth.known or truth.finished_at is not None:
            return None
        return await self._shown(truth.project, lambda: self._ledger.seal(truth.project, truth.total))

    async def _rebuild(self, project: str) -> bool:
        """Put an absent project back. False: the truth does not know it, or it is long finished."""
        turn = self._rebuilding.get(project) or self._rebuilding.put(project, asyncio.Lock())
        async with turn:
            if await self._ledger.tally(project) is not None:
                return True
            (truth,) = await look(self._database, [project])
            if not truth.shows(self._now()):
                return False
            await self.restore(project, truth.standing(self._now()))
            return True

    async def _mirror(self, project: str, seen: Standing) -> None:
        """Keep what the ledger shows, if it shows anything new; `done` alone is left to the reconciler."""
        shown = (seen.status, seen.total, seen.done - seen.counted, seen.errors - seen.failed)
        if self._mirrored.get(project) == shown or seen.status == DONE:
            return
        now = self._now()
        await self._database.transact(
            ("truth_know", {"projects": (project,), "now": now}),
            ("truth_mirror", {"rows": [mirror_row(project, seen)], "now": now}),
        )
        self._mirrored.put(project, shown)

    async def _total_of(self, project: str) -> int:
        """What is shown, or was when it still was."""
        seen = await self._ledger.tally(project)
        if seen is not None:
            return seen.total
        (truth,) = await look(self._database, [project])
        if not truth.known:
            raise NotFound(f"there is no project {project}", "headrace smap projects lists them")
        return truth.total


def mirror_row(project: str, seen: Standing) -> dict[str, object]:
    """What the ledger shows, as the truth keeps it: while our own crawl goes on, a later status is not one."""
    status = CRAWLING if seen.crawl == CRAWL_OPEN else seen.status
    return {
        "project": project,
        "status": status,
        "rank": rank(status),
        "total": seen.total,
        "done": seen.done,
        "errors": seen.errors,
        "counted": seen.counted,
        "others": max(0, seen.done - seen.counted),
        "others_failed": max(0, seen.errors - seen.failed),
    }


def _sorted_out(ends: Sequence[ItemEnd]) -> dict[str, dict[str, ItemEnd]]:
    """By project and item, each item once: that it went well outweighs that it failed."""
    found: dict[str, dict[str, ItemEnd]] = defaultdict(dict)
    for end in ends:
        items, name = found[end.project], item_name(end.item)
        if name not in items or (end.ok and not end.spared):
            items[name] = end
    return found
