"""Rows that this version cannot read, because a newer one wrote them: left out, told of and counted.

While an installation is being updated both versions work on the same tables. What only the newer one understands is its
to do; whoever raised at such a row would stop with everything else that it looks after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from headrace.errors import CallerError
from headrace.tables import Row

Read = TypeVar("Read")
TOLD_EVERY_S = 60.0
TOLD_MAX = 1_000
log = structlog.get_logger("scheduler")


class UnreadRows:
    """What one process could not read. `observe` is told the table of each."""

    def __init__(self, observe: Callable[[str], None] | None = None) -> None:
        self.observe = observe or (lambda table: None)
        self._told: dict[tuple[str, str], float] = {}

    def readable(self, table: str, rows: Iterable[Row], read: Callable[[Row], Read]) -> list[Read]:
        """The rows as values, without those that cannot be read. The first column names a row."""
        found: list[Read] = []
        for row in rows:
            try:
                found.append(read(row))
            except (ValueError, TypeError) as error:
                self.tell(table, str(row[0]), error)
        return found

    def read(self, table: str, name: str, row: Row, read: Callable[[Row], Read]) -> Read:
        """One row; `CallerError` if it cannot be read: whoever asked for it leaves it alone."""
        try:
            return read(row)
        except (ValueError, TypeError) as error:
            self.tell(table, name, error)
            raise CallerError(
                f"{table}: the row of {name} was written by a newer version", "update this process"
            ) from error

    def tell(self, table: str, name: str, error: Exception) -> None:
        """Counted every time, and a line a minute."""
        self.observe(table)
        now = time.monotonic()
        if now >= self._told.get((table, name), now):
            if len(self._told) >= TOLD_MAX:
                self._told.clear()
            self._told[table, name] = now + TOLD_EVERY_S
            log.warning("row.unread", table=table, row=name, error=type(error).__name__)
