"""Stores whose units of work lack a guard each; made from any store, so that every adapter's suite can prove itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.core.table_statements import Row, TableMigration, TableStatement
from headrace.core.units import StepDone, Unit, UnitDone
from headrace.ports.parts import Parts
from headrace.testing.contracts import TablesContract

Apply = Callable[[Parts, Unit], Awaitable[UnitDone]]


@dataclass(frozen=True, slots=True)
class Twin:
    """How a unit is wrongly applied, and the test that must notice."""

    apply: Apply
    noticed_by: Callable[..., Awaitable[None]]


class BrokenTables:
    """The tables of a store, with units applied in a wrong way."""

    def __init__(self, store: Parts, apply: Apply) -> None:
        self._store, self._apply = store, apply
        self.dialect, self.features = store.tables.dialect, store.tables.features

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        return await self._store.tables.read(statement, values)

    async def apply(self, unit: Unit) -> UnitDone:
        return await self._apply(self._store, unit)

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._store.tables.migrate(owner, migrations)


class BrokenStore:
    """A store that is broken in nothing but its tables."""

    def __init__(self, store: Any, apply: Apply) -> None:
        self._store = store
        self.tables = BrokenTables(store, apply)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def without_expectations(store: Parts, unit: Unit) -> UnitDone:
    return await store.tables.apply(replace(unit, steps=tuple(replace(step, expect=None) for step in unit.steps)))


async def events_before(store: Parts, unit: Unit) -> UnitDone:
    await store.outbox.add(unit.events)
    return await store.tables.apply(replace(unit, events=()))


async def closes_before(store: Parts, unit: Unit) -> UnitDone:
    for close in unit.closes:
        await store.close_external(close.job, close.stage, close.event_id)
    return await store.tables.apply(replace(unit, closes=()))


async def jobs_before(store: Parts, unit: Unit) -> UnitDone:
    submitted = tuple([await store.submit(submission) for submission in unit.submissions])
    done = await store.tables.apply(replace(unit, submissions=()))
    return UnitDone(done.steps, submitted)


async def batches_one_by_one(store: Parts, unit: Unit) -> UnitDone:
    ran = []
    for step in unit.steps:
        done = []
        for values in step.values:
            part = Unit("", (replace(step, values=(values,), expect=None),), repeatable=True)
            done.append(((await store.tables.apply(part)).steps or ())[0])
        ran.append(StepDone(tuple(row for each in done for row in each.rows), sum(each.count for each in done)))
    rest = await store.tables.apply(replace(unit, steps=()))
    return UnitDone(tuple(ran), rest.submitted)


async def without_a_mark(store: Parts, unit: Unit) -> UnitDone:
    return await store.tables.apply(replace(unit, repeatable=True))


TWINS = {
    "a write without its check": Twin(
        without_expectations, TablesContract.test_a_decision_that_was_overtaken_is_a_conflict_and_leaves_nothing
    ),
    "a decision lost among many": Twin(without_expectations, TablesContract.test_a_batch_is_whole_or_not_at_all),
    "an event outside of the commit": Twin(
        events_before, TablesContract.test_a_statement_that_is_refused_takes_everything_along
    ),
    "a job outside of the commit": Twin(
        jobs_before, TablesContract.test_a_statement_that_is_refused_takes_everything_along
    ),
    "an external stage closed outside of the commit": Twin(
        closes_before, TablesContract.test_rows_and_the_end_of_an_external_stage_are_one_commit
    ),
    "a batch in pieces": Twin(batches_one_by_one, TablesContract.test_a_batch_is_whole_or_not_at_all),
    "a repeat that is applied again": Twin(
        without_a_mark, TablesContract.test_a_unit_that_is_sent_again_is_applied_once
    ),
}
