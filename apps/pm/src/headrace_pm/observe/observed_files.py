"""What the table says of files that are through: how long it took, and which of them ClickHouse must show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from headrace.tables import OpenTables


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that brokers have acknowledged: what ClickHouse must show of it, and how long ago that was."""

    version: int
    rows: int
    digest: int
    age_s: float


class ObservedFiles:
    """Reads only."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def latencies(self, file_ids: Sequence[int]) -> list[float]:
        """Seconds from first listed to in both sinks, of those of the files that are; never below 0."""
        found = await self._tables.rows("files_latency", ids=list(file_ids)) if file_ids else []
        return [max(0.0, float(seconds)) for (seconds,) in found]

    async def sent_since(self, since_s: float, page: int) -> AsyncIterator[SentFile]:
        """Files that Kafka has whole and whose rows changed within so many seconds, in the order of their versions."""
        after = 0
        while True:
            found = await self._tables.rows("files_sent", since_s=since_s, after=after, count_max=page)
            for version, rows, digest, age_s in found:
                yield SentFile(version, rows, digest, max(0.0, float(age_s)))
            if len(found) < page:
                return
            after = found[-1][0]

    async def current_versions(self, versions: Sequence[int]) -> set[int]:
        """Those that are the newest of their file."""
        return {version for (version,) in await self._tables.rows("versions_current", versions=list(versions))}
