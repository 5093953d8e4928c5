"""Counters that files have and no dictionary wants: which, how many values, since when, and in which file last.

A worker notes what a revision had, in memory, and writes sums every few seconds: a thousand counters of a thousand
files are a thousand rows, not a million. Revisions that are in the sums stand in a table of their own, in the same
transaction: whatever is repeated (a retry, a second worker, a lost answer) is counted once. What a process had noted
and not written when it was killed is missing in the sums; nothing else depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import structlog

from headrace.errors import CallerError
from headrace.tables import OpenTables
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.wire.counter_file import CounterFile

log = structlog.get_logger("headrace_pm.operators")
FLUSH_S = 10.0
# A file of noise may name a million; those of a real network are a few thousand.
COUNTERS_PER_FILE_MAX = 5_000
# What waits to be written while the database is away.
WAITING_MAX = 100_000
VERSIONS_PER_UNIT = 1_000


def out_of_scope(file: CounterFile, dictionary: NetworkDictionary) -> Mapping[int, int]:
    """How many values a file has of each counter that the dictionary does not want; of very many the most frequent."""
    found: dict[int, int] = {}
    for block in file.blocks():
        ids = block.counters.ids
        unknown, counts = np.unique(ids[dictionary.scope.groups_of(ids) < 0], return_counts=True)
        for number, count in zip(unknown.tolist(), counts.tolist(), strict=True):
            found[number] = found.get(number, 0) + count
        if len(found) > 4 * COUNTERS_PER_FILE_MAX:
            found = _most_frequent(found)
    return _most_frequent(found)


def _most_frequent(counts: dict[int, int]) -> dict[int, int]:
    if len(counts) <= COUNTERS_PER_FILE_MAX:
        return counts
    return dict(sorted(counts.items(), key=lambda each: -each[1])[:COUNTERS_PER_FILE_MAX])


@dataclass(frozen=True, slots=True)
class NotedFile:
    """What one revision had."""

    version: int
    file_name: str
    counters: Mapping[int, int]
    at: datetime


@dataclass(slots=True)
class CounterSum:
    """One counter over several files."""

    seen: int
    first: datetime
    last: datetime
    file_name: str

    def add(self, noted: NotedFile, count: int) -> None:
        self.seen += count
        self.first = min(self.first, noted.at)
        if noted.at >= self.last:
            self.last, self.file_name = noted.at, noted.file_name


@dataclass(slots=True)
class UnknownCounters:
    """One per process. `note` costs nothing but memory; `run` writes beside the other loops."""

    tables: OpenTables
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _noted: dict[int, NotedFile] = field(default_factory=dict)
    _size: int = 0

    def note(self, version: int, file_name: str, counters: Mapping[int, int]) -> None:
        """What a revision had. A second time is the same as once."""
        if not counters or version in self._noted:
            return
        if self._size + len(counters) > WAITING_MAX:
            log.warning("unknown_counters.dropped", file=file_name, counters=len(counters))
            return
        self._noted[version] = NotedFile(version, file_name, counters, self.clock())
        self._size += len(counters)

    async def flush(self) -> None:
        """Write what is noted now."""
        while self._noted:
            versions = sorted(self._noted)[:VERSIONS_PER_UNIT]
            await self._write(versions)
            for version in versions:
                self._size -= len(self._noted.pop(version).counters)

    async def _write(self, versions: list[int]) -> None:
        fresh = await self._uncounted(versions)
        try:
            await self._add(fresh)
        except CallerError:
            # Another process has counted one of them in this very moment; the rest is still to be counted.
            fewer = await self._uncounted(versions)
            if fewer == fresh:
                raise
            await self._add(fewer)

    async def _uncounted(self, versions: list[int]) -> list[int]:
        known = {version for (version,) in await self.tables.rows("unknown_counted", versions=versions)}
        return [version for version in versions if version not in known]

    async def _add(self, versions: list[int]) -> None:
        if not versions:
            return
        sums = _summed([self._noted[version] for version in versions])
        async with self.tables.transaction() as tx:
            tx.run_many("unknown_count_file", [{"version": version} for version in versions])
            tx.run_many(
                "unknown_add",
                [
                    {
                        "counter_id": number,
                        "seen": each.seen,
                        "first_seen_at": each.first,
                        "last_seen_at": each.last,
                        "last_file": each.file_name,
                    }
                    for number, each in sorted(sums.items())
                ],
            )


def _summed(files: list[NotedFile]) -> dict[int, CounterSum]:
    sums: dict[int, CounterSum] = {}
    for noted in files:
        for number, count in noted.counters.items():
            known = sums.setdefault(number, CounterSum(0, noted.at, noted.at, noted.file_name))
            known.add(noted, count)
    return sums


@dataclass(frozen=True, slots=True)
class UnknownCounter:
    """A counter that is still out of scope."""

    counter_id: int
    seen: int
    first_seen_at: datetime
    last_seen_at: datetime
    last_file: str


async def unknown_counters(tables: OpenTables, count_max: int = 100) -> list[UnknownCounter]:
    """Those with the most values first; what a dictionary has wanted since is left out."""
    return [UnknownCounter(*row) for row in await tables.rows("unknown_list", count_max=count_max)]


async def counter_level(tables: OpenTables) -> str | None:
    """The level at which a counter of the dictionary is in scope: that of the column `rat_type`."""
    row = await tables.one("counter_level")
    return None if row is None else str(row[0])
