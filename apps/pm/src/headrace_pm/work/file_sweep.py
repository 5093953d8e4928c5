"""Brings back files that would stay where they are, and clears from the spool what nobody wants any more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

import structlog

from headrace_pm.spool.spool import Spool
from headrace_pm.tables.file_claims import FileClaims
from headrace_pm.tables.recovery import FileRecovery
from headrace_pm.work.events import PipelineEvents

log = structlog.get_logger("headrace_pm.work")


class FileSweep:
    """The sweeps of one process; `in_hand` are the keys of files that it works on."""

    def __init__(
        self, recovery: FileRecovery, claims: FileClaims, spool: Spool, in_hand: Collection[str], events: PipelineEvents
    ) -> None:
        self._recovery, self._claims, self._spool = recovery, claims, spool
        self._in_hand, self._events = in_hand, events

    async def round(self) -> None:
        found = asdict(await self._recovery.sweep())
        for kind, count in found.items():
            self._events.recovered(kind, count)
        if any(found.values()):
            log.info("files.recovered", **found)
        # Those in hand before the table was asked, too: what was settled meanwhile the answer may not have.
        before = set(self._in_hand)
        wanted = {f"f{file_id}r{revision}" for file_id, revision in await self._claims.spooled()}
        # Not in a thread: a file that is begun meanwhile would not be among these.
        gone = self._spool.keep_only(wanted | before | set(self._in_hand))
        if gone:
            log.info("spool.cleared", files=len(gone))
