"""Guards that the seeds of the simulation meet too seldom: without them, a test of the contract turns red."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store import SqliteStore
from headrace.testing.contracts import Bench, OperationsContract
from headrace.testing.passage import ManualClock, ManualPassage
from headrace.testing.simulation.bugs import changed
from headrace.testing.twins import turns_red


@dataclass(frozen=True, slots=True)
class Twin:
    """A statement in which a piece of text is another."""

    statement: str
    guard: str
    without: str
    noticed_by: Callable[..., Awaitable[None]]


TWINS = {
    "a job judged by its newest generation": Twin(
        "stage_sums",
        " WHERE job = :job",
        " WHERE job = :job AND generation = (SELECT max(generation) FROM headrace_stage WHERE job = :job)",
        OperationsContract.test_a_partial_redrive_leaves_a_failed_job_failed,
    ),
    "a redriven item that counts twice": Twin(
        "stage_sums",
        "sum(dead) - sum(redriven)",
        "sum(dead)",
        OperationsContract.test_a_job_leaves_failed_when_nothing_of_it_is_dead_any_more,
    ),
    "a letter put back that still counts as taken up": Twin(
        "stage_redriven",
        "SET redriven = :redriven",
        "SET redriven = max(redriven, :redriven)",
        OperationsContract.test_a_barrier_whose_generation_is_cancelled_first_stays_dead,
    ),
}


@pytest.mark.parametrize("name", TWINS)
async def test_a_missing_guard_is_noticed(name: str) -> None:
    twin, clock = TWINS[name], ManualClock()
    statements = changed(twin.statement, twin.guard, twin.without)(load_statements())
    bench = Bench(SqliteStore(InlineDatabase(), clock, statements), ManualPassage(clock))
    await turns_red(twin.noticed_by, bench=bench)
