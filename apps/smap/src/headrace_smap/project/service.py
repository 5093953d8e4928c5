"""The project service: routes for clients, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from headrace.errors import HeadraceError
from headrace.services import Service, rest
from headrace_smap.count.completions import utc_now
from headrace_smap.count.progress_routes import progress_routes
from headrace_smap.letters.sweeper import LetterSweeper
from headrace_smap.parts import SmapParts
from headrace_smap.project.front import front_routes
from headrace_smap.project.operations import desk_of
from headrace_smap.project.routes import project_routes

if TYPE_CHECKING:
    from fastapi import APIRouter


TIDY_S = 600.0
ANSWERS_KEPT = timedelta(days=1)
RETRIES_KEPT = timedelta(days=7)

log = structlog.get_logger("smap")


class ProjectService(Service):
    """Creates, shows, cancels, retries, exports and deletes projects."""

    name = "project"

    def __init__(self, parts: SmapParts) -> None:
        self._parts = parts
        self.desk = desk_of(parts)
        self.idempotency = self.desk.keys
        self._letters = LetterSweeper(parts)

    async def prepare(self) -> None:
        """The tables are there; whoever is to hear of projects opens its own subscription."""

    async def run(self, stop: asyncio.Event) -> None:
        """Tell what was committed, crawl again what is due, sweep what was deleted, and letters that are stale."""
        async with asyncio.TaskGroup() as group:
            for part in (self.desk.relay, self.desk.recrawls, self.desk.deleter, self._letters):
                group.create_task(part.run(stop))
            group.create_task(self._tidy(stop))

    def routes(self) -> Sequence[APIRouter]:
        front = front_routes(self.desk.wishes.simulates, self._parts.settings.timezone)
        return [front, *project_routes(self.desk), progress_routes(self._parts)]

    async def _tidy(self, stop: asyncio.Event) -> None:
        """Answers that nobody asks for any more, and what they were made of."""
        while not stop.is_set():
            try:
                now = utc_now()
                await self.desk.keys.forget(ANSWERS_KEPT)
                await self._parts.database.rows("retry_forget", before=now - RETRIES_KEPT)
            except HeadraceError as error:
                log.warning("tidying.failing", error=str(error))
            await rest(stop, TIDY_S)
