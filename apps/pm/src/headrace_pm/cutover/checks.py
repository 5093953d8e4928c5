"""What must hold before pm takes over: each check says what it found, and what to do if that is not good.

All of them read. The old system and its files are looked at where they are: in its folders, on the servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from headrace.commands import Check, bad, fine, warning
from headrace.tables import OpenTables
from headrace_pm.cutover.mode import CutoverRecord, ProductionMode, open_record
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.gate import is_unfinished
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.names import joined
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.settings import PmSettings
from headrace_pm.shadow.comparison import FIRST, CompareScope, compared
from headrace_pm.shadow.old_folders import PLACES, listed_in, modified_at
from headrace_pm.shadow.service import shadow_settings, shadow_tables_of
from headrace_pm.tables.counts import FileCounts
from headrace_pm.tables.register import FileTable
from headrace_pm.work.network_tables import ServerDirectory

ENDED = ("COMPLETED", "MOVED", "ERROR")
NAMES_SHOWN = 5
# Room for more revisions than any network has.
VERSION_MAX = 1 << 62
NO_SHADOW = bad("mode", "there is no shadow", "start `headrace pm shadow`, and let it run for some periods")


@dataclass(frozen=True, slots=True)
class CutoverPlan:
    """Over which period of record_time production and shadow must be equal, from None: since there is a shadow; and
    how long the old system must have moved nothing."""

    begin: datetime | None
    end: datetime
    quiet_s: float
    extra: bool = True


@dataclass(frozen=True, slots=True)
class ListedPlace:
    """What is in a folder of the old system."""

    folder: ServerFolder
    place: str
    files: Sequence[ListedFile]


class CutoverChecks:
    """The checks of one moment."""

    def __init__(self, settings: PmSettings, record: CutoverRecord, tables: OpenTables, pools: ServerPools) -> None:
        self._settings, self._record, self._pools = settings, record, pools
        self._counts, self._files, self._servers = FileCounts(tables), FileTable(tables), ServerDirectory(tables)

    async def made(self, plan: CutoverPlan) -> list[Check]:
        """All of them, also when one has failed."""
        return [
            await self._mode(),
            await self._backlog(),
            await self._seen(),
            await self._quiet(plan),
            await self._versions(),
            await self._equal(plan),
        ]

    async def _mode(self) -> Check:
        row = await self._record.now()
        if row is None:
            return NO_SHADOW
        if row.mode is ProductionMode.PRODUCTION:
            return bad("mode", f"pm is production since {row.changed_at:%Y-%m-%d %H:%M:%S}", "--rollback goes back")
        return fine("mode", f"the shadow is beside the old system since {row.changed_at:%Y-%m-%d %H:%M:%S}")

    async def _backlog(self) -> Check:
        files = await self._counts.by_state()
        waiting = {state: count for state, count in files.items() if count and state not in ENDED}
        if waiting:
            words = ", ".join(f"{count:,} {state}" for state, count in waiting.items())
            return bad("backlog", f"the shadow has not finished: {words}", "wait for it, or see what its rows say")
        if files["ERROR"]:
            words = f"{files['ERROR']:,} files ended as ERROR in the shadow"
            return warning("backlog", words, "see pm_shadow_file_processing_state; the comparison decides")
        return fine("backlog", f"all {sum(files.values()):,} files of the shadow have ended")

    async def _seen(self) -> Check:
        """Every file on the servers that was written since there is a shadow has a row."""
        missing, count = list[str](), 0
        async for folder, names in self._on_servers():
            count += len(names)
            unknown = await self._files.unknown(folder, names) if names else set[str]()
            missing += [f"{folder.path}{name}" for name in sorted(unknown)]
        if missing:
            some = ", ".join(missing[:NAMES_SHOWN])
            return bad("files", f"the shadow has not seen {len(missing):,} of {count:,} files: {some}", "wait for it")
        return fine("files", f"the shadow has seen all {count:,} files that came since it began")

    async def _on_servers(self) -> AsyncIterator[tuple[ServerFolder, list[str]]]:
        began = await self._record.began() or FIRST
        async for listed in self._listed(("", *PLACES)):
            whole = [file for file in listed.files if file.stamp.size and not is_unfinished(file.name)]
            moments = ((file.text, modified_at(file.stamp)) for file in whole)
            yield listed.folder, [name for name, at in moments if at is None or at >= began]

    async def _listed(self, places: Sequence[str]) -> AsyncIterator[ListedPlace]:
        for served in await self._servers.read():
            pool = self._pools.pool_of(served.server)
            for folder in served.folders:
                for place in places:
                    path = joined(folder.on_server, *PLACES.get(place, ()))
                    yield ListedPlace(folder, place, await listed_in(pool, path))

    async def _quiet(self, plan: CutoverPlan) -> Check:
        """Only the old system moves files to its folders: what changed there, it did."""
        async for listed in self._listed(("ClickHouse",)):
            if listed.files:
                words = f"{len(listed.files):,} files wait in {listed.folder.path}{listed.place}/ for the old system"
                return bad("old system", words, "let it finish them, then stop it")
        found = await self._record.tables.rows("places_seen")
        if not found:
            return bad("old system", "the shadow has not looked at its folders", "is `headrace pm shadow` running?")
        for _system, key, path, place, _files, changed_s, looked_s in found:
            where = f"{path}{place}/ of {key}"
            if looked_s > 60.0 + 2 * max(self._settings.scan_interval_s, self._settings.recover_interval_s):
                hint = "is `headrace pm shadow` running?"
                return bad("old system", f"nobody has looked at {where} for {looked_s:,} s", hint)
            if changed_s < plan.quiet_s:
                words = f"{where} changed {changed_s:,} s ago, and must be quiet for {plan.quiet_s:,.0f} s"
                return bad("old system", words, "stop it, and wait")
        return fine("old system", f"has moved nothing for {min(row[5] for row in found):,} s")

    async def _versions(self) -> Check:
        """A row that pm writes later must have a higher version than one that is there, or it would not count."""
        highest = await self._record.highest_version()
        if highest >= VERSION_MAX:
            words = f"pm_counter_data has the version {highest}, and there is none above it"
            return bad(
                "versions", words, "lower what the old system wrote there: UPDATE pm_counter_data SET version = 0"
            )
        return fine("versions", f"pm_counter_data has {highest:,} at most; those of pm will begin above it")

    async def _equal(self, plan: CutoverPlan) -> Check:
        begin = plan.begin or await self._record.began() or FIRST
        scope = CompareScope(begin, plan.end, extra=plan.extra, limit=NAMES_SHOWN)
        found = await compared(self._settings.tables_url, scope)
        if not found.equal:
            count = len(found.differences) + found.places_left
            return bad("rows", f"production and shadow differ in {count:,} places", "headrace pm compare shows them")
        if not found.production_rows:
            return bad("rows", "production has no row of the period", "name another one by --from and --to")
        return fine("rows", f"{found.production_rows:,} rows are the same in production and shadow")


@asynccontextmanager
async def open_checks(settings: PmSettings) -> AsyncIterator[tuple[CutoverChecks, CutoverRecord]]:
    """On the database and the file servers of the settings. Nothing is made: `SchemaMismatch` without a shadow."""
    own = shadow_settings(settings)
    async with open_record(own, make=False) as record, shadow_tables_of(own, make=False) as tables:
        pools = ServerPools(own)
        try:
            yield CutoverChecks(own, record, tables, pools), record
        finally:
            await pools.close()
