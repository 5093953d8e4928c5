"""How the looks at folders go: kept in this process for `/readyz`, and in the table for `status` and its readers.

A server that is away or a folder that is missing keeps no other file from being taken, so the process is ready all the
same. But nobody would see it: so each folder says when it was last listed, since when it fails, and why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.errors import HeadraceError
from headrace.tables import OpenTables
from headrace_pm.ftp.servers import ServerFolder

# What has not changed is written so often: `status` shows to within that when a folder was listed.
WRITE_S = 10.0
ERROR_CHARS_MAX = 500
_FIGURES = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class FolderLook:
    """The last look at a folder by this process: what it found, or why it failed."""

    files: int = 0
    error: HeadraceError | None = None

    async def answers(self) -> object:
        """For `/readyz`: the error of the last look."""
        if self.error is not None:
            raise self.error
        return self.files


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A row of `pm_folder_look`, by whichever process."""

    looked_at: datetime
    listed_at: datetime | None
    files: int | None
    failing_since: datetime | None
    error: str | None


class FolderLooks:
    """The looks of one process."""

    def __init__(self, tables: OpenTables, now: Callable[[], float] = time.monotonic) -> None:
        self._tables, self._now = tables, now
        self._looks: dict[ServerFolder, FolderLook] = {}
        self._written: dict[ServerFolder, tuple[str, float]] = {}

    @property
    def now(self) -> Mapping[ServerFolder, FolderLook]:
        return self._looks

    def keep_only(self, folders: Collection[ServerFolder]) -> None:
        """Forget those that nobody looks at any more."""
        for gone in self._looks.keys() - set(folders):
            del self._looks[gone]
            self._written.pop(gone, None)

    def listed(self, folder: ServerFolder, files: int) -> None:
        self._looks[folder] = FolderLook(files)

    def failed(self, folder: ServerFolder, error: HeadraceError) -> bool:
        """Whether it is another error than that of the look before."""
        before, self._looks[folder] = self._looks.get(folder), FolderLook(error=error)
        return before is None or _fault(before) != _fault(self._looks[folder])

    async def write(self) -> None:
        """What has changed since it was written, and what was written a while ago, in one transaction."""
        due = {folder: look for folder, look in self._looks.items() if self._is_due(folder, look)}
        if not due:
            return
        async with self._tables.transaction() as tx:
            listed = [_key(each) | {"files": look.files} for each, look in due.items() if look.error is None]
            failed = [_key(each) | {"error": _words(look)} for each, look in due.items() if look.error is not None]
            if listed:
                tx.run_many("folder_listed", listed)
            if failed:
                tx.run_many("folder_failed", failed)
        self._written.update((folder, (_fault(look), self._now())) for folder, look in due.items())

    def _is_due(self, folder: ServerFolder, look: FolderLook) -> bool:
        fault, written_at = self._written.get(folder, (None, 0.0))
        return fault != _fault(look) or self._now() - written_at >= WRITE_S


async def folder_looks(tables: OpenTables) -> dict[ServerFolder, LookedAt]:
    """What all processes wrote."""
    rows = await tables.rows("folder_looks")
    return {ServerFolder(*row[:3]): LookedAt(*row[3:]) for row in rows}


def _key(folder: ServerFolder) -> dict[str, object]:
    return {"system_type": folder.system_type, "server_key": folder.server_key, "path": folder.path}


def _fault(look: FolderLook) -> str:
    """What is wrong, without its figures: of a server that is away each look says when it is asked again."""
    return _FIGURES.sub("", _words(look))


def _words(look: FolderLook) -> str:
    return "" if look.error is None else str(look.error)[:ERROR_CHARS_MAX]
