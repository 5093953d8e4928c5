"""The table of files in figures: what waits and for how long, what failed, how much was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.tables import OpenTables

FILE_STATES = ("PENDING", "DOWNLOADING", "PARSING", "PROCESSING", "PARTIAL_DONE", "COMPLETED", "MOVED", "ERROR")
STUCK_MINUTES = 120
# Enough for any percentile; a day of 5,000 files each 5 minutes is not read for a figure of the last ten.
FINISHED_MAX = 20_000


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Files that ended with the same message, and when the last of them did."""

    message: str
    files: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class SinkLag:
    """Files that are known and not in a sink yet, and how long the oldest of them has been known."""

    files: int
    oldest_s: float


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

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def by_state(self) -> dict[str, int]:
        """All eight states, 0 for empty ones; and what else somebody wrote there."""
        found = {state: int(files) for state, files in await self._tables.rows("counts_by_state")}
        return dict.fromkeys(FILE_STATES, 0) | found

    async def oldest_s(self) -> dict[str, float]:
        """How old the oldest file of each state is since it was listed; for COMPLETED and ERROR: since the file
        that was registered first was changed. MOVED is no state that waits, and 0."""
        rows: Sequence[tuple[str, float]] = [
            (state, float(age))
            for name in ("ages_by_state", "ages_of_ends")
            for state, age in await self._tables.rows(name)
        ]
        return dict.fromkeys(FILE_STATES, 0.0) | {state: max(age, 0.0) for state, age in rows}

    async def stuck(self, minutes: int = STUCK_MINUTES) -> int:
        """Files that have not ended and were not touched, or are known, for longer."""
        ((files,),) = await self._tables.rows("count_stuck", minutes=minutes)
        return int(files)

    async def errors(self, count_max: int = 20) -> list[ErrorCount]:
        """The most frequent messages of files in ERROR."""
        rows = await self._tables.rows("error_messages", count_max=count_max)
        return [ErrorCount(message, int(files), last_at) for message, files, last_at in rows]

    async def lags(self) -> dict[str, SinkLag]:
        """By sink, `mysql` and `kafka`."""
        (row,) = await self._tables.rows("sinks_behind")
        files, age, kafka_files, kafka_age = row
        return {"mysql": SinkLag(int(files), float(age)), "kafka": SinkLag(int(kafka_files), float(kafka_age))}

    async def finished(self, minutes: int = 10) -> FinishedFiles:
        """What was done in the last minutes, up to FINISHED_MAX files."""
        rows = await self._tables.rows("files_finished", minutes=minutes, count_max=FINISHED_MAX)
        seconds = sorted(max(float(age), 0.0) for age, *_ in rows)
        return FinishedFiles(tuple(seconds), sum(int(size) for _, size, _ in rows), sum(int(each) for *_, each in rows))
