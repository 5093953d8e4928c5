"""The row that says who is production, and what keeps a process from working against it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import structlog

from headrace.errors import HeadraceError, OperatorError
from headrace.services import rest
from headrace.tables import OpenTables, open_tables
from headrace_pm.cutover import CUTOVER_TABLES
from headrace_pm.settings import PmSettings

# A rollback is done by hand, and the old system is started after it.
LOOK_S = 2.0
log = structlog.get_logger("headrace_pm.cutover")


class ProductionMode(StrEnum):
    """Who reads files for production."""

    SHADOW = "shadow"
    """The old system does; pm works beside it, on tables of its own."""
    PRODUCTION = "production"
    """pm does."""


@dataclass(frozen=True, slots=True)
class ModeRow:
    """The last row."""

    mode: ProductionMode
    changed_at: datetime


class CutoverRecord:
    """The table `pm_cutover`."""

    def __init__(self, tables: OpenTables) -> None:
        self.tables = tables

    async def now(self) -> ModeRow | None:
        """None: there never was an old system beside it."""
        found = await self.tables.one("mode_now")
        return None if found is None else ModeRow(ProductionMode(found[0]), found[1])

    async def begin_shadow(self) -> datetime:
        """There is a shadow from now on, if there was none; since when. `OperatorError` where pm takes files itself: it
        would end there, and only a cutover from an old system that is not there lets it run again."""
        if await self.now() is None and await self._claims_files():
            raise OperatorError(
                "pm is production on this database, and a shadow would stop it",
                "a shadow is for the database of another system that takes the files",
            )
        await self.tables.run("mode_begun")
        moment = await self.began()
        assert moment is not None
        return moment

    async def began(self) -> datetime | None:
        """Since when there is a shadow, or has been one."""
        found = await self.tables.one("shadow_began")
        return found[0] if found is not None else None

    async def _claims_files(self) -> bool:
        """Whether files were claimed for production, which no other system does."""
        return bool(await self.tables.rows("own_claims_kept")) and bool(await self.tables.rows("own_claims"))

    async def change(self, mode: ProductionMode, note: str) -> None:
        await self.tables.run("mode_set", mode=str(mode), note=note)

    async def require_production(self) -> None:
        """`OperatorError` while the old system is production."""
        row = await self.now()
        if row is not None and row.mode is ProductionMode.SHADOW:
            raise OperatorError(
                "the old system is production on this database, and its files are not to be moved",
                "run `headrace pm shadow` beside it; `headrace pm cutover` changes over",
            )

    async def watch(self, stop: asyncio.Event, look_s: float = LOOK_S) -> None:
        """End this process when somebody has gone back to the old system."""
        while not stop.is_set():
            try:
                await self.require_production()
            except HeadraceError as error:
                if not error.heals:
                    log.error("cutover.rolled_back", error=str(error))
                    stop.set()
                    return
                log.warning("cutover.not_read", error=str(error))
            await rest(stop, look_s)

    async def highest_version(self) -> int:
        """Of the rows of production."""
        ((highest,),) = await self.tables.rows("versions_written")
        return int(highest)

    async def begin_versions_above(self, version: int) -> None:
        """Revisions of production that are made from now on are above it. Their table is there."""
        if version > 0:
            async with self.tables.transaction() as tx:
                tx.run("versions_floor", version=version)
                tx.run("versions_floor_mark")


@asynccontextmanager
async def open_record(settings: PmSettings, make: bool = True) -> AsyncIterator[CutoverRecord]:
    """On the database of the settings, which is no embedded one. Who only reads does not `make` its table."""
    async with open_tables(settings.tables_url, CUTOVER_TABLES, make) as tables:
        yield CutoverRecord(tables)
