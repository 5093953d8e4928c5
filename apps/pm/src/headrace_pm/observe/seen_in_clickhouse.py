"""How far ClickHouse is behind Kafka: files whose every batch is acknowledged, and whose rows it does not show yet.

A version is looked for until it is there whole, so each file costs one look or a few. Rows that a newer revision has
replaced do not show any more: what the table no longer names as the newest is let go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.tables import OpenTables
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.seen import FileRows, seen_files, seen_lag
from headrace_pm.observe.observed_files import ObservedFiles, SentFile

# The first look goes back so far; after that what is new comes within seconds, and what is late is remembered.
FIRST_S, NEXT_S = 3_600.0, 600.0
FILES_MAX = 1_000
# Beyond this nobody needs to know more exactly how far it is behind.
OPEN_MAX = 20_000
# Looks are a quarter of a minute apart, so this is how exactly the time of a sighting is known at worst.
SIGHTING_S = 60.0
KEPT_DAYS = 90


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
    """Asks both sides; one is enough for a pipeline, and several agree. `sightings` are where the moment is noted."""

    def __init__(self, clickhouse: ClickHouse, files: ObservedFiles, sightings: OpenTables | None = None) -> None:
        self._clickhouse, self._files, self._sightings = clickhouse, files, sightings
        self._missed: set[int] = set()
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

    def _is_sighting(self, version: int, now: float) -> bool:
        """Whether it came while we looked. What was there long before our first look came at a time nobody knows."""
        return version in self._missed or now - self._open[version].sent_at <= SIGHTING_S

    async def _note(self, versions: Sequence[int]) -> None:
        if self._sightings is None or not versions:
            return
        async with self._sightings.transaction() as tx:
            tx.run_many("seen_add", [{"version": version} for version in versions])
            tx.run("seen_forget", days=KEPT_DAYS)

    async def _let_go(self, late: Iterable[int]) -> None:
        versions = sorted(late)
        current = await self._files.current_versions(versions) if versions else set[int]()
        for version in versions:
            if version not in current:
                del self._open[version]
                self._missed.discard(version)

    async def _asked(self, now: float) -> SeenLagNow:
        there = await seen_files(self._clickhouse, sorted(self._open)) if self._open else {}
        files = [FileRows(each.file.version, each.file.rows, each.file.digest) for each in self._open.values()]
        lag = seen_lag(files, there)
        whole = [each.version for each in files if each.version not in lag.late and each.version not in lag.different]
        await self._note([version for version in whole if self._is_sighting(version, now)])
        for version in whole:
            del self._open[version]
            self._missed.discard(version)
            self._seen.add(version)
        self._missed.update(lag.late)
        oldest = max((now - self._open[version].sent_at for version in lag.late), default=0.0)
        return SeenLagNow(len(lag.late), lag.missing_rows, oldest, len(lag.different))
