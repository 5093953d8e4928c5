"""A unit of work: what an application wants done in one commit, as data.

No code of the application runs between its begin and its commit. What the unit decides on was read before; a step that
changes something else than `expect` rows says that it has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import TooLarge
from headrace.core.events import Event
from headrace.core.jobs import Submission, Submitted
from headrace.core.table_statements import Row, Step

UNIT_RUNS_MAX = 10_000
UNITS = "headrace.units"
"""Under this name the inbox remembers units, beside the messages of subscriptions."""


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """The event that an external stage of a job waits for."""

    job: str
    stage: str
    event_id: str


@dataclass(frozen=True, slots=True)
class Unit:
    """Steps in order, then jobs, external stages that close, events: all or nothing. The same `unit_id` is the same
    unit, however often it is sent. `repeatable`: its steps may be applied twice and leave what they left the first
    time, so that no mark has to be kept of them."""

    unit_id: str
    steps: tuple[Step, ...] = ()
    submissions: tuple[Submission, ...] = ()
    events: tuple[Event, ...] = ()
    closes: tuple[ExternalEvent, ...] = ()
    repeatable: bool = False

    @property
    def reads(self) -> bool:
        """It changes nothing."""
        return not self.accounts and all(step.statement.reads for step in self.steps)

    @property
    def accounts(self) -> bool:
        """It moves something beside the application's tables."""
        return bool(self.submissions or self.closes or self.events)


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


def check_unit(unit: Unit) -> None:
    """Refuse what no store would take, before anything is sent."""
    runs = sum(len(step.values) for step in unit.steps)
    if runs > UNIT_RUNS_MAX:
        raise TooLarge(f"{runs:,} runs of statements in one unit are over UNIT_RUNS_MAX = {UNIT_RUNS_MAX:,}")
