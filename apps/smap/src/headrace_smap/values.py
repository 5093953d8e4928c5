"""What smap's services speak about. The words of states and fields are the specification's."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

INITIALIZING = "INITIALIZING"
CRAWLING = "CRAWLING"
PROCESSING_WAIT = "PROCESSING_WAIT"
PROCESSING = "PROCESSING"
DONE = "DONE"
STATUSES = (INITIALIZING, CRAWLING, PROCESSING_WAIT, PROCESSING, DONE)
"""In the order in which a project passes through them; it never goes back."""
SEALED = frozenset(STATUSES[2:])
"""The total is fixed: the finish line can be crossed."""
NOT_FOUND = "NOT_FOUND"
CANCELLED = "CANCELLED"
"""What a cancelled project is called wherever people look; the hash, which others read, ends DONE."""
FINAL = (DONE, CANCELLED)
CRAWL_OPEN, CRAWL_SEALED = "open", "sealed"
"""What is known of our own collector's crawl, whatever status others write; nothing if it is somebody else's."""


class PostEnd(msgspec.Struct, frozen=True):
    """How one post of a project ended. Its identity is the `minio_path` within the project.

    A post that failed may end well later, when it is tried again; never the other way round.
    """

    item: str
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Standing:
    """A project's account as the ledger shows it after a call.

    `done` counts every settled post, failed ones included; `errors` is the part of it that failed. `counted` are the
    posts that workers of ours counted and `failed` those of them that failed, so `done - counted` and `errors - failed`
    are foreign. `new` were counted by this very call, `surplus` not at all because a sealed total leaves no room for
    them. `crossed`: this very call crossed the finish line; `ours`: some call of ours did, now or earlier. `crawl`: how
    far our own crawl is. `whole`: no field was missing, as after a loss that others wrote into. `items_lost`: `done`
    still has posts of ours that are counted no more, so what is beyond the counted is not foreign. `left_s`: for how
    long a finished project is still to be shown, if that is known.
    """

    status: str
    total: int = 0
    done: int = 0
    errors: int = 0
    counted: int = 0
    failed: int = 0
    new: int = 0
    surplus: int = 0
    crossed: bool = False
    ours: bool = False
    crawl: str = ""
    whole: bool = True
    items_lost: bool = False
    left_s: int = 0

    @property
    def sealed(self) -> bool:
        """Nobody finds more: somebody says so, and it is not our own crawl that goes on."""
        return self.status in SEALED and self.crawl != CRAWL_OPEN

    @property
    def reached(self) -> bool:
        """Sealed, and as many ended as belong to it."""
        return self.sealed and self.done >= self.total

    def progress(self) -> dict[str, object]:
        """The answer of the specification's `get_project_progress`, never above 100 %."""
        if self.total > 0:
            percent = round(min(self.done / self.total, 1.0) * 100, 2)
        else:
            percent = 100.0 if self.status == DONE else 0.0
        if percent == 100.0 and self.done < self.total:
            # 99.996 is not 100: whoever waits for 100 would go home early.
            percent = 99.99
        return {
            "status": self.status,
            "total": self.total,
            "processed": min(self.done, self.total),
            "errors": self.errors,
            "percent": percent,
        }


NO_PROGRESS: dict[str, object] = {"status": NOT_FOUND, "percent": 0}
