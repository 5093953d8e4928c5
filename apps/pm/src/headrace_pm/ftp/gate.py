"""The ready gate: a file is taken when it was listed twice with the same size and moment, and not before.

A server shows a file while it is uploaded. Uploaders that are careful use another name until they are done; those names
are passed over. Of the others nobody tells when they are whole, so they must hold still: two listings, some time apart
by our own clock, that agree. An uploader that stalls for longer is found out by the first bytes of the file, which say
how long it must be (`Completeness`): then its row waits until the file is listed differently. Waiting costs no attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.stamps import Stamp

UNFINISHED = (b".tmp", b".part", b".filepart")
# Two listings of the same second prove nothing: what LIST and MLSD tell has a resolution of a second at best.
SETTLE_S = 1.0


class Completeness(Enum):
    """What the first bytes and the size of a file say about it."""

    COMPLETE = auto()
    INCOMPLETE = auto()
    BAD = auto()
    """It is not such a file, and never will be."""
    UNDECIDED = auto()
    """Only reading it can tell."""


CompletenessCheck = Callable[[bytes, int], Completeness]
"""Judges a file by its first bytes and its whole size."""


@dataclass(frozen=True, slots=True)
class _Watched:
    stamp: Stamp
    since: float


@dataclass(frozen=True, slots=True)
class Passed:
    """What one listing let through, and what it kept back."""

    ready: tuple[ListedFile, ...]
    waiting_count: int
    empty_count: int


def is_unfinished(name: bytes) -> bool:
    """Whether its name says that it is hidden, or still being written."""
    return name.startswith(b".") or name.lower().endswith(UNFINISHED)


class ReadyGate:
    """Of one folder."""

    def __init__(self, settle_s: float = SETTLE_S) -> None:
        self._settle_s = settle_s
        self._watched: dict[bytes, _Watched] = {}

    def passed(self, candidates: Iterable[ListedFile], now: float) -> Passed:
        """The candidates of one listing that are ready. Those that were not listed again are forgotten."""
        watched: dict[bytes, _Watched] = {}
        ready, empty_count = [], 0
        for file in candidates:
            before = self._watched.get(file.name)
            if before is None or before.stamp != file.stamp:
                before = _Watched(file.stamp, now)
                is_still = False
            else:
                is_still = now - before.since >= self._settle_s
            watched[file.name] = before
            if not file.stamp.size:
                empty_count += 1
            elif is_still:
                ready.append(file)
        self._watched = watched
        return Passed(tuple(ready), len(watched) - len(ready) - empty_count, empty_count)

    def forget(self, names: Iterable[bytes]) -> None:
        """They are registered now, and watched no longer."""
        for name in names:
            self._watched.pop(name, None)
