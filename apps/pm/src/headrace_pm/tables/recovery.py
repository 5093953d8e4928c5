"""Files that nobody works on and that would stay where they are: back to waiting, or an error. Never limbo.

What was lost by a worker of ours is found by the next poll when its hold has passed. This is for the rest: states that
other programs or people left behind, errors that may heal, and elements that were unknown when their file came. Rows
are found in another state than we left them, and so their sinks begin anew where they are not done.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from headrace.tables import OpenTables
from headrace_pm.tables.steps import run

DOWNLOADING_MINUTES, PARSING_MINUTES = 10, 30
ERROR_PAUSE_S, ERROR_PAUSE_S_MAX = 60.0, 3_600.0


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
    """One sweep after the other; any number of processes may do so."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def sweep(self) -> RecoveredFiles:
        """Bring back what may come back."""
        async with self._tables.transaction() as tx:
            errors = tx.run("recover_errors", pause_s=ERROR_PAUSE_S, pause_s_max=ERROR_PAUSE_S_MAX)
            elements = tx.run("recover_elements")
            incomplete = tx.run("recover_incomplete", pause_s=ERROR_PAUSE_S)
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
            errors=errors.count,
            elements=elements.count,
            incomplete=incomplete.count,
            exhausted=sum(ran.count for (_, state), ran in found.items() if state == "ERROR"),
        )
