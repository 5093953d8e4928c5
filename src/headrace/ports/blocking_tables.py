"""Tables of an application on one connection of its own, for code that blocks: a command, or a loop without an engine.

The database need not be a store; what is made in it belongs to the application and to whoever shares its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.core.table_statements import Row, TablePart


class BlockingTables(Protocol):
    """One connection, opened by its first use, and anew by a use after it was lost or closed. Not inside of a
    transaction: one whose connection was lost does nothing more and raises. One thread at a time has it. Values are
    those of `Tables`. What the driver raises leaves as one of our errors: `Unknown` only where a change may have been
    committed and cannot be asked for."""

    @property
    def dialect(self) -> str:
        """Which statements it takes: the name of their folder."""

    def rows(self, name: str, values: Mapping[str, object] | None = None) -> list[Row]:
        """Run a statement; its rows. Outside of a transaction it is committed at once."""

    def load(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        """Write any number of rows by one statement, as they come: a COPY, or an INSERT that is run for each."""

    def transaction(self) -> AbstractContextManager[None]:
        """What is done inside is committed at its end, or not at all. One inside of another is undone by itself."""

    def make(self, parts: Sequence[TablePart]) -> None:
        """Make what does not exist, in one transaction. Several may do so at once. Only this makes a file."""

    def close(self) -> None:
        """Give the connection back. Idempotent."""
