"""Stops: a job in which too much died ends in the transaction that finds it.

A stop needs locks that come before those under which it is found. So a transaction that finds one without having
them is refused whole, and done again with the locks taken first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg

from headrace.adapters.postgres.calls import rows
from headrace.adapters.postgres.connections import Connection

MUST_STOP = "HR001"
T = TypeVar("T")


def with_stops(connection: Connection, fences: Sequence[int], work: Callable[[], T]) -> T:
    """Do something that may end items, in one transaction with the stops that follow from it."""
    jobs: list[str] = []
    while True:
        try:
            if not jobs:
                return work()
            with connection.transaction():
                rows(connection, "prepare_stops", (jobs, list(fences)))
                return work()
        except psycopg.Error as error:
            jobs.append(job_to_stop(error))


def job_to_stop(error: psycopg.Error) -> str:
    """The job that must stop, if that is why a transaction was refused; any other error is raised."""
    if error.diag.sqlstate != MUST_STOP or error.diag.message_detail is None:
        raise error
    return error.diag.message_detail
