"""One unit of work as its author writes it: reads now, writes recorded, everything applied when the block ends.

Nothing is sent while the block runs but reads, and each of these sees what was committed by then. So no code of the
author runs inside a transaction, on any store, and a block that raises leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from headrace.core.catalogue import Catalogue
from headrace.core.errors import CallerError, Unknown
from headrace.core.events import Event, check_event
from headrace.core.jobs import Submission, Submitted
from headrace.core.table_columns import Columns
from headrace.core.table_statements import Row, Step
from headrace.core.units import ExternalEvent, StepDone, Unit, UnitDone, check_unit
from headrace.ports.tables import Tables
from headrace.runtime.flow import Flow
from headrace.runtime.submission import SubmitOptions

Compose = Callable[..., Submission]
_TOO_EARLY = "what a unit of work did is known when its block has ended"


class Ran:
    """What a recorded statement did, once the block has ended."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.done: StepDone | None = None
        self.lost = False

    @property
    def rows(self) -> list[Row]:
        """What it returned. `Unknown` if the unit was applied and the answer with the rows was lost."""
        return list(self._known().rows)

    @property
    def count(self) -> int:
        """How many rows it changed, or returned if it only reads."""
        return self._known().count

    def _known(self) -> StepDone:
        if self.lost:
            raise Unknown(f"{self._name} was applied, but its answer was lost", "read what you need of it")
        if self.done is None:
            raise CallerError(_TOO_EARLY)
        return self.done


class Opened:
    """A job that opens with the unit."""

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self.submitted: Submitted | None = None

    @property
    def job(self) -> str:
        """Its id. With a key it may be an earlier job, so that is known when the block has ended."""
        if self.submitted is not None:
            return self.submitted.job
        if self._submission.key is not None:
            raise CallerError(_TOO_EARLY)
        return self._submission.job


class UnitOfWork:
    """Made by `engine.transaction()`, for one block."""

    def __init__(self, tables: Tables, catalogue: Catalogue, compose: Compose) -> None:
        self._tables, self._catalogue, self._compose = tables, catalogue, compose
        self._steps: list[Step] = []
        self._ran: list[Ran] = []
        self._submissions: list[Submission] = []
        self._opened: list[Opened] = []
        self._closes: list[ExternalEvent] = []
        self._events: list[Event] = []
        self._over = False

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """Read now: what was committed so far, and nothing of what this unit records."""
        step = self._catalogue.reading(name, values)
        return await self._tables.read(step.statement, values)

    async def one(self, name: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        found = await self.rows(name, **values)
        return found[0] if found else None

    def run(self, name: str, /, *, expect: int | None = None, **values: object) -> Ran:
        """Record a statement. If it changes another number of rows than `expect`, the whole unit is a `Conflict` and
        nothing of it remains: so a decision that was read is checked."""
        return self.run_many(name, (values,), expect=expect)

    def run_many(self, name: str, values: Iterable[Mapping[str, object]], *, expect: int | None = None) -> Ran:
        """Record a statement for many sets of values, or for `Columns` of them; `expect` counts all of them."""
        self._check_open()
        kept = values if isinstance(values, Columns) else tuple(values)
        self._steps.append(self._catalogue.step(name, kept, expect))
        self._ran.append(Ran(name))
        return self._ran[-1]

    def submit(self, flow: Flow, *payloads: Any, **options: Unpack[SubmitOptions]) -> Opened:
        """Record a job with these items, up to UPLOAD_BYTES in all. It exists if and only if the unit is applied."""
        self._check_account("a job")
        self._submissions.append(self._compose(flow, *payloads, **options))
        self._opened.append(Opened(self._submissions[-1]))
        return self._opened[-1]

    def close_external(self, job: str, stage: str, event_id: str) -> None:
        """Record the event that an external stage waits for. If an earlier one had closed it, this one is remembered
        and changes nothing. `NotFound`: there is no such job, and nothing of the unit remains."""
        self._check_account("an external event")
        self._closes.append(ExternalEvent(job, stage, event_id))

    def publish(self, *events: Event) -> None:
        """Record events for the outbox; a relay publishes them after the commit."""
        self._check_account("an event")
        for event in events:
            check_event(event)
        self._events.extend(events)

    def finish(self, unit_id: str) -> Unit | None:
        """Everything that was recorded; nothing more can be. None if there is nothing to apply."""
        self._over = True
        if not (self._steps or self._submissions or self._closes or self._events):
            return None
        # What was expected may not be so a second time, because of this very unit or of another one.
        repeatable = all(step.statement.repeatable and step.expect is None for step in self._steps)
        unit = Unit(unit_id, tuple(self._steps), tuple(self._submissions), tuple(self._events), tuple(self._closes))
        unit = replace(unit, repeatable=repeatable or unit.reads)
        check_unit(unit)
        return unit

    def learn(self, done: UnitDone) -> None:
        """What became of it."""
        for opened, submitted in zip(self._opened, done.submitted, strict=True):
            opened.submitted = submitted
        if done.steps is None:
            for ran in self._ran:
                ran.lost = True
        else:
            for ran, step in zip(self._ran, done.steps, strict=True):
                ran.done = step

    def _check_account(self, what: str) -> None:
        self._check_open()
        if not self._tables.features.account:
            raise CallerError(
                f"{what} needs a store, and {self._tables.dialect} is none", "tables only; open the store beside it"
            )

    def _check_open(self) -> None:
        if self._over:
            raise CallerError("this unit of work is over", "open another one: async with engine.transaction()")
