"""Statements of an application by name, one run of them, and the pieces that make its tables, for every store."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import CallerError, Conflict, SchemaMismatch

Row = tuple[Any, ...]

_UNSPOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_WRITING = re.compile(
    r"\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|REPLACE\s+INTO|CREATE|DROP|ALTER|TRUNCATE|CALL|LOCK)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A named statement of an application, in the dialect of its store, with `:name` for values. `repeatable`: it may
    be run twice and leaves what it left the first time."""

    name: str
    text: str
    reads: bool
    repeatable: bool = False

    @classmethod
    def of(cls, name: str, text: str, repeatable: bool = False) -> TableStatement:
        reads = not _WRITING.search(_UNSPOKEN.sub(" ", text))
        return cls(name, text, reads, repeatable or reads)


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, run once for each set of values. `expect`: how many rows it must change in all."""

    statement: TableStatement
    values: Sequence[Mapping[str, object]]
    expect: int | None = None


@dataclass(frozen=True, slots=True)
class TablePart:
    """A piece of a migration. `creates`: it is left out where a relation of that name exists, whoever made it."""

    creates: str
    text: str


@dataclass(frozen=True, slots=True)
class TableMigration:
    """A numbered change of an application's tables."""

    number: int
    name: str
    parts: tuple[TablePart, ...]


def insist_on(step: Step, count: int) -> None:
    """`Conflict` if a step has not changed as many rows as the unit's author expected."""
    if step.expect is not None and count != step.expect:
        raise Conflict(
            f"{step.statement.name} changed {count} rows where {step.expect} were expected, so nothing was done",
            "read again and decide anew",
        )


def refused(name: str, reason: str) -> CallerError:
    """A statement that may not run in a transaction that is not only the application's."""
    return CallerError(f"the statement {name} is refused: {reason}", "it may change the application's own tables")


def pending(owner: str, migrations: Sequence[TableMigration], applied: Collection[int]) -> list[TableMigration]:
    """Those that are still to be applied."""
    newest = max((migration.number for migration in migrations), default=0)
    if applied and max(applied) > newest:
        raise SchemaMismatch(
            f"the tables of {owner} are at {max(applied)}, and this program knows {newest} at most",
            "install the newer one that made them",
        )
    return [migration for migration in migrations if migration.number not in applied]
