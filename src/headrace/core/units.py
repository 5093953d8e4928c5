"""A unit of work: what an application wants done in one commit, as data.

No code of the application runs between its begin and its commit. What the unit decides on was read before; a step that
changes something else than `expect` rows says that it has changed since.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import CallerError, Conflict, SchemaMismatch, TooLarge
from headrace.core.events import Event
from headrace.core.jobs import Submission, Submitted

Row = tuple[Any, ...]
UNIT_RUNS_MAX = 10_000
UNITS = "headrace.units"
"""Under this name the inbox remembers units, beside the messages of subscriptions."""

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
    values: tuple[Mapping[str, object], ...]
    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Steps in order, then jobs, then events: all or nothing. The same `unit_id` is the same unit, however often it is
    sent. `repeatable`: its steps may be applied twice and leave what they left the first time, so that no mark has to
    be kept of them."""

    unit_id: str
    steps: tuple[Step, ...] = ()
    submissions: tuple[Submission, ...] = ()
    events: tuple[Event, ...] = ()
    repeatable: bool = False

    @property
    def reads(self) -> bool:
        """It changes nothing."""
        return not (self.submissions or self.events) and all(step.statement.reads for step in self.steps)


@dataclass(frozen=True, slots=True)
class StepDone:
    """The rows that a step returned, and how many it changed (or returned, if it only reads)."""

    rows: tuple[Row, ...]
    count: int


@dataclass(frozen=True, slots=True)
class UnitDone:
    """`steps` is None if an earlier call with the same id had applied them: its answer was lost with their rows."""

    steps: tuple[StepDone, ...] | None
    submitted: tuple[Submitted, ...]


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


def check_unit(unit: Unit) -> None:
    """Refuse what no store would take, before anything is sent."""
    runs = sum(len(step.values) for step in unit.steps)
    if runs > UNIT_RUNS_MAX:
        raise TooLarge(f"{runs:,} runs of statements in one unit are over UNIT_RUNS_MAX = {UNIT_RUNS_MAX:,}")


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
