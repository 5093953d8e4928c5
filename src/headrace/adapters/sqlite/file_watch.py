"""Whether a path still names the file that was opened.

SQLite goes on writing to a file that was deleted or replaced: every commit is acknowledged and none is found again.
Device and inode of what the path names are compared with what they were; one `stat` costs a microsecond or two.
"""

from __future__ import annotations

import os
from contextlib import suppress

import apsw

from headrace.core.errors import RESTORE, StoreReplaced

Identity = tuple[int, int]


class FileWatch:
    """Remembers the files that some paths name. One that is not there yet is remembered when it is first seen."""

    def __init__(self, *paths: str) -> None:
        self._seen: dict[str, Identity | None] = {path: identity(path) for path in map(os.path.abspath, paths)}

    def check(self) -> None:
        """`StoreReplaced` if a path names no file any more, or another one."""
        for path, seen in self._seen.items():
            now = identity(path)
            if now == seen:
                continue
            if seen is None:
                self._seen[path] = now
                continue
            raise StoreReplaced(
                f"{path} was {'deleted' if now is None else 'replaced'} while it was open: what is written now is lost",
                RESTORE,
            )


def close_watched(connection: apsw.Connection, files: FileWatch) -> None:
    """The last one to close a database deletes the log of that name, which may belong to another file by now."""
    try:
        files.check()
    except StoreReplaced:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def identity(path: str) -> Identity | None:
    """Device and inode of what a path names; None if there is nothing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def strayed(path: str) -> list[int]:
    """Processes that have a file open which was deleted, replaced or moved under them, where the system tells it."""
    whole = os.path.abspath(path)
    found = []
    for pid in _processes():
        opened = _open_files(pid)
        deleted = {f"{whole} (deleted)", f"{whole}-wal (deleted)"} & opened
        moved = f"{whole}-wal" in opened and whole not in opened
        if deleted or moved:
            found.append(pid)
    return found


def _processes() -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return []


def _open_files(pid: int) -> set[str]:
    """What another process has open; nothing if it ended, or belongs to somebody else."""
    found = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(entry.path))
    return found
