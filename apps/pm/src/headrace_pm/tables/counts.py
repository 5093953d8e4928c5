"""The table of files in figures: what waits and for how long, what failed, how much was done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.tables import OpenTables
from headrace_pm.tables.file_claims import SINKS

WAITING_STATES = ("PENDING", "DOWNLOADING", "PARSING", "PROCESSING", "PARTIAL_DONE")
FILE_STATES = (*WAITING_STATES, "COMPLETED", "MOVED", "ERROR")
STUCK_MINUTES = 120
# Enough for any percentile; a day of 5,000 files each 5 minutes is not read for a figure of the last ten.
FINISHED_MAX = 20_000
# Of each state, those that were registered first: a backlog is longest when the database has most to do.
EXAMINED_MAX = 10_000
# A million a day is usual, and counting a million takes a quarter of a second.
MOVED_MANY, MOVED_S = 1_000_000, 300.0


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Files that ended with the same message, and when the last of them did."""

    message: str
    files: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class SinkLag:
    """Files that are known and not in a sink yet, and how long the oldest of them has been known. What waits for its
    upload or its server counts for no sink."""

    files: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class _Examined:
    """Files of one state that have not ended."""

    files: int
    oldest_s: float
    stuck: int
    lags: dict[str, SinkLag]


@dataclass(frozen=True, slots=True)
class FinishedFiles:
    """Files that both sinks have got lately. `seconds` are their latencies in order: listed first, then in both."""

    seconds: tuple[float, ...]
    byte_count: int
    counters: int

    @property
    def files(self) -> int:
        return len(self.seconds)

    def percentile(self, share: float) -> float | None:
        """Such as 0.95; None if there was no file."""
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)] if self.seconds else None


class FileCounts:
    """Each method is one or two reads that take no locks."""

    def __init__(
        self,
        tables: OpenTables,
        examined_max: int = EXAMINED_MAX,
        moved_many: int = MOVED_MANY,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables, self._examined_max, self._moved_many, self._now = tables, examined_max, moved_many, now
        self._moved, self._moved_until = 0, 0.0

    async def by_state(self) -> dict[str, int]:
        """All eight states, 0 for empty ones; and what else somebody wrote there. Where MOVED_MANY files are moved or
        more, these are counted every MOVED_S only."""
        found = {state: int(files) for state, files in await self._tables.rows("counts_by_state")}
        return dict.fromkeys(FILE_STATES, 0) | {"MOVED": await self._moved_count()} | found

    async def _moved_count(self) -> int:
        if self._moved < self._moved_many or self._now() >= self._moved_until:
            ((moved,),) = await self._tables.rows("count_moved")
            self._moved, self._moved_until = int(moved), self._now() + MOVED_S
        return self._moved

    async def oldest_s(self) -> dict[str, float]:
        """How old the oldest file of each state is since it was listed; for COMPLETED and ERROR: since the file
        that was registered first was changed. MOVED is no state that waits, and 0."""
        ages = {state: float(age) for state, age in await self._tables.rows("ages_of_ends")}
        ages |= {state: found.oldest_s for state, found in (await self._examined()).items()}
        return dict.fromkeys(FILE_STATES, 0.0) | {state: max(age, 0.0) for state, age in ages.items()}

    async def stuck(self, minutes: int = STUCK_MINUTES) -> int:
        """Files that have not ended and were not touched, or are known, for longer; up to EXAMINED_MAX of a state."""
        return sum(found.stuck for found in (await self._examined(minutes)).values())

    async def errors(self, count_max: int = 20) -> list[ErrorCount]:
        """The most frequent messages of files in ERROR."""
        rows = await self._tables.rows("error_messages", count_max=count_max)
        return [ErrorCount(message, int(files), last_at) for message, files, last_at in rows]

    async def lags(self) -> dict[str, SinkLag]:
        """By sink, `mysql` and `kafka`. What was not examined of a long backlog counts as not in a sink."""
        found = await self._examined()
        beyond = 0
        if any(each.files == self._examined_max for each in found.values()):
            counts = await self.by_state()
            beyond = sum(max(0, counts[state] - each.files) for state, each in found.items())
        by_sink = {sink: [each.lags[sink] for each in found.values()] for sink in SINKS}
        return {
            sink: SinkLag(sum(lag.files for lag in lags) + beyond, max(lag.oldest_s for lag in lags))
            for sink, lags in by_sink.items()
        }

    async def _examined(self, minutes: int = STUCK_MINUTES) -> dict[str, _Examined]:
        found = {}
        for state in WAITING_STATES:
            some = {"state": state, "minutes": minutes, "count_max": self._examined_max}
            ((files, oldest_s, stuck, *behind),) = await self._tables.rows("files_examined", **some)
            lags = [SinkLag(int(behind[at]), float(behind[at + 1])) for at in (0, 2)]
            found[state] = _Examined(int(files), float(oldest_s), int(stuck), dict(zip(SINKS, lags, strict=True)))
        return found

    async def finished(self, minutes: int = 10) -> FinishedFiles:
        """What was done in the last minutes, up to FINISHED_MAX files."""
        rows = await self._tables.rows("files_finished", minutes=minutes, count_max=FINISHED_MAX)
        seconds = sorted(max(float(age), 0.0) for age, *_ in rows)
        return FinishedFiles(tuple(seconds), sum(int(size) for _, size, _ in rows), sum(int(each) for *_, each in rows))
