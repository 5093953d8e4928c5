"""Projects as clients see them: the rows of the database, with the ledger's counts for those that are under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headrace.errors import CallerError, NotFound
from headrace.http import decode_cursor, encode_cursor, paged
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.progress_reader import Progress
from headrace_smap.database import Row
from headrace_smap.envelope import moment
from headrace_smap.parts import SmapParts
from headrace_smap.receivers import ReceiverBook
from headrace_smap.values import CANCELLED, FINAL, NO_PROGRESS, STATUSES

FAILED_TASKS_MAX = 100
SHOWN_STATUSES = (*STATUSES, CANCELLED)
_STORED = ("id", "keywords", "targets", "date_range", "status", "created_at", "finished_at")
_FIELDS = (*_STORED, "name", "posts_max", "parent")

Shown = dict[str, Any]


class Reader:
    """Reads projects."""

    def __init__(self, parts: SmapParts, accountant: Accountant) -> None:
        self._database, self._accountant = parts.database, accountant
        self._timezone, self._receivers = parts.settings.timezone.key, ReceiverBook(parts.database)

    async def get(self, project: str) -> Shown:
        """One project with its progress; `NotFound` if there is none."""
        rows = await self._database.rows("project_get", project=project)
        if not rows:
            raise NotFound(f"there is no project {project}")
        shown = _shown(rows[0], await self._accountant.progress(project))
        # That of days, as in date_range: times are in UTC and say so.
        own = await self._receivers.own(project)
        return {**shown, "timezone": self._timezone, "receivers": own.shown() if own else None}

    async def list(self, limit: int, cursor: str | None = None, status: str | None = None) -> Shown:
        """A page of projects, newest first, and the cursor of the next."""
        if status is not None and status not in SHOWN_STATUSES:
            raise CallerError(f"{status[:40]!r} is no status", f"one of {', '.join(SHOWN_STATUSES)}")
        before, before_id = _place(cursor) if cursor else (None, None)
        rows = await self._database.rows(
            "project_list", before=before, before_id=before_id, status=status, room=limit + 1
        )
        page, following = paged(rows, limit, lambda row: encode_cursor(row[5].isoformat(), row[0]))
        return {"items": await self._with_progress(page), "next": following}

    async def known(self, project: str) -> Progress:
        """How far it is; `NotFound` if nobody knows it. A project of a foreign service has no row of ours."""
        found = await self._accountant.progress(project)
        if found is None:
            raise NotFound(f"there is no project {project}")
        return found

    async def failures(self, project: str, limit: int, cursor: str | None = None) -> Shown:
        """A page of the posts that ended as errors, and why; on the first also the tasks of the crawl that failed."""
        await self.known(project)
        (after,) = decode_cursor(cursor, str) if cursor else ("",)
        rows = await self._database.rows("project_failures", project=project, after=after, room=limit + 1)
        page, following = paged(rows, limit, lambda row: encode_cursor(row[0]))
        items = [{"item": item, "reason": reason, "failed_at": moment(at)} for item, reason, at, _ in page]
        if cursor:
            return {"items": items, "next": following}
        failed = await self._database.rows("project_failed_tasks", project=project, room=FAILED_TASKS_MAX)
        tasks = [{"task": task, "reason": reason or ""} for task, reason in failed]
        return {"items": items, "next": following, "tasks": tasks}

    async def _with_progress(self, rows: Sequence[Row]) -> Sequence[Shown]:
        seen = await self._accountant.reader.read([row[0] for row in rows])
        return [_shown(row, seen.get(row[0])) for row in rows]


def _place(cursor: str) -> tuple[datetime, str]:
    moment, project = decode_cursor(cursor, str, str)
    try:
        return datetime.fromisoformat(moment), project
    except ValueError:
        raise CallerError("this is not a cursor of this list", "begin without a cursor") from None


def _shown(row: Row, progress: dict[str, object] | None) -> Shown:
    shown: Shown = dict(zip(_FIELDS, row, strict=False))
    for name in ("created_at", "finished_at"):
        shown[name] = moment(shown[name]) if shown[name] else None
    seen = progress or NO_PROGRESS
    shown["failed_tasks"], shown["simulated"] = row[len(_FIELDS) :]
    shown["status"] = seen["status"] if progress else shown["status"]
    shown["progress"] = {name: seen.get(name, 0) for name in ("total", "processed", "errors", "percent")}
    shown["ended"] = shown["status"] in FINAL
    shown["project_id"] = shown["id"]
    return shown
