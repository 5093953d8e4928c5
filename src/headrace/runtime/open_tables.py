"""An application's tables as it uses them: read, run one statement, or many as a unit of work.

A unit whose answer was lost is sent again as it was: its id is made here, so the database knows the repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, Unpack

from headrace.core.backoff import Backoff
from headrace.core.catalogue import Catalogue
from headrace.core.errors import HeadraceError, TryAgain, Unknown
from headrace.core.jobs import Submission
from headrace.core.table_statements import Row
from headrace.core.units import Unit, UnitDone
from headrace.ports.tables import Tables
from headrace.runtime.flow import Flow
from headrace.runtime.pacing import SERVER, Pauses
from headrace.runtime.seams import Seams
from headrace.runtime.submission import SubmitOptions, submission
from headrace.runtime.unit_of_work import UnitOfWork

T = TypeVar("T")
RESENDS_MAX = 10


class OpenTables:
    """Named statements on the tables of one database. Made by `headrace.tables.open_tables(url, tables)`; an `Engine`
    is one too."""

    def __init__(
        self, tables: Tables, seams: Seams, catalogue: Catalogue | None = None, between: Backoff = SERVER
    ) -> None:
        """`between` are the pauses between sends of a unit whose end is unknown."""
        self.tables = tables
        self._seams, self._between = seams, between
        self._catalogue = catalogue or Catalogue({})

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """The rows of one named statement that only reads, as of one instant."""
        return await self.tables.read(self._catalogue.reading(name, values).statement, values)

    async def one(self, name: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        found = await self.rows(name, **values)
        return found[0] if found else None

    async def run(self, name: str, /, *, expect: int | None = None, **values: object) -> list[Row]:
        """One named statement in a transaction of its own; the rows it returns."""
        async with self.transaction() as work:
            ran = work.run(name, expect=expect, **values)
        return ran.rows

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        """One unit of work: statements, jobs and events that are recorded in the block are applied in one commit when
        it ends, or none of them is. Reads of the block see what was committed before."""
        work = UnitOfWork(self.tables, self._catalogue, self.submission)
        yield work
        unit = work.finish(self._seams.identity.new())
        if unit is not None:
            work.learn(await self._apply(unit))

    def submission(self, flow: Flow, *payloads: Any, **options: Unpack[SubmitOptions]) -> Submission:
        """A job that is not opened yet: what follows from a message, as in `Consequence(submissions=(…,))`."""
        return submission(flow, self._seams.identity.new(), payloads, options)

    async def _apply(self, unit: Unit) -> UnitDone:
        """A unit whose end is unknown is sent again until it is known: under another id it would be applied twice. One
        that is repeatable may be left to its author, who hears of an outage at once."""
        apply = partial(self.tables.apply, unit)
        return await self._resent(apply, TryAgain if unit.repeatable else HeadraceError)

    async def _resent(self, call: Callable[[], Awaitable[T]], waited_out: type[HeadraceError]) -> T:
        """Send a write again while its error heals and is one of these. If it is given up after an answer was lost, its
        end is `Unknown`, also if nothing could be sent the last time."""
        pauses = Pauses(self._seams.chance, self._between)
        unknown: Unknown | None = None
        sends = 0
        while True:
            sends += 1
            try:
                return await call()
            except HeadraceError as error:
                if not error.heals:
                    raise
                unknown = error if isinstance(error, Unknown) else unknown
                if sends > RESENDS_MAX or not isinstance(error, waited_out):
                    raise unknown or error from error.__cause__
            await asyncio.sleep(pauses.next_s())
