"""How far ClickHouse is behind Kafka: files whose every batch is acknowledged, and whose rows it does not show yet.

A version is looked for until it is there whole, so each file costs one look or a few. Rows that a newer revision has
replaced do not show any more: what the table no longer names as the newest is let go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.seen import FileRows, seen_files, seen_lag
from headrace_pm.observe.observed_files import ObservedFiles, SentFile

# The first look goes back so far; after that what is new comes within seconds, and what is late is remembered.
FIRST_S, NEXT_S = 3_600.0, 600.0
FILES_MAX = 1_000
# Beyond this nobody needs to know more exactly how far it is behind.
OPEN_MAX = 20_000


@dataclass(frozen=True, slots=True)
class SeenLagNow:
    """What is missing at this moment."""

    files: int = 0
    rows: int = 0
    oldest_s: float = 0.0
    different: int = 0


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """Not seen whole yet; `sent_at` is when Kafka had it, by our clock."""

    file: SentFile
    sent_at: float


class SeenInClickHouse:
    """Asks both sides; one is enough for a pipeline, and several agree."""

    def __init__(self, clickhouse: ClickHouse, files: ObservedFiles) -> None:
        self._clickhouse, self._files = clickhouse, files
        self._open: dict[int, _OpenFile] = {}
        self._seen: set[int] = set()
        self._looked = False

    async def look(self, now: float) -> SeenLagNow:
        """One look. `now` is of a clock that never goes back."""
        sent = [file async for file in self._files.sent_since(NEXT_S if self._looked else FIRST_S, FILES_MAX)]
        self._looked = True
        self._seen.intersection_update(file.version for file in sent)
        for file in sent:
            if file.version not in self._seen and len(self._open) < OPEN_MAX:
                self._open.setdefault(file.version, _OpenFile(file, now - file.age_s))
        await self._let_go(version for version, each in self._open.items() if now - each.sent_at > NEXT_S)
        return await self._asked(now)

    async def _let_go(self, late: Iterable[int]) -> None:
        versions = sorted(late)
        current = await self._files.current_versions(versions) if versions else set[int]()
        for version in versions:
            if version not in current:
                del self._open[version]

    async def _asked(self, now: float) -> SeenLagNow:
        there = await seen_files(self._clickhouse, sorted(self._open)) if self._open else {}
        files = [FileRows(each.file.version, each.file.rows, each.file.digest) for each in self._open.values()]
        lag = seen_lag(files, there)
        for file in files:
            if file.version not in lag.late and file.version not in lag.different:
                del self._open[file.version]
                self._seen.add(file.version)
        oldest = max((now - self._open[version].sent_at for version in lag.late), default=0.0)
        return SeenLagNow(len(lag.late), lag.missing_rows, oldest, len(lag.different))
