"""A project goes, with everything that belongs to it alone: blobs, rows, keys.

First it is marked, in one transaction: from then on nobody counts, finds or announces anything of it, and it is shown
nowhere. Then it is swept, a page at a time: the blobs of the page, if no other project has them, and after them the
rows that name them. So a sweep that was killed goes on where it was, by whoever comes next. Messages may still be under
way and leave something behind; therefore it is swept again, after a minute and after an hour. That it was deleted is
kept for ever: its id is not given away again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog

from headrace.blobs import WrongPath, check_path
from headrace.errors import HeadraceError
from headrace.services import rest
from headrace_smap.collector.blob_names import blob_prefix
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.completions import utc_now
from headrace_smap.parts import SmapParts
from headrace_smap.project.recrawls import schedule_name
from headrace_smap.project.retrier import retry_key

HOLD_S = 60.0
LOOK_S = 1.0
ROOM = 1_000
AGAIN_S = (60.0, 3_600.0)
"""How long after a sweep the next one comes; after the last of them there is none."""

log = structlog.get_logger("smap")


class Deleter:
    """Marks and sweeps. Every call may be repeated as it is."""

    def __init__(self, parts: SmapParts, accountant: Accountant, now: Callable[[], datetime] = utc_now) -> None:
        self._parts, self._database, self._accountant, self._now = parts, parts.database, accountant, now
        self._holder = secrets.token_hex(8)
        self._bell = asyncio.Event()

    async def delete(self, project: str) -> bool:
        """Mark it; the sweep follows. False: there is no such project, and never was."""
        whose = {"project": project}
        await self._database.transact(
            ("deletion_ask", {**whose, "now": self._now()}),
            # In the order in which everybody locks them.
            ("deletion_mark", whose),
            ("deletion_hide", whose),
        )
        if not await self.deleted(project):
            return False
        await self._unschedule(project)
        self._bell.set()
        return True

    async def deleted(self, project: str) -> bool:
        return bool(await self._database.rows("deletion_read", project=project))

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep what is to be swept until the stop."""
        while not stop.is_set():
            self._bell.clear()
            try:
                swept = await self.sweep()
            except HeadraceError as error:
                log.warning("deletion.failing", error=str(error))
                swept = False
            if not swept:
                await rest(stop, LOOK_S, self._bell)

    async def sweep(self) -> bool:
        """Sweep one project that is due; False if there is none. One that cannot be swept keeps no other waiting."""
        _, rows = await self._database.transact(
            ("deletion_hold", {"holder": self._holder, **held(self._now(), HOLD_S)}),
            ("deletion_held", {"holder": self._holder}),
        )
        failure: HeadraceError | None = None
        for project, sweeps in rows:
            try:
                await self._sweep_once(project, sweeps)
            except HeadraceError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return bool(rows)

    async def _sweep_once(self, project: str, sweeps: int) -> None:
        await self._sweep(project)
        last = sweeps >= len(AGAIN_S)
        delay_s = 0.0 if last else AGAIN_S[sweeps]
        values = {"sweeps": sweeps + 1, "delay_s": delay_s, "done": last, "now": self._now()}
        until = self._now() + timedelta(seconds=delay_s)
        await self._database.rows("deletion_swept", **self._mine(project), **values, until=until)
        log.info("project.swept", project=project, sweeps=sweeps + 1)

    async def _sweep(self, project: str) -> None:
        whose = {"project": project}
        while rows := await self._database.rows("deletion_paths", project=project, room=ROOM):
            paths = tuple(path for (path,) in rows)
            await self._remove_blobs(project, paths)
            page = {**whose, "paths": paths}
            await self._database.transact(
                ("deletion_found", page),
                ("deletion_seen", page),
                ("deletion_results", page),
                ("deletion_items", page),
                ("deletion_renew", {**self._mine(project), **held(self._now(), HOLD_S)}),
            )
        await self._remove_strays(project)
        names = ("crawl_forget", "crawl_forget_found", "aggregate_forget", "aggregate_forget_seen")
        own = (
            "notice_forget",
            "alert_forget",
            "receivers_forget",
            "deletion_attempts",
            "deletion_retries",
            "deletion_order",
            "deletion_project",
        )
        await self._database.transact(*((name, whose) for name in (*names, *own)))
        await self._unschedule(project)
        for key in (project, retry_key(project)):
            await self._parts.engine.outbox.forget(key)
        await self._accountant.forget(project)

    async def _unschedule(self, project: str) -> None:
        await self._parts.engine.schedules.remove(schedule_name(project))

    async def _remove_blobs(self, project: str, paths: Sequence[str]) -> None:
        shared = await self._database.rows("deletion_shared", project=project, paths=tuple(paths))
        kept = {path for (path,) in shared}
        await self._parts.blobs.delete([path for path in paths if path not in kept and _is_path(path)])

    async def _remove_strays(self, project: str) -> None:
        """What a crawl had stored and was killed before it could write that down."""
        for (platform,) in await self._database.rows("deletion_platforms", project=project):
            page: list[str] = []
            async for path in self._parts.blobs.list(blob_prefix(platform, project)):
                page.append(path)
                if len(page) == ROOM:
                    await self._remove_blobs(project, page)
                    page = []
            if page:
                await self._remove_blobs(project, page)

    def _mine(self, project: str) -> dict[str, str]:
        return {"project": project, "holder": self._holder}


def held(now: datetime, hold_s: float) -> dict[str, Any]:
    """A span of time as statements take it: SQLite goes by our clock, PostgreSQL by its own."""
    return {"now": now, "hold_s": hold_s, "until": now + timedelta(seconds=hold_s)}


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except WrongPath:
        return False
    return True
