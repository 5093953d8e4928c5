"""What all processes on the same tables must agree on: into how many buckets jobs are spread.

A job stays in the bucket it was created in, so a changed count is no matter of moving rows: it must be known to all,
and buckets beyond a smaller count must still be looked into. Both are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import Conflict, SchemaMismatch
from headrace_scheduler.tables.job_tables import JobTables

BUCKETS, POLLED = "buckets", "buckets_polled"
CHANGES_MAX = 10


@dataclass(frozen=True, slots=True)
class Installation:
    """`buckets` for new jobs; `polled` is how many may hold some."""

    buckets: int
    polled: int


async def installation(tables: JobTables, buckets: int) -> Installation:
    """What is recorded, which is this if nothing was. `SchemaMismatch` if it is something else."""
    recorded = await _recorded(tables, BUCKETS, buckets)
    if recorded != buckets:
        raise SchemaMismatch(
            f"WORKER_BUCKETS = {buckets}, and the tables were made for {recorded}",
            f"set WORKER_BUCKETS={recorded}, or change it for all: headrace scheduler schema --buckets {buckets}",
        )
    return Installation(buckets, await _recorded(tables, POLLED, buckets))


async def change_buckets(tables: JobTables, buckets: int) -> Installation:
    """Record another count. Processes that run with the one before go on until they are started again."""
    polled = await _changed(tables, POLLED, lambda before: max(before, buckets), buckets)
    return Installation(await _changed(tables, BUCKETS, lambda _: buckets, buckets), polled)


async def _recorded(tables: JobTables, name: str, first: int) -> int:
    found = await tables.rows("setting_value", name=name)
    if not found:
        await tables.rows("setting_record", name=name, value=str(first))
        found = await tables.rows("setting_value", name=name)
    return int(found[0][0])


async def _changed(tables: JobTables, name: str, wanted: Callable[[int], int], first: int) -> int:
    for _ in range(CHANGES_MAX):
        before = await _recorded(tables, name, first)
        value = wanted(before)
        if value == before:
            return value
        await tables.rows("setting_change", name=name, value=str(value), before=str(before))
    raise Conflict(f"somebody else changes {name} at the same time", "try again")
