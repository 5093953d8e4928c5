"""What the tests of open transactions share: a table of effects, and a way to run a job."""

from __future__ import annotations

from typing import Any

import psycopg

from headrace import Engine, Flow, RetryPolicy, WorkerOptions

TABLE = "CREATE TABLE charge (item integer PRIMARY KEY, UNIQUE (item) DEFERRABLE INITIALLY DEFERRED)"
CHARGE = "INSERT INTO charge (item) VALUES (%s)"
EXPIRE = "UPDATE headrace.claim SET until = clock_timestamp() - interval '1 second' WHERE fence = %s"
SHORT = WorkerOptions(hold_s=2.0, poll_s=0.05, partial_s=0.05, grace_s=0.2)
TWICE = RetryPolicy(attempts_max=2, first_s=0)
ONCE = RetryPolicy(attempts_max=1)
WAIT_S = 20.0
PATIENT = WorkerOptions(hold_s=30.0, poll_s=0.05)


def query(url: str, statement: str, *values: Any) -> list[Any]:
    """In a transaction of the test's own."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(statement.encode(), values or None)
        return found.fetchall() if found.description else []


def charges(url: str) -> list[int]:
    return [item for (item,) in query(url, "SELECT item FROM charge ORDER BY item")]


async def run(engine: Engine, flow: Flow, *items: int, options: WorkerOptions = SHORT) -> Any:
    async with engine.worker(flow, options=options):
        view = await engine.wait(await engine.submit_many(flow, items), WAIT_S)
    assert await engine.verify(view.id) == []
    return view
