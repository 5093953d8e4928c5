"""What the database knows of a project, and what the ledger should show for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from headrace_smap.database import Database
from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    STATUSES,
    Standing,
)

LOOK_MAX = 1_000
ITEM_BYTES_MAX = 1_024
"""An object's key in S3 is not longer, and a longer one would not fit into an index."""
KEPT = timedelta(days=7)
SHOWN = KEPT - timedelta(hours=1)
"""A finished project is shown for seven days. Shortly before their end it is not put back, lest it come back later."""


@dataclass(frozen=True, slots=True)
class Truth:
    """A row of `smap_project`; `there` says whether `projects` has one too."""

    project: str
    status: str | None
    rank: int
    total: int
    done: int
    errors: int
    settled: int
    failed: int
    found: int
    others: int
    others_failed: int
    era: str
    crawled_at: datetime | None
    moved_at: datetime | None
    sealed_at: datetime | None
    cancelled_at: datetime | None
    finished_at: datetime | None
    final_total: int | None
    final_done: int | None
    final_errors: int | None
    announced_at: datetime | None
    completed_seen_at: datetime | None
    deleted_at: datetime | None
    there: bool
    traceparent: str = ""

    @property
    def known(self) -> bool:
        """Whether anybody ever opened it; posts alone do not make a project."""
        return self.deleted_at is None and (self.status is not None or self.there)

    def shows(self, now: datetime) -> bool:
        """Whether the ledger should have it."""
        return self.known and (self.finished_at is None or now - self.finished_at < SHOWN)

    @property
    def is_new(self) -> bool:
        """Opened, and nothing has happened to it since."""
        return self.standing() == Standing(INITIALIZING)

    @property
    def ended(self) -> bool:
        """There is a finish row, or nobody will ever need one."""
        return self.finished_at is not None or self.deleted_at is not None

    @property
    def heard(self) -> bool:
        """Somebody has announced the end, and not before we knew that nobody finds more."""
        told_at = self.completed_seen_at
        return told_at is not None and (self.sealed_at is None or told_at >= self.sealed_at)

    @property
    def crawling(self) -> bool:
        """Our collector works on it and has not sealed: nothing can be at its end, whatever is shown."""
        return self.crawled_at is not None and self.sealed_at is None and self.finished_at is None

    def final(self) -> Standing:
        """What was seen when the line was crossed: what is announced."""
        return Standing(DONE, self.final_total or 0, self.final_done or 0, self.final_errors or 0)

    def standing(self, now: datetime | None = None) -> Standing:
        """What the ledger should show, at the least, and from now on for how long. `done` and `errors` have the part
        of others, and what we know."""
        status, total = self._status_and_total()
        return Standing(
            status,
            total,
            done=max(self.final_done or 0, self.settled + self.others),
            errors=self.failed + self.others_failed,
            counted=self.settled,
            failed=self.failed,
            ours=self.finished_at is not None,
            left_s=int((self.finished_at + KEPT - now).total_seconds()) if self.finished_at and now else 0,
            crawl=CRAWL_OPEN if self.crawling else CRAWL_SEALED if self.sealed_at or self.finished_at else "",
        )

    def _status_and_total(self) -> tuple[str, int]:
        if self.finished_at is not None:
            return DONE, self.final_total or 0
        status = self.status if self.status in STATUSES else INITIALIZING
        if self.sealed_at is not None:
            # Whether it is DONE is seen from the counts: somebody may have said so before our seal.
            return PROCESSING if rank(status) > rank(PROCESSING_WAIT) else PROCESSING_WAIT, self.total
        if self.crawled_at is not None:
            # The crawl itself is an open item.
            return CRAWLING, max(self.total, self.found + 1)
        return status, self.total


def rank(status: str | None) -> int:
    """The place of a status in their order; -1 for a word of somebody else."""
    return STATUSES.index(status) if status in STATUSES else -1


async def look(database: Database, projects: Sequence[str]) -> list[Truth]:
    """What is known of each, in one snapshot per thousand; of an unknown project nothing is."""
    found: list[Truth] = []
    for first in range(0, len(projects), LOOK_MAX):
        part = tuple(projects[first : first + LOOK_MAX])
        found += [Truth(*row) for row in await database.rows("truth_look", projects=part)]
    return found


def item_name(path: str) -> str:
    """How an item is called in the truth and in the ledger: its path, but for what no database would take."""
    if len(path) <= ITEM_BYTES_MAX and path.isascii() and "\0" not in path:
        return path
    name = path.encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")
    if len(name) > ITEM_BYTES_MAX:
        digest = blake2b(name, digest_size=16).hexdigest().encode()
        name = name[: ITEM_BYTES_MAX - len(digest) - 1] + b"#" + digest
    return name.decode("utf-8", "ignore")
