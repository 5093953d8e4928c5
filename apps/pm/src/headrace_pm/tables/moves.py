"""Files whose rows are in both sinks, on their way into the archive: taken, and settled, some at a time.

A move is a hold like a worker's, so nobody reads a file while it is renamed. What a mover that lost its hold has to
say changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from headrace.tables import OpenTables
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables.register import RENEWAL
from headrace_pm.tables.steps import run

STATES = ("COMPLETED", "PARTIAL_DONE", "PROCESSING")
PAUSE_S = 60.0
REASON_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class FileToMove:
    """A file that is held to be moved. `read` is the stamp it had when it was fetched, for `headrace_pm.ftp.mover`."""

    file_id: int
    epoch: int
    folder: ServerFolder
    file_name: str
    revision: int
    listed: Stamp
    read: Stamp


class FileMoves:
    """Each method that settles answers the ids of the files for which it did; of the others the hold was lost."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def take(self, count_max: int, holder: str, hold_s: float) -> list[FileToMove]:
        """Hold up to so many files that may be moved, those that wait longest first."""
        ids: list[int] = []
        for state in STATES:
            rows = await self._tables.rows("files_to_move", state=state, count_max=count_max - len(ids))
            ids += [number for (number,) in rows]
        if not ids:
            return []
        hold = {"request": str(uuid4()), "owner": holder, "hold_us": round(hold_s * 1_000_000)}
        files = [{"id": number} for number in ids]
        async with self._tables.transaction() as tx:
            for name in ("claims_made", "revisions_made", "claims_lock"):
                tx.run(name, files=files)
            run(tx, "moves_take", {"files": files, **hold})
            tx.run("moves_sinks", files=files, request=hold["request"])
            taken = tx.run("moves_read", files=files, request=hold["request"])
        return [_to_move(*row) for row in taken.rows]

    async def renew(self, files: Sequence[FileToMove], hold_s: float) -> None:
        """Hold on to those that are still ours."""
        await self._tables.run("moves_renew", files=_keys(files), hold_us=round(hold_s * 1_000_000))

    async def moved(self, files: Mapping[FileToMove, str]) -> set[int]:
        """They are in the archive, each under its path as text: MOVED."""
        values = [{**_key(file), "path": path} for file, path in files.items()]
        return await self._settled("moved", values, ("revisions_moved", "files_moved"), left_as="MOVED")

    async def changed(self, files: Iterable[FileToMove]) -> set[int]:
        """At their source is something else than what was read: each begins anew as the next revision."""
        values = [{**_key(file), "size": file.listed.size, "modified": file.listed.modified} for file in files]
        return await self._settled("new", values, RENEWAL[:-1])

    async def vanished(self, files: Iterable[FileToMove], reason: str = "vanished") -> set[int]:
        """They are nowhere: ERROR, until somebody redoes them."""
        return await self._settled("vanished", _keys(files), ("files_vanished",), left_as="ERROR", reason=reason)

    async def failed(self, files: Iterable[FileToMove], reason: str, pause_s: float = PAUSE_S) -> set[int]:
        """It could not be decided now: they stay COMPLETED and are taken again after a pause."""
        steps = ("files_unmovable",)
        return await self._settled("failed", _keys(files), steps, "COMPLETED", reason=reason, pause_s=pause_s)

    async def give_back(self, files: Iterable[FileToMove], pause_s: float) -> set[int]:
        """Nobody has tried to move them: they are as they were, and may be taken again after the pause."""
        return await self._settled("given", _keys(files), (), "COMPLETED", pause_s=pause_s)

    async def _settled(  # noqa: PLR0913
        self,
        verdict: str,
        files: list[dict[str, Any]],
        steps: Sequence[str],
        left_as: str = "",
        reason: str = "",
        pause_s: float = 0.0,
    ) -> set[int]:
        if not files:
            return set()
        async with self._tables.transaction() as tx:
            tx.run("claims_lock", files=files)
            tx.run("moves_judge", files=files, verdict=verdict)
            judged = tx.run("moves_judged", files=files, verdict=verdict)
            for name in steps:
                run(tx, name, {"files": files, "reason": reason[:REASON_CHARS_MAX]})
            if left_as:
                tx.run("moves_end", files=files, left_as=left_as, pause_us=round(pause_s * 1_000_000))
            tx.run("claims_judged", files=files)
        return {number for (number,) in judged.rows}


def _to_move(  # noqa: PLR0913
    file_id: int,
    epoch: int,
    system_type: str,
    server_key: str,
    path: str,
    file_name: str,
    revision: int,
    size: int,
    modified: str,
    fetched: str | None,
) -> FileToMove:
    folder, listed = ServerFolder(system_type, server_key, path), Stamp(size, modified)
    return FileToMove(file_id, epoch, folder, file_name, revision, listed, Stamp.read(fetched) if fetched else listed)


def _key(file: FileToMove) -> dict[str, Any]:
    return {"id": file.file_id, "epoch": file.epoch}


def _keys(files: Iterable[FileToMove]) -> list[dict[str, Any]]:
    return [_key(file) for file in files]
