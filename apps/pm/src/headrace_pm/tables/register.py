"""The table of files as scanners see it: which names it has, and what becomes of those that were listed.

A name has one row. What becomes of a name that came again is decided under the lock of its claim, by what was done with
the content it had:

    never read                                  its stamp is replaced, and it is due at once
    read, and not in both sinks yet; or held    later: nothing changes, and the next look asks again
    ended: COMPLETED, MOVED or ERROR            a new revision: the row waits again with nothing done
    an ERROR because it had vanished            the same, also if it is back as it was

So no content that was read is cut off half way, and every revision is complete in both sinks before the next begins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.tables import Columns, OpenTables
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables.steps import run

# Some at a time: a transaction of some ten milliseconds, and a statement far below the size a server takes.
NAMES_MAX = 1_000
# What is listed and cannot be found is tried again now and then, not at every look.
VANISHED_MINUTES = 5
RENEWAL = (
    "revisions_stamp",
    "revisions_new",
    "files_renew",
    "sinks_renew",
    "claims_renew",
    "claims_judged",
)
"""What follows from a verdict on claims that are locked."""


@dataclass(frozen=True, slots=True)
class RegisteredFiles:
    """What became of files that were listed. Those of `later` are asked about again at the next look."""

    new: tuple[ListedFile, ...] = ()
    renewed: tuple[ListedFile, ...] = ()
    """They came again: another stamp, or another revision."""
    known: tuple[ListedFile, ...] = ()
    later: tuple[ListedFile, ...] = ()

    @property
    def registered(self) -> tuple[ListedFile, ...]:
        """Their rows are as they were listed: for `FolderScanner.registered`."""
        return (*self.new, *self.renewed, *self.known)

    def __add__(self, other: RegisteredFiles) -> RegisteredFiles:
        return RegisteredFiles(
            self.new + other.new, self.renewed + other.renewed, self.known + other.known, self.later + other.later
        )


@dataclass(frozen=True, slots=True)
class _Row:
    file_id: int
    state: str
    stamp: Stamp | None
    before: Stamp
    """The stamp that its revision has, or will have when it is made."""
    is_gone: bool
    """It was moved, or had vanished: if it is listed, it has come again."""


class FileTable:
    """`headrace_pm.ftp.seen.FileRegister`, and the way of new files into the table."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def unknown(self, folder: ServerFolder, names: Sequence[str]) -> set[str]:
        found = await self._found(folder, names)
        return {name for name in names if name not in found or found[name].is_gone}

    async def unmoved(self, folder: ServerFolder) -> AsyncIterator[Sequence[str]]:
        after = ""
        while True:
            rows = await self._tables.rows("files_unmoved", **_key(folder), after=after, count_max=NAMES_MAX)
            yield [name for name, is_unmoved in rows if is_unmoved]
            if len(rows) < NAMES_MAX:
                return
            after = rows[-1][0]

    async def stamps(self, folder: ServerFolder, names: Sequence[str]) -> Mapping[str, Stamp]:
        found = await self._found(folder, names)
        return {name: row.stamp for name, row in found.items() if row.stamp is not None}

    async def awaited(self, folder: ServerFolder, but: int, count_max: int) -> list[str]:
        """Names of files that were listed there and should still be, without that of one id; the newest first."""
        rows = await self._tables.rows("files_awaited", **_key(folder), id=but, count_max=count_max)
        return [name for (name,) in rows]

    async def archived(self, folder: ServerFolder, count_max: int) -> list[str]:
        """Names of files that were moved from there into its archive."""
        rows = await self._tables.rows("files_archived", **_key(folder), count_max=count_max)
        return [name for (name,) in rows]

    async def register(self, folder: ServerFolder, files: Sequence[ListedFile], max_retry: int) -> RegisteredFiles:
        """Give each of these files its row, or its next revision. What is repeated changes nothing."""
        done = RegisteredFiles()
        for some in _pieces(files):
            found = await self._found(folder, [file.text for file in some])
            new = [file for file in some if file.text not in found]
            again = [file for file in some if _came_again(file, found.get(file.text))]
            passed = {file.text for file in (*new, *again)}
            if new:
                await self._insert(folder, new, max_retry)
            done += RegisteredFiles(tuple(new), known=tuple(file for file in some if file.text not in passed))
            if again:
                done += await self._renew([(file, found[file.text]) for file in again])
        return done

    async def _insert(self, folder: ServerFolder, files: Sequence[ListedFile], max_retry: int) -> None:
        key, count = _key(folder), len(files)
        columns: dict[str, list[Any]] = {name: [value] * count for name, value in key.items()}
        columns |= {"name": [file.text for file in files], "size": [file.stamp.size for file in files]}
        listed = [[file.text, *file.stamp] for file in files]
        async with self._tables.transaction() as tx:
            tx.run_many("files_insert", Columns({**columns, "max_retry": [max_retry] * count}))
            run(tx, "revisions_first", {**key, "files": listed})
            run(tx, "claims_first", {**key, "files": listed})

    async def _renew(self, files: Sequence[tuple[ListedFile, _Row]]) -> RegisteredFiles:
        wanted = [_wanted(file, row) for file, row in files]
        async with self._tables.transaction() as tx:
            for name in ("claims_made", "revisions_made", "claims_lock", "claims_judge", *RENEWAL):
                tx.run(name, files=wanted)
            standing = tx.run("stamps_registered", files=wanted)
        ids = {number for (number,) in standing.rows}
        return RegisteredFiles(
            renewed=tuple(file for file, row in files if row.file_id in ids),
            later=tuple(file for file, row in files if row.file_id not in ids),
        )

    async def _found(self, folder: ServerFolder, names: Sequence[str]) -> dict[str, _Row]:
        found: dict[str, _Row] = {}
        for some in _pieces(names):
            values = {**_key(folder), "names": list(some), "minutes": VANISHED_MINUTES}
            rows = await self._tables.rows("files_known", **values)
            found.update((name, _row(*values)) for name, *values in rows)
        return found


def _row(  # noqa: PLR0913
    file_id: int, state: str, row_size: int | None, size: int | None, modified: str | None, has_vanished: bool
) -> _Row:
    stamp = None
    if size is not None:
        stamp = Stamp(size, modified or "")
    elif row_size is not None:
        stamp = Stamp(row_size)
    return _Row(file_id, state, stamp, stamp or Stamp(0), state == "MOVED" or has_vanished)


def _came_again(file: ListedFile, row: _Row | None) -> bool:
    if row is None:
        return False
    return row.is_gone or row.stamp is None or not file.stamp.agrees_with(row.stamp)


def _wanted(file: ListedFile, row: _Row) -> dict[str, Any]:
    before = {"size_before": row.before.size, "modified_before": row.before.modified}
    return {"id": row.file_id, "size": file.stamp.size, "modified": file.stamp.modified, **before}


def _key(folder: ServerFolder) -> dict[str, str]:
    return {"system_type": folder.system_type, "server_key": folder.server_key, "path": folder.path}


def _pieces(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(values), NAMES_MAX):
        yield values[first : first + NAMES_MAX]
