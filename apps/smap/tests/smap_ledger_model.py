"""What a ledger in Redis shows after each call, said in sets: the model that the scripts are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    SEALED,
    STATUSES,
)

Ends = Mapping[str, bool]


@dataclass
class Shown:
    """The four fields."""

    status: str = INITIALIZING
    total: int = 0
    done: int = 0
    errors: int = 0


@dataclass
class Model:
    """The hash if it is there, the items of ours that are counted (True: went well), whether we crossed, and how far
    our crawl is. `stump`: total, done and errors that somebody wrote where no hash was."""

    shown: Shown | None = None
    items: dict[str, bool] = field(default_factory=dict)
    ours: bool = False
    crawl: str = ""
    stump: tuple[int, int, int] | None = None

    def copy(self) -> Model:
        return deepcopy(self)

    @property
    def failed(self) -> int:
        return sum(not ok for ok in self.items.values())

    @property
    def sealed(self) -> bool:
        return self.shown is not None and self.shown.status in SEALED and self.crawl != CRAWL_OPEN

    def open(self) -> bool:
        if self.shown is not None:
            return False
        total, done, errors = self.stump or (0, 0, 0)
        self.shown, self.stump = Shown(total=total, done=len(self.items) + done, errors=self.failed + errors), None
        return True

    def expect(self, found: int) -> None:
        shown = self.shown
        if shown is None:
            return
        if self.crawl == CRAWL_OPEN or (not self.crawl and shown.status != DONE):
            self.crawl, shown.status = CRAWL_OPEN, CRAWLING
            shown.total = max(shown.total, found + 1)
        elif self.sealed and shown.status != DONE:
            shown.total = max(shown.total, found)

    def seal(self, total: int | None) -> bool:
        shown = self.shown
        if shown is None:
            return False
        wanted = shown.total if total is None else total
        early = shown.status == DONE and self.crawl == CRAWL_OPEN and shown.done < wanted
        if not self.sealed:
            shown.total = max(wanted, len(self.items))
            if shown.status not in SEALED or early:
                shown.status = PROCESSING_WAIT
        elif shown.status != DONE:
            shown.total = max(shown.total, wanted)
        self.crawl = CRAWL_SEALED
        return self.cross()

    def settle(self, ends: Ends) -> bool:
        if self.shown is None:
            return False
        items, failed = len(self.items), self.failed
        self.count(ends)
        self.shown.done += len(self.items) - items
        self.shown.errors = max(0, self.shown.errors + self.failed - failed)
        if ends and self.shown.status == PROCESSING_WAIT and self.sealed:
            self.shown.status = PROCESSING
        return self.cross()

    def restore(self, known: Shown, crawl: str, ends: Ends) -> None:
        lost, was_sealed = self.shown is None, self.sealed
        total, done, errors = self.stump or (0, 0, 0)
        self.shown = shown = self.shown or Shown("", total, len(self.items) + done, self.failed + errors)
        self.stump = None
        if crawl == CRAWL_SEALED or not self.crawl:
            self.crawl = crawl or self.crawl
        status = CRAWLING if self.crawl == CRAWL_OPEN and known.status in SEALED else known.status
        is_sealed = status in SEALED
        if status == DONE or (is_sealed and not was_sealed):
            shown.total = known.total
        elif lost or is_sealed == self.sealed:
            shown.total = max(shown.total, known.total)
        if lost or STATUSES.index(status) > STATUSES.index(shown.status):
            shown.status = status
        foreign_done = max(0, shown.done - len(self.items))
        foreign_errors = max(0, shown.errors - self.failed)
        self.count(ends)
        shown.done = len(self.items) + foreign_done
        shown.errors = self.failed + foreign_errors
        if shown.status == DONE != status and crawl == CRAWL_SEALED and shown.done < known.total:
            shown.status = status

    def count(self, ends: Ends) -> None:
        """Items that went well come first where there is little room."""
        assert self.shown is not None
        for item, ok in sorted(ends.items(), key=lambda end: not end[1]):
            full = self.sealed and len(self.items) >= self.shown.total
            if item in self.items:
                self.items[item] |= ok
            elif not full:
                self.items[item] = ok

    def cross(self) -> bool:
        """True if this is the first time that a call of ours crosses."""
        shown = self.shown
        assert shown is not None
        if not self.sealed or shown.status == DONE or shown.done < shown.total:
            return False
        shown.status = DONE
        first, self.ours = not self.ours, True
        return first
