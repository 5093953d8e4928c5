"""What ClickHouse holds of files, against what was sent: the second of the two facts about a file.

The first, that brokers have acknowledged every batch, is its checkpoint. This one is read from the table itself, by the
version of a revision, so it holds whoever wrote the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.statements import statement
from headrace_pm.counters.row_digest import DIGEST_MODULUS

VERSIONS_MAX = 1_000
_MS_MIN = -2_208_988_800_000


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of one revision of a file, by its version, and their digest."""

    version: int
    rows: int
    digest: int


@dataclass(frozen=True, slots=True)
class SeenLag:
    """Files of which ClickHouse has fewer rows than were sent, or others."""

    missing_rows: int
    late: tuple[int, ...]
    different: tuple[int, ...]


async def seen_files(
    clickhouse: ClickHouse, versions: Sequence[int], since_ms: int = _MS_MIN
) -> Mapping[int, FileRows]:
    """What is there of these versions, by version; those without any row are not in it."""
    query, found = statement("seen"), {}
    for first in range(0, len(versions), VERSIONS_MAX):
        asked = {"versions": list(versions[first : first + VERSIONS_MAX]), "since_ms": since_ms}
        for version, rows, digest in await clickhouse.rows(query, asked):
            found[version] = FileRows(version, rows, digest % DIGEST_MODULUS)
    return found


def seen_lag(sent: Iterable[FileRows], seen: Mapping[int, FileRows]) -> SeenLag:
    """What is missing of files that were sent whole."""
    missing, late, different = 0, [], []
    for file in sent:
        there = seen.get(file.version)
        rows = there.rows if there else 0
        if rows < file.rows:
            missing += file.rows - rows
            late.append(file.version)
        elif there is not None and there != file:
            different.append(file.version)
    return SeenLag(missing, tuple(late), tuple(different))
