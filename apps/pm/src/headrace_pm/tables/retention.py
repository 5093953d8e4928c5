"""Rows of files that are done with for long go, and so does what belongs to rows that are gone; some at a time.

Deleted is what we moved into the archive ourselves and nobody has touched since: no listing shows its file. A name that
comes again after that is a new file with a higher version, and its revision is higher than any that was ever deleted:
those who read the topic know a batch by (file, revision, batch), and would take a second revision 1 for the first.

What somebody changes meanwhile stays: the row is looked at again in the statement that deletes it, and only what has no
row any more loses its claim, revisions and checkpoints. Rows that are locked are passed over, and not waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.tables import OpenTables
from headrace_pm.tables.steps import run

# Some ten milliseconds: a hold or a settlement beside it does not notice.
FILES_MAX = 500
# Looking for orphans reads two indexes and finds nothing nearly always.
ORPHANS_EXAMINED_MAX = 2_000
DAY_S = 24 * 3600
_BEGINNING = "1970-01-01 00:00:00"
_KINDS = ("orphans_of_claims", "orphans_of_revisions", "orphans_of_sinks")
_BELONGINGS = ("purge_sinks", "purge_revisions", "purge_claims")


@dataclass(frozen=True, slots=True)
class PurgePreview:
    """How many files would lose their rows, and when the oldest of them was last changed, as the table has it."""

    files: int
    oldest: str


class FileRetention:
    """Walks through old rows again and again, a slice at each call; any number of processes may."""

    def __init__(self, tables: OpenTables, age_s: float, files_max: int = FILES_MAX) -> None:
        self._tables, self._age_s, self._files_max = tables, round(age_s), files_max
        self._place = (_BEGINNING, 0)
        self._floor = 0
        self._orphans_after = dict.fromkeys(_KINDS, 0)

    async def preview(self) -> PurgePreview:
        ((files, oldest),) = await self._tables.rows("purge_count", age_s=self._age_s)
        return PurgePreview(int(files), str(oldest))

    async def purge(self) -> tuple[int, bool]:
        """One slice: how many files lost their rows, and whether there are more."""
        after_at, after_id = self._place
        place = {"after_at": after_at, "after_id": after_id, "age_s": self._age_s, "count_max": self._files_max}
        rows = await self._tables.rows("purge_slice", **place)
        is_more = len(rows) == self._files_max
        moved = [(number, revision) for _, number, is_moved, revision in rows if is_moved]
        deleted = await self._delete(moved) if moved else 0
        self._place = (rows[-1][0], rows[-1][1]) if is_more else (_BEGINNING, 0)
        return deleted, is_more

    async def purge_orphans(self) -> int:
        """One slice of each table: what belongs to no row goes; to how many files it belonged."""
        found: dict[int, int] = {}
        for kind, after in self._orphans_after.items():
            rows = await self._tables.rows(kind, after=after, count_max=ORPHANS_EXAMINED_MAX)
            self._orphans_after[kind] = rows[-1][0] if len(rows) == ORPHANS_EXAMINED_MAX else 0
            found.update((number, max(revision, found.get(number, 0))) for number, is_gone, revision in rows if is_gone)
        if found:
            await self._raise_floor(max(found.values()))
            async with self._tables.transaction() as tx:
                for name in _BELONGINGS:
                    run(tx, name, {"files": _keys(list(found))})
        return len(found)

    async def _delete(self, files: Sequence[tuple[int, int]]) -> int:
        await self._raise_floor(max(revision for _, revision in files))
        async with self._tables.transaction() as tx:
            free = run(tx, "purge_free", {"files": _keys([number for number, _ in files])})
        values = {"files": _keys([number for (number,) in free.rows]), "age_s": self._age_s}
        async with self._tables.transaction() as tx:
            for name in ("claims_lock", "purge_judge"):
                run(tx, name, values)
            deleted = run(tx, "purge_files", values)
            for name in (*_BELONGINGS, "claims_judged"):
                run(tx, name, values)
        return deleted.count

    async def _raise_floor(self, revision: int) -> None:
        """Before anything is deleted, and by itself: whoever registers files reads it, and waits for nobody."""
        if revision > self._floor:
            await self._tables.run("purge_floor", revision=revision)
            self._floor = revision


def _keys(ids: Sequence[int]) -> list[dict[str, int]]:
    return [{"id": number} for number in ids]
