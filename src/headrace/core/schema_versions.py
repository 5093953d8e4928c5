"""The schema of a store beside the one that the code needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaVersions:
    """What a store has (0: nothing yet), and the newest that this code knows."""

    found: int
    newest: int
    # The version says the same and the functions in the database do not.
    functions_differ: bool = False

    @property
    def current(self) -> bool:
        return self.found == self.newest and not self.functions_differ
