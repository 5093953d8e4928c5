"""Dictionaries from CSV files into their tables: what would change is shown first, and an unchanged row is not touched.

Only columns of the contract are written, by plain inserts and updates: a table that another program made keeps its
further columns and values. Rows that no file has stay, unless they are to be pruned. Passwords are never imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, Conflict
from headrace.tables import OpenTables
from headrace_pm.ftp.servers import FileServer
from headrace_pm.operators.import_tables import IMPORTED, Cells, ImportTable, Key, digest_of, require_some

# Less than a unit of work may hold.
ROWS_PER_UNIT = 5_000
SOURCE_CHARS_MAX = 500
_SECRETS = ("password", "passwd", "secret")


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an import does to one table; `result` are all of its rows afterwards."""

    table: ImportTable
    added: tuple[Cells, ...]
    changed: tuple[Cells, ...]
    removed: tuple[Key, ...]
    result: Mapping[Key, Cells]
    before: Mapping[Key, Cells]

    @property
    def is_change(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def runs(self) -> Iterator[tuple[str, dict[str, object]]]:
        """The statements in their order, with their values."""
        name = self.table.name
        yield from ((f"{name}_remove", self.table.key_values(key)) for key in self.removed)
        if name == "ne":
            yield from (("ne_rename_away", self.table.key_values(key)) for key in self._exchanged())
        yield from ((f"{name}_change", self.table.values(cells)) for cells in self.changed)
        yield from ((f"{name}_add", self.table.values(cells)) for cells in self.added)

    def _exchanged(self) -> Iterator[Key]:
        """Elements whose name goes to another one in the same import: names are unique at every moment."""
        claimed = {cells[1] for cells in (*self.changed, *self.added)}
        for cells in self.changed:
            if self.before[self.table.key_of(cells)][1] in claimed:
                yield self.table.key_of(cells)


class DictionaryImport:
    """One import of a folder. `preview` reads, `apply` writes what was shown."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def preview(self, folder: Path, prune: bool = False) -> tuple[TableChange, ...]:
        """What would change, table by table; `CallerError` with file and line if a row cannot be."""
        require_some(folder)
        _refuse_passwords(folder)
        given = {table.name: table.read(folder) for table in IMPORTED}
        stored = {table.name: table.stored(await self._tables.rows(f"{table.name}_rows")) for table in IMPORTED}
        changes = tuple(
            _compared(table, stored[table.name], found, prune)
            for table in IMPORTED
            if (found := given[table.name]) is not None
        )
        results = {**stored, **{change.table.name: change.result for change in changes}}
        _check_names(results["ne"].values())
        _check_servers(results["ftp_path"].values(), {key[0] for key in results["ftp_server"]})
        if twice := shared_folder(results["ftp_server"].values(), results["ftp_path"].values()):
            raise Conflict(twice, "files of a folder belong to one server of one system type; give it one row")
        return changes

    async def apply(self, changes: Sequence[TableChange], source: str, now: datetime) -> None:
        """Write it. A table of up to 5,000 changes is one transaction, together with its line of history; an import
        that was cut off is completed by the same import."""
        for change in changes:
            if not change.is_change:
                continue
            record = {
                "imported_at": now,
                "table_name": change.table.name,
                "added": len(change.added),
                "changed": len(change.changed),
                "removed": len(change.removed),
                "digest": digest_of(change.result),
                "source": source[:SOURCE_CHARS_MAX],
            }
            runs = [*change.runs(), ("import_record", record)]
            for begin in range(0, len(runs), ROWS_PER_UNIT):
                await self._write(runs[begin : begin + ROWS_PER_UNIT])

    async def _write(self, runs: Sequence[tuple[str, Mapping[str, object]]]) -> None:
        async with self._tables.transaction() as tx:
            for name, group in groupby(runs, itemgetter(0)):
                tx.run_many(name, [values for _, values in group])

    async def history(self, count_max: int = 50) -> list[dict[str, object]]:
        """What was imported, the newest first."""
        names = ("imported_at", "table", "added", "changed", "removed", "digest", "source")
        rows = await self._tables.rows("import_history", count_max=count_max)
        return [dict(zip(names, row, strict=True)) for row in rows]


def _compared(table: ImportTable, before: Mapping[Key, Cells], given: Mapping[Key, Cells], prune: bool) -> TableChange:
    removed = tuple(key for key in before if key not in given) if prune else ()
    kept = {key: cells for key, cells in before.items() if key not in removed} if removed else dict(before)
    return TableChange(
        table,
        tuple(cells for key, cells in given.items() if key not in before),
        tuple(cells for key, cells in given.items() if key in before and before[key] != cells),
        removed,
        {**kept, **given},
        before,
    )


def _check_names(elements: Iterable[Cells]) -> None:
    ids: dict[str, str] = {}
    for number, name in elements:
        if (first := ids.setdefault(name, number)) != number:
            raise Conflict(
                f"the element {name} would have the ids {first} and {number}",
                "counters are stored by id: give it the id that it has, or remove the other row with --prune",
            )


def shared_folder(servers: Iterable[Sequence[Any]], paths: Iterable[Sequence[Any]]) -> str:
    """What two rows would both take files from: a server that stands there twice for one system type, or a folder of it
    for two, of which each would miss what the other has moved. Empty if there is none, or rows that cannot be read."""
    numbers: dict[tuple[str, str], str] = {}
    keys: dict[str, str] = {}
    for number, system_type, host, port, user_name, password_ref in servers:
        try:
            server = FileServer.of_row(system_type, host, int(port), user_name, password_ref)
        except CallerError:
            continue
        keys[str(number)] = server.key
        if (first := numbers.setdefault((server.system_type, server.key), str(number))) != str(number):
            return f"the servers {first} and {number} are the same one, {server.key}, for {server.system_type}"
    taken: dict[tuple[str, str], str] = {}
    for _, number, path in paths:
        key = keys.get(str(number))
        if key is not None and (first := taken.setdefault((key, path), str(number))) != str(number):
            return f"the servers {first} and {number} are the same one, {key}, and both have the folder {path}"
    return ""


def _check_servers(paths: Iterable[Cells], servers: set[str]) -> None:
    for number, server, path in paths:
        if server not in servers:
            raise Conflict(f"ftp_path {number} ({path}) is on the server {server}, which ftp_server does not have")


def _refuse_passwords(folder: Path) -> None:
    path = folder / "ftp_server.csv"
    if not path.exists():
        return
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        heading = [column.strip().strip('"').lower() for column in file.readline().split(",")]
    if any(column in _SECRETS for column in heading):
        raise CallerError(
            f"{path} has a column of passwords", "a column password_ref says where each is: env:NAME or file:PATH"
        )
