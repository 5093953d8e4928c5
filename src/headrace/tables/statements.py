"""Named statements of an application, and the migrations of its tables, from the files of its package.

`sql/<dialect>/*.sql` hold statements. One begins with `-- name: some_name` and takes `:values`; the same name means the
same in every dialect. What reads alike in all of them stands once, in `sql/shared/*.sql`.
`sql/<dialect>/migrations/0001_name.sql` and so on make the tables. Where somebody else may have
made some of them, a piece begins with `-- creates: relation` and is left out if that exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import LiteralString

from headrace.core.errors import CallerError
from headrace.core.placeholders import pyformat
from headrace.core.table_statements import TableMigration, TablePart, TableStatement

_NAME = re.compile(r"^-- name: ([a-z_0-9]+)\n", re.MULTILINE)
_CREATES = re.compile(r"^-- creates: ([a-z_0-9]+)\n", re.MULTILINE)
_WORD = re.compile(r"\w+")
SHARED = "shared"
_NUMBERED = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a package. `repeatable` declares that each of them may be run twice and leaves what it left the
    first time: then a unit whose answer was lost is sent again without a mark of it in the store.

    With `renamed` the same statements work on tables of their own: (table, its other name) for each, in statements and
    migrations alike. `copy` names such a set, whose migrations are counted apart."""

    package: str
    repeatable: bool = False
    copy: str = ""
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def owner(self) -> str:
        """Under which name the migrations are counted."""
        return f"{self.package}:{self.copy}" if self.copy else self.package

    def named(self, dialect: str) -> Mapping[str, TableStatement]:
        """All statements of a dialect by name."""
        texts = named_statements(self.package, dialect)
        return {name: TableStatement.of(name, self._own(text), self.repeatable) for name, text in texts.items()}

    def migrations(self, dialect: str) -> tuple[TableMigration, ...]:
        """In order of their numbers."""
        found = _migrations(self.package, dialect)
        if not self.renamed:
            return found
        return tuple(replace(each, parts=tuple(map(self._own_part, each.parts))) for each in found)

    def created(self, dialect: str) -> set[str]:
        """The tables that the migrations make, by the names in their files."""
        return {part.creates for each in _migrations(self.package, dialect) for part in each.parts if part.creates}

    def _own_part(self, part: TablePart) -> TablePart:
        return TablePart(self._own(part.creates), self._own(part.text))

    def _own(self, text: str) -> str:
        if not self.renamed:
            return text
        others = dict(self.renamed)
        # Whole words only: an index may begin with the name of its table, and belongs to it alone.
        return _WORD.sub(lambda word: others.get(word[0], word[0]), text)


@cache
def named_statements(package: str, dialect: str) -> dict[str, str]:
    """The texts alone, for an application that has connections of its own."""
    found: dict[str, str] = {}
    for _, text in (*_files(package, SHARED), *_files(package, dialect)):
        parts = _NAME.split(text)
        for name, statement in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise CallerError(f"{package} has two statements called {name} for {dialect}")
            found[name] = statement.strip()
    return found


@cache
def _migrations(package: str, dialect: str) -> tuple[TableMigration, ...]:
    found = []
    for file, text in _files(package, f"{dialect}/migrations"):
        numbered = _NUMBERED.fullmatch(file)
        if numbered is None:
            raise CallerError(f"{package}: {file} is no migration", "name it 0001_what_it_does.sql")
        first, *pieces = _CREATES.split(text)
        parts = [("", first), *zip(pieces[::2], pieces[1::2], strict=True)]
        made = tuple(TablePart(creates, part.strip()) for creates, part in parts if part.strip())
        found.append(TableMigration(int(numbered[1]), numbered[2], made))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise CallerError(f"the migrations of {package} for {dialect} are not numbered 1, 2, 3 …")
    return tuple(found)


def _files(package: str, folder: str) -> list[tuple[str, str]]:
    """(name, text) of the `.sql` files of a folder, in order; none if there is no such folder."""
    place = resources.files(package) / "sql" / folder
    if not place.is_dir():
        return []
    files = sorted((entry for entry in place.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return [(entry.name, entry.read_text("utf-8")) for entry in files]


def driver_text(text: str) -> LiteralString:
    """In psycopg's notation."""
    return pyformat(text).text
