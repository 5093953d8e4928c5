"""The archives of all folders: what is old enough to go, shown folder by folder, and then deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.errors import HeadraceError
from headrace_pm.ftp.archive import ArchiveCleared, ArchivePreview, clear, preview
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.servers import FileServer, ServerFolder
from headrace_pm.work.network_tables import ServedFolders


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """One folder's archive. `error` says why a server could not be asked; the others are shown all the same."""

    server: FileServer
    folder: ServerFolder
    shown: ArchivePreview
    cleared: ArchiveCleared | None = None
    error: str = ""


async def previewed(
    pools: ServerPools, served: Sequence[ServedFolders], older_than: timedelta, now: datetime
) -> list[ArchiveFolder]:
    """What is older than this in each archive."""
    found = []
    for each in served:
        for folder in each.folders:
            try:
                shown, error = await preview(pools.pool_of(each.server), folder.on_server, older_than, now), ""
            except HeadraceError as failed:
                if not failed.heals:
                    raise
                shown, error = ArchivePreview((), 0), str(failed)
            found.append(ArchiveFolder(each.server, folder, shown, error=error))
    return found


async def cleared(pools: ServerPools, folders: Sequence[ArchiveFolder]) -> list[ArchiveFolder]:
    """Delete what was shown, and nothing else."""
    done = []
    for each in folders:
        if not each.shown.files:
            done.append(each)
            continue
        try:
            done.append(replace(each, cleared=await clear(pools.pool_of(each.server), each.shown)))
        except HeadraceError as failed:
            done.append(replace(each, error=str(failed)))
    return done
