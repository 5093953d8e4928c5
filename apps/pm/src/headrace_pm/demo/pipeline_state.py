"""The embedded tables of the demo, as anybody may read them: files, who works on them, rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILES = "SELECT id, file_name, state, error_message, retry_count FROM file_processing_state ORDER BY file_name"
# The mover of a process holds files under a name of its own.
_HELD = "SELECT count(*) FROM pm_file_claim WHERE until IS NOT NULL AND owner LIKE ? AND owner NOT LIKE '%:mover'"
_ROWS = "SELECT count(*) FROM pm_counter_data WHERE version = ?"
_REVISIONS = "SELECT file_id, version FROM pm_file_revision ORDER BY version"
BUSY_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as its row has it; `revisions` are the contents that it has had."""

    name: str
    state: str
    error: str
    retries: int
    revisions: int


class PipelineState:
    """A reader of the file in which the embedded tables are."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def files(self) -> dict[str, FileState]:
        versions = self._versions()
        return {
            name: FileState(name, state, error or "", retries, len(versions.get(number, ())))
            for number, name, state, error, retries in self._all(_FILES)
        }

    def held_by(self, pid: int) -> int:
        """How many files a process works on."""
        (found,) = self._all(_HELD, f"%:{pid}:%")
        return int(found[0])

    def versions_of(self, names: Iterable[str]) -> list[int]:
        """The versions of all contents that these names have had."""
        wanted, versions = set(names), self._versions()
        return [each for number, name, *_ in self._all(_FILES) if name in wanted for each in versions.get(number, ())]

    def rows_of(self, version: int) -> int:
        """Rows in the table that come from one content of a file."""
        (found,) = self._all(_ROWS, version)
        return int(found[0])

    def _versions(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, version in self._all(_REVISIONS):
            found.setdefault(number, []).append(version)
        return found

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._database, timeout=BUSY_S_MAX)) as opened:
            return opened.execute(statement, values).fetchall()
