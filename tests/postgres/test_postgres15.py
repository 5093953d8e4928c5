"""The contracts once more, on PostgreSQL 15: so many of them that every function of the schema is called there.

All of them, which takes minutes: `postgres15_whole.py`, by `make torture`.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import test_postgres_caller_transactions as callers
import test_postgres_choreography as choreography
import test_postgres_contracts as contracts
import test_postgres_lost_answers as lost_answers
import test_postgres_schedules as schedules
import test_postgres_sinks as sinks
import test_postgres_tables as tables
from postgres_databases import TEMPLATE, emptied

from headrace.testing.contracts import InspectorContract
from headrace.testing.contracts.early_stops import StoppingContract
from headrace.testing.contracts.random_walk import WanderingContract
from headrace.testing.contracts.redrives import RedrivingContract
from headrace.testing.contracts.submissions import SubmittingContract
from headrace.testing.rig.postgres import PostgresServer

UNCALLED = """
SELECT proname FROM pg_proc
  JOIN pg_language ON pg_language.oid = prolang
 WHERE pronamespace = 'headrace'::regnamespace AND lanname = 'plpgsql'
   AND pg_proc.oid NOT IN (SELECT funcid FROM pg_stat_user_functions)
 ORDER BY proname
"""


class On15:
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, one_database15: str) -> str:
        return one_database15


class TestPostgres15Store(
    On15,
    contracts.OpenHandles,
    SubmittingContract,
    RedrivingContract,
    StoppingContract,
    WanderingContract,
    InspectorContract,
):
    pass


class TestPostgres15Choreography(On15, choreography.TestPostgresChoreography):
    # Thousands of events, by functions that the others call too.
    test_any_number_that_are_held_hold_up_nothing = None


class TestPostgres15Schedules(On15, schedules.TestPostgresSchedules):
    pass


class TestPostgres15Sink(On15, sinks.TestPostgresSink):
    pass


@pytest.fixture
def postgres_url(one_database15: str) -> str:
    return emptied(one_database15)


test_a_lost_claim_is_granted_again = lost_answers.test_a_claim_whose_reply_is_lost_is_granted_again_under_its_fence
test_a_key_means_the_same_job = callers.test_of_two_at_once_under_one_key_one_makes_the_job


class TestPostgres15Tables(tables.TestPostgresTables):
    @pytest.fixture
    def postgres_url(self, postgres15: PostgresServer) -> Iterator[str]:
        """A database of its own: units work on tables that nobody empties."""
        with postgres15.database(TEMPLATE) as url:
            yield url


def test_every_function_of_the_schema_was_called_on_15(postgres15: PostgresServer, one_database15: str) -> None:
    assert str(postgres15.query("SHOW server_version")[0][0]).startswith("15.")
    # Those in SQL are mostly put into the statement that calls them, and are not counted.
    with psycopg.connect(one_database15) as connection:
        assert [name for (name,) in connection.execute(UNCALLED)] == []
