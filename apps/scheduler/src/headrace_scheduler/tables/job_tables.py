"""The port to the tables: statements by name, the same in CQL (Cassandra) and SQL (the embedded store).

Everything that is read or written of jobs passes here: one statement at a time, or plain writes that go together, as
the specification has no transaction over several tables. So whoever wants to count, delay or stop at a statement wraps
these two methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from headrace.tables import Row

Write = tuple[str, Mapping[str, object]]
"""A statement by name, and its values."""


class JobTables(Protocol):
    """Times are aware and in whole milliseconds, ids are `UUID` or their text."""

    def rows(self, name: str, /, **values: object) -> Awaitable[list[Row]]:
        """Run one statement; its rows. A plain write carries its own write time, so the same again changes nothing,
        and it is sent again by itself when its answer was lost. A conditional one answers with one row that begins
        with whether it was applied; `Unknown` if that cannot be known."""

    def together(self, *writes: Write) -> Awaitable[None]:
        """Run plain writes as one. Those to one bucket are applied all or none; of others a part may be, in whatever
        order, if whoever sends them dies."""


def micros(moment: datetime) -> int:
    """A write time: microseconds since the epoch."""
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def as_id(value: UUID | str) -> UUID:
    """The embedded store keeps ids as text."""
    return value if isinstance(value, UUID) else UUID(value)
