"""What the reconciler makes of one project: the truth beside what the ledger shows. Nothing here asks or writes.

Within one life of the ledger's server (its *era*) nothing is lost, so whatever is lower than before is somebody's deed
and is followed, as long as the project is not sealed or finished by us. After a restart the last moment may be missing:
then everything we ever saw is put back. Items are different: the truth has them before the ledger, and a settlement on
its way is no loss, so only what has been in the truth for a while is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace_smap.count.truth import Truth, rank
from headrace_smap.values import CRAWL_OPEN, CRAWL_SEALED, CRAWLING, DONE, INITIALIZING, Standing

ON_ITS_WAY = timedelta(seconds=2)
"""A settlement between database and ledger, or an announcement of somebody else, is given this long."""
NOT_SEALED = NOT_MOVED = timedelta(minutes=10)
Fingerprint = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class View:
    """One project at one moment. `lost`: the ledger's server was restarted since we last saw it, or what it shows was
    begun anew by somebody who did not know that it had been there."""

    truth: Truth
    seen: Standing | None
    lost: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class SettledSample:
    """What had settled at a moment."""

    at: datetime
    settled: int
    failed: int


@dataclass(slots=True)
class ReconcilerMemory:
    """What the reconciler remembers of a project between two looks. Without it everything is only found later."""

    older: SettledSample | None = None
    newer: SettledSample | None = None
    done_since: datetime | None = None
    restored: Fingerprint = ()
    alarmed: str = ""

    def note(self, view: View) -> None:
        truth, seen, now = view.truth, view.seen, view.now
        if self.newer is None or now - self.newer.at >= ON_ITS_WAY:
            self.older, self.newer = self.newer, SettledSample(now, truth.settled, truth.failed)
        if seen is None or seen.status != DONE:
            self.done_since = None
        elif self.done_since is None:
            self.done_since = now


def known(view: View) -> Standing:
    """What the ledger should show at the least."""
    truth, seen = view.truth, view.seen
    if has_lost_items(view):
        return replace(truth.standing(view.now), items_lost=True)
    if seen is None or view.lost or truth.finished_at or truth.sealed_at:
        return truth.standing(view.now)
    if truth.crawling:
        return replace(seen, status=CRAWLING, total=max(seen.total, truth.found + 1), crawl=CRAWL_OPEN)
    return seen


def has_lost_items(view: View) -> bool:
    """Whether items of ours were removed from beside a hash that stayed: within one life of the server their number
    only ever grows."""
    truth, seen = view.truth, view.seen
    return seen is not None and not view.lost and seen.counted < min(truth.done - truth.others, truth.settled)


def is_behind(least: Standing, seen: Standing) -> bool:
    """Whether status or counts are less than they should be, whatever became of the items."""
    if least.status == DONE:
        return seen.status != DONE or seen.total != max(least.total, seen.counted)
    if rank(seen.status) < rank(least.status) or (least.crawl and seen.crawl not in (least.crawl, CRAWL_SEALED)):
        return True
    if least.crawl == CRAWL_SEALED and seen.status == DONE and seen.done < least.total:
        # Said too early: our seal knows of more.
        return True
    if seen.sealed == least.sealed and seen.total < least.total:
        return True
    return seen.done < seen.counted + max(0, least.done - least.counted)


def lacks_items(view: View, memory: ReconcilerMemory) -> bool:
    """Whether something that settled a while ago is not counted, or counted as what it is no longer."""
    seen, older, truth = view.seen, memory.older, view.truth
    if seen is None or older is None:
        return False
    if seen.counted < (min(older.settled, seen.total) if seen.sealed else older.settled):
        return True
    is_still = (older.settled, older.failed) == (truth.settled, truth.failed)
    return is_still and seen.counted == truth.settled and seen.failed != truth.failed


def fingerprint(least: Standing, truth: Truth, seen: Standing) -> Fingerprint:
    """What a restoration depends on: if it is the same again, so is its outcome."""
    shown = (seen.status, seen.total, seen.done, seen.counted, seen.failed, seen.crawl)
    return least.status, least.total, truth.settled, truth.failed, *shown


def must_restore(view: View, memory: ReconcilerMemory) -> bool:
    """Whether the ledger is to be told what the truth knows."""
    if view.seen is None or view.truth.deleted_at is not None:
        return view.truth.shows(view.now)
    if rank(view.seen.status) < 0 and not (view.truth.finished_at or view.truth.sealed_at):
        # A word of somebody else: a restoration would put one of ours in its place.
        return False
    if view.lost:
        return True
    least = known(view)
    if not (is_behind(least, view.seen) or least.items_lost or lacks_items(view, memory)):
        return False
    return memory.restored != fingerprint(least, view.truth, view.seen)


def is_still(view: View) -> bool:
    """Neither the total nor the messages have moved since the last look."""
    truth, seen = view.truth, view.seen
    return seen is not None and (truth.total, truth.done) == (seen.total, seen.done)


def still_for(view: View) -> timedelta:
    """How long neither the total nor the messages have moved."""
    return view.now - view.truth.moved_at if is_still(view) and view.truth.moved_at else timedelta()


def is_open(view: View) -> bool:
    """The collector may find more: the line cannot be crossed."""
    return view.seen is not None and view.truth.sealed_at is None and not view.seen.sealed


def is_complete_but_open(view: View) -> bool:
    """Everything that was expected has ended, and nobody says that it is all."""
    seen = view.seen
    if seen is None or not is_open(view) or (seen.status == INITIALIZING and seen.done == 0):
        return False
    return seen.done >= seen.total - (1 if view.truth.crawled_at else 0)


def is_stuck(view: View) -> bool:
    """Sealed, not at its end, and nothing has moved for long: something that was expected does not come. Nobody waits
    for a cancelled one."""
    seen = view.seen
    if view.truth.cancelled_at is not None:
        return False
    return seen is not None and seen.sealed and seen.status != DONE and still_for(view) >= NOT_MOVED


def beyond_total(view: View, settled: int) -> int:
    """How many more than its total have ended, so many of them by the truth: the total of a project that nobody adds to
    is not what its collector meant. A cancelled one was cut off on purpose."""
    truth, seen = view.truth, view.seen
    if seen is None or not seen.sealed or truth.cancelled_at is not None:
        return 0
    return max(0, max(seen.done, settled) - seen.total)


def is_told_late(finished_at: datetime, now: datetime) -> bool:
    """Whether the end should have been told by now. One in the future is of a clock that goes wrong."""
    return not timedelta() <= now - finished_at < ON_ITS_WAY


def may_be_sealed(view: View, idle_s: float | None) -> bool:
    """Whether a foreign collector has been silent for so long that it is taken to be through. Ours always seals."""
    if idle_s is None or not is_open(view) or view.seen is None or view.truth.crawled_at:
        return False
    return view.seen.status == CRAWLING and still_for(view) >= timedelta(seconds=idle_s)
