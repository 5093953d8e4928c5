"""The tables that an import fills: their columns, keys, and what a row must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, NotFound
from headrace_pm.counters.dictionary_files import COLUMNS, csv_rows, whole_number
from headrace_pm.ftp.names import ascii_text, bytes_of_path
from headrace_pm.ftp.servers import FileServer
from headrace_pm.operators.kpi.formula import Formula

Key = tuple[str, ...]
Cells = tuple[str, ...]
DIGEST_CHARS = 32


@dataclass(frozen=True, slots=True)
class ImportTable:
    """A table and its CSV file of the same name. Cells are compared as text; `whole` ones are numbers. `check` refuses
    a row that could not work."""

    name: str
    columns: tuple[str, ...]
    keys: int
    whole: frozenset[str]
    check: Callable[[Cells], object] = lambda _cells: None

    def key_of(self, cells: Cells) -> Key:
        return cells[: self.keys]

    def values(self, cells: Cells) -> dict[str, object]:
        """As a statement takes them."""
        return {
            column: int(cell) if column in self.whole else cell
            for column, cell in zip(self.columns, cells, strict=True)
        }

    def key_values(self, key: Key) -> dict[str, object]:
        pairs = zip(self.columns[: self.keys], key, strict=True)
        return {column: int(cell) if column in self.whole else cell for column, cell in pairs}

    def read(self, folder: Path) -> dict[Key, Cells] | None:
        """The rows of its file by their keys; None if there is no such file."""
        path = folder / f"{self.name}.csv"
        if not path.exists():
            return None
        found: dict[Key, Cells] = {}
        for where, cells in self._cells(path):
            if (key := self.key_of(cells)) in found:
                raise CallerError(f"{where}: {', '.join(key)} stands there twice")
            found[key] = cells
        return found

    def stored(self, rows: list[tuple[Any, ...]]) -> dict[Key, Cells]:
        """The rows of the table in the same form."""
        found = (tuple("" if cell is None else str(cell) for cell in row) for row in rows)
        return {self.key_of(cells): cells for cells in found}

    def _cells(self, path: Path) -> Iterator[tuple[str, Cells]]:
        for where, row in csv_rows(path, self.columns):
            cells = tuple(
                str(whole_number(cell, where)) if column in self.whole else cell.strip()
                for column, cell in zip(self.columns, row, strict=True)
            )
            try:
                self.check(cells)
            except CallerError as error:
                raise CallerError(f"{where}: {error}", error.hint) from None
            yield where, cells


def digest_of(rows: Mapping[Key, Cells]) -> str:
    """The same for the same rows, in whatever order."""
    whole = sha256()
    for cells in sorted(rows.values()):
        whole.update("\x1f".join(cells).encode() + b"\n")
    return whole.hexdigest()[:DIGEST_CHARS]


def require_some(folder: Path) -> None:
    """An import of a folder that has none of the files is a mistake in its name."""
    if not folder.is_dir():
        raise NotFound(f"{folder} is not a directory")
    if not any((folder / f"{table.name}.csv").exists() for table in IMPORTED):
        names = ", ".join(f"{table.name}.csv" for table in IMPORTED)
        raise NotFound(f"{folder} has no file to import", f"one or more of {names}")


def _server(cells: Cells) -> None:
    _, system_type, host, port, user_name, password_ref = cells
    FileServer.of_row(system_type, host, int(port), user_name, password_ref)


def _named(cells: Cells) -> None:
    if not all(cells):
        raise CallerError("a value is missing")


IMPORTED = (
    ImportTable(
        "ftp_server",
        ("id", "system_type", "host", "port", "user_name", "password_ref"),
        1,
        frozenset({"id", "port"}),
        _server,
    ),
    ImportTable(
        "ftp_path",
        ("id", "server_id", "path"),
        1,
        frozenset({"id", "server_id"}),
        lambda cells: bytes_of_path(ascii_text(cells[2])),
    ),
    ImportTable("ne", COLUMNS["ne"], 1, frozenset({"id"}), _named),
    ImportTable("counter_cat", COLUMNS["counter_cat"], 2, frozenset({"counter_id"}), _named),
    ImportTable("extra_field_column", COLUMNS["extra_field_column"], 1, frozenset(), _named),
    ImportTable("node_function", COLUMNS["node_function"], 1, frozenset(), _named),
    ImportTable("pm_kpi", ("name", "formula", "unit"), 1, frozenset(), lambda cells: Formula.of(cells[1])),
)
"""In the order in which they are written: what is named by others comes first."""
