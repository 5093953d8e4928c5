"""Doing files again on purpose: chosen by id, name, period or state, shown first, and then reset as a new attempt.

The content stays the same revision with the same version, so its rows replace themselves. A file that was moved is
read from the archive. What somebody works on at that moment is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.errors import CallerError
from headrace.tables import OpenTables
from headrace_pm.tables.file_claims import SINKS
from headrace_pm.tables.steps import run

FILES_MAX = 500


@dataclass(frozen=True, slots=True)
class RedoSelection:
    """Which files; what is not given does not narrow it. `names` has `*` and `?` as a shell has; the period is that of
    `created_at`, its end left out."""

    ids: Sequence[int] | None = None
    names: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    state: str | None = None
    system_type: str | None = None

    def values(self) -> dict[str, object]:
        """As the statements take it."""
        return {
            "ids": None if self.ids is None else list(self.ids),
            **name_values(self.names),
            "created_from": self.created_from,
            "created_until": self.created_until,
            "state": self.state,
            "system_type": self.system_type,
        }


@dataclass(frozen=True, slots=True)
class RedoPreview:
    """How many files it would be, by state, and how many of them are held and would be left out."""

    by_state: dict[str, int]
    held: int

    @property
    def total(self) -> int:
        return sum(self.by_state.values())


class FileRedo:
    """`preview`, then `redo` with the same selection."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def preview(self, selection: RedoSelection) -> RedoPreview:
        rows = await self._tables.rows("redo_preview", **selection.values())
        return RedoPreview({state: int(files) for state, files, _ in rows}, sum(int(held) for *_, held in rows))

    async def redo(self, selection: RedoSelection, sinks: Collection[str] = SINKS) -> int:
        """Reset them for these sinks; how many it were."""
        if not sinks or not set(sinks) <= set(SINKS):
            raise CallerError(f"there is no sink {', '.join(sinks) or 'without a name'}", f"sinks: {', '.join(SINKS)}")
        done, after = 0, 0
        while True:
            some = {**selection.values(), "after": after, "count_max": FILES_MAX}
            ids = [number for (number,) in await self._tables.rows("redo_ids", **some)]
            if ids:
                done += await self._reset(ids, sinks)
                after = ids[-1]
            if len(ids) < FILES_MAX:
                return done

    async def _reset(self, ids: Sequence[int], sinks: Collection[str]) -> int:
        values = {
            "files": [{"id": number} for number in ids],
            "in_mysql": "mysql" in sinks,
            "in_kafka": "kafka" in sinks,
        }
        async with self._tables.transaction() as tx:
            for name in ("claims_made", "revisions_made", "claims_lock", "redo_judge"):
                run(tx, name, values)
            judged = run(tx, "redo_judged", values)
            for name in ("files_redo", "sinks_redo", "revisions_redo", "claims_redo", "claims_judged"):
                run(tx, name, values)
        return len(judged.rows)


def like_pattern(names: str) -> str:
    """A pattern of a shell as LIKE … ESCAPE '!' has it."""
    marked = "".join(f"!{each}" if each in "!%_" else each for each in names)
    return marked.replace("*", "%").replace("?", "_")


def name_values(names: str | None) -> dict[str, object]:
    """A pattern of names, in the two forms that dialects take: SQLite's LIKE is blind to case, names are not."""
    return {
        "name_like": None if names is None else like_pattern(names),
        "name_glob": None if names is None else names.replace("[", "[[]"),
    }
