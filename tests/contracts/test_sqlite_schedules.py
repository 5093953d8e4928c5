"""Schedules on SQLite keep their contract, in memory and in a file that handles share; and each guard is needed."""

from __future__ import annotations

import pytest
from sqlite_handles import InAFile

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store import SqliteStore
from headrace.ports.parts import Parts
from headrace.testing.contracts import SchedulesContract
from headrace.testing.passage import ManualClock, ManualPassage
from headrace.testing.twins import turns_red


class TestSqliteInline(SchedulesContract):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> Parts:
        return SqliteStore(InlineDatabase(), clock)


class TestSqliteInAFile(InAFile, SchedulesContract): ...


TWINS = {
    "a firing is applied to a schedule that another has advanced": (
        "schedule_advance",
        "AND handled_ms = :seen_ms",
        "AND :seen_ms > 0",
        "test_a_firing_on_an_older_sight_changes_nothing",
    ),
    "a firing is applied to a schedule that was changed": (
        "schedule_advance",
        "AND revision = :revision",
        "AND :revision > 0",
        "test_what_is_not_declared_any_more_does_not_fire",
    ),
    "a pause is not seen": (
        "schedule_pause",
        "revision = revision + 1",
        "revision = revision",
        "test_a_paused_schedule_does_not_fire_and_resumes_from_now",
    ),
    "an open job is not seen": (
        "job_is_open",
        "SELECT state = 'open'",
        "SELECT 0",
        "test_a_moment_is_passed_over_while_the_job_before_is_open",
    ),
    "the job of a fire is not remembered": (
        "schedule_last_job",
        "last_job = :job",
        "last_job = substr(:job, 1, 0)",
        "test_a_moment_is_passed_over_while_the_job_before_is_open",
    ),
    "a pause is made up for": (
        "schedule_resume",
        "handled_ms = :now_ms",
        "handled_ms = min(handled_ms, :now_ms)",
        "test_a_paused_schedule_does_not_fire_and_resumes_from_now",
    ),
    "a wish is granted twice": (
        "schedule_ask",
        "f.moment_ms = :moment_ms",
        "f.moment_ms = -:moment_ms",
        "test_an_operator_asks_for_one_fire",
    ),
    "a second wish replaces the first": (
        "schedule_ask",
        "AND (asked_ms IS NULL OR asked_ms = :moment_ms)",
        "",
        "test_an_operator_asks_for_one_fire",
    ),
    "a clock that was set back is not noticed": (
        "schedules_due",
        "OR handled_ms > :now_ms + :ahead_ms",
        "OR :now_ms + :ahead_ms < 0",
        "test_a_moment_that_has_its_row_is_left_alone_when_the_clock_goes_back",
    ),
    "a schedule that was added is undeclared": (
        "schedules_undeclare",
        "origin = 'declared' AND",
        "",
        "test_what_is_not_declared_any_more_does_not_fire",
    ),
    "fires are kept for ever": (
        "fires_prune",
        "moment_ms < :before_ms",
        "moment_ms < -:before_ms",
        "test_fires_are_forgotten_after_their_time",
    ),
    "a worker that is gone attends": (
        "schedule_list",
        "AND w.seen >= :now - w.hold_s",
        "AND :now > 0",
        "test_a_schedule_says_whether_a_worker_has_its_flow",
    ),
}


@pytest.mark.parametrize("bug", TWINS)
async def test_a_missing_guard_is_noticed(bug: str) -> None:
    statement, guard, instead, noticed_by = TWINS[bug]
    statements = load_statements()
    assert guard in statements[statement]
    statements[statement] = statements[statement].replace(guard, instead)
    await noticed(statements, noticed_by)


async def test_a_moment_that_is_fired_in_spite_of_its_row_is_noticed() -> None:
    statements = load_statements()
    statements["fire_known"] += " AND false"
    statements["fire_insert"] = statements["fire_insert"].replace("INSERT INTO", "INSERT OR REPLACE INTO")
    await noticed(statements, "test_a_moment_that_has_its_row_is_left_alone_when_the_clock_goes_back")


async def noticed(statements: dict[str, str], by: str) -> None:
    clock = ManualClock()
    store = SqliteStore(InlineDatabase(), clock, statements)
    await turns_red(getattr(SchedulesContract, by), store=store, passage=ManualPassage(clock), handles=[store])
