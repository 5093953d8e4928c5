"""Files that nobody works on and that would stay where they are: back to waiting, or an error. Never limbo.

What was lost by a worker of ours is found by the next poll when its hold has passed. This is for the rest: states that
other programs or people left behind, errors that may heal, and elements that were unknown when their file came. Rows
are found in another state than we left them, and so their sinks begin anew where they are not done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from headrace.sources import SourceWorker
from headrace.tables import OpenTables
from headrace_pm.tables.steps import run

DOWNLOADING_MINUTES, PARSING_MINUTES = 10, 30
ERROR_PAUSE_S, ERROR_PAUSE_S_MAX = 60.0, 3_600.0
# A transaction of some ten milliseconds; and as many of them as leave the database to others meanwhile.
SLICE_MAX, SLICES_MAX = 1_000, 20
# By state that has ended: what may follow for a file of it, and the name under which it is counted.
_AGAIN = {
    "ERROR": {"recover_errors": "errors", "recover_elements": "elements"},
    "COMPLETED": {"recover_incomplete": "incomplete"},
}


@dataclass(frozen=True, slots=True)
class RecoveredFiles:
    """How many files went back to PENDING, by what they were; `exhausted` are those that became ERROR."""

    downloading: int = 0
    parsing: int = 0
    processing: int = 0
    errors: int = 0
    elements: int = 0
    incomplete: int = 0
    """They were COMPLETED, and a flag was taken back."""
    exhausted: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, each.name) for each in fields(self))


class FileRecovery:
    """One sweep after the other; any number of processes may do so.

    Files that have ended may be many, and few of them come back: they are looked at in slices by the index, each in a
    transaction of its own, and a sweep begins where the one before has ended.
    """

    def __init__(self, tables: OpenTables, slice_max: int = SLICE_MAX, slices_max: int = SLICES_MAX) -> None:
        self._tables, self._slice_max, self._slices_max = tables, slice_max, slices_max
        self._places: dict[tuple[str, str], int] = {}

    async def sweep(self) -> RecoveredFiles:
        """Bring back what may come back."""
        again: Counter[str] = Counter()
        for state, system_type in await self._tables.rows("systems_ended"):
            again += await self._recovered(state, system_type)
        async with self._tables.transaction() as tx:
            found = {}
            for state in ("PENDING", "ERROR"):
                found["DOWNLOADING", state] = tx.run("recover_downloading", state=state, minutes=DOWNLOADING_MINUTES)
                for stuck in ("PARSING", "PROCESSING"):
                    values = {"stuck": stuck, "state": state, "minutes": PARSING_MINUTES}
                    found[stuck, state] = run(tx, "recover_parsing", values)
        return RecoveredFiles(
            downloading=found["DOWNLOADING", "PENDING"].count,
            parsing=found["PARSING", "PENDING"].count,
            processing=found["PROCESSING", "PENDING"].count,
            exhausted=sum(ran.count for (_, state), ran in found.items() if state == "ERROR"),
            **again,
        )

    async def _recovered(self, state: str, system_type: str) -> Counter[str]:
        done: Counter[str] = Counter()
        pauses = {"pause_s": ERROR_PAUSE_S, "pause_s_max": ERROR_PAUSE_S_MAX, "crashes_max": SourceWorker.crashes_max}
        for _ in range(self._slices_max):
            place = {"after": self._places.get((state, system_type), 0), "count_max": self._slice_max}
            rows = await self._tables.rows("files_ended", state=state, system_type=system_type, **place)
            self._places[state, system_type] = rows[-1][0] if len(rows) == self._slice_max else 0
            if rows:
                async with self._tables.transaction() as tx:
                    files = [{"id": number} for (number,) in rows]
                    ran = {kind: run(tx, name, {"files": files, **pauses}) for name, kind in _AGAIN[state].items()}
                done.update({kind: each.count for kind, each in ran.items()})
            if len(rows) < self._slice_max:
                break
        return done
