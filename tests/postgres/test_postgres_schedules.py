"""Schedules on PostgreSQL keep their contract, with several handles on one database."""

from __future__ import annotations

import pytest
from postgres_handles import SharedHandles

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.errors import Unknown
from headrace.testing.contracts import SchedulesContract
from headrace.testing.contracts.schedules import NIGHTLY, firing, jobs, seen
from headrace.testing.rig.proxy import Proxy


class TestPostgresSchedules(SharedHandles, SchedulesContract): ...


@pytest.mark.parametrize(("cut", "fired_before"), [("cut_reply_to", 1), ("cut_before", 0)])
async def test_a_fire_whose_commit_is_not_answered_is_made_once(
    store: PostgresStore, far: PostgresStore, line: Proxy, cut: str, fired_before: int
) -> None:
    await far.schedules.add(NIGHTLY)
    due = await seen(far)
    getattr(line, cut)(b"COMMIT")
    with pytest.raises(Unknown):
        await far.schedules.fire(firing(due, due.handled_ms + 1, job="first"))
    assert (line.cuts, await jobs(store)) == (1, fired_before)
    (fire,) = await far.schedules.fire(firing(due, due.handled_ms + 1, job="second"))
    assert fire.job == ("first" if fired_before else "second")
    assert await jobs(store) == 1
