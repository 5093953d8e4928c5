"""A fire through kill -9 before any of its statements, several processes at once, and lost answers."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from scheduler_cron import CutTables, WorldCron, cron_of
from scheduler_processes import Process, services
from scheduler_world import World, open_world
from test_scheduler_kills import Nursery, finish, nursery
from waiting import eventually, until

from headrace.errors import TryAgain
from headrace.schedules import Misfire
from headrace.tables import CassandraOptions
from headrace.testing.rig.proxy import Proxy
from headrace_scheduler.cron.cron_schedule import job_id_of
from headrace_scheduler.frame import FRAME
from headrace_scheduler.reconciler.reconciler import YOUNG
from headrace_scheduler.tables.all_tables import AllTables

__all__ = ["nursery"]
# claim; row of the fire; job of the schedule; find; lock; find; register, add, enqueue; release; confirm; forget
STATEMENTS = 12
QUICK = {"LOCK_TTL_MS": "1500", "WORKER_POLL_INTERVAL_MS": "100"}
WRITES = ("cron_claim", "fire_add", "job_register", "job_add", "fire_pending_add", "cron_confirm")
CONFIRMED_S_MAX = 60.0


def one_moment(world: World) -> tuple[datetime, str]:
    """A moment that has passed, and an expression that means it: another one comes in a year, and none while a test
    runs, whenever that is."""
    moment = world.clock().replace(second=0, microsecond=0) - timedelta(minutes=10)
    return moment, f"{moment.minute} {moment.hour} {moment.day} {moment.month} *"


async def all_confirmed(cron: WorldCron) -> None:
    """Look, and look again: after an error, and while the lock of a process that died is still held."""

    async def look() -> bool:
        try:
            await cron.firer.look()
        except TryAgain:
            return False
        found = [(each.marks, each.created_at) for each in await cron.rows.all()]
        return all(marks.open_at is None and marks.handled_at > since for marks, since in found)

    await eventually(look, "every fire is confirmed", CONFIRMED_S_MAX)


async def test_a_kill_at_any_statement_of_a_fire_leaves_one_job(
    world: World, environment: dict[str, str], nursery: Nursery, tmp_path: Path
) -> None:
    cron = cron_of(world)
    moment, expression = one_moment(world)
    schedules = [await cron.add(expression, moment - timedelta(minutes=30)) for _ in range(STATEMENTS + 1)]
    codes = await nursery.lives(*(("fire", environment, str(each), 0.0, n) for n, each in enumerate(schedules)))
    assert codes == [-signal.SIGKILL] * STATEMENTS + [0]
    await all_confirmed(cron)
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    effects = tmp_path / "effects"
    await finish(world, effects)
    wanted = {str(job_id_of(each, moment)): 1 for each in schedules}
    assert Counter(effects.read_text().split()) == wanted


def runs_of(api: Process, schedule_id: UUID) -> dict[str, list[str]]:
    """The states of the runs of every job that the schedule has fired."""
    fires = api.get(f"/schedules/{schedule_id}").json()["fires"]
    jobs = [fire["job_id"] for fire in fires]
    return {job: [run["status"] for run in api.get(f"/jobs/{job}/runs").json().get("runs", [])] for job in jobs}


async def test_workers_that_fire_side_by_side_and_are_killed_fire_each_moment_once(
    world: World, environment: dict[str, str], tmp_path: Path
) -> None:
    since = world.clock() - timedelta(minutes=12)
    schedule_id = await cron_of(world).add("* * * * *", since, misfire=Misfire.ALL)

    def watch() -> dict[str, list[str]]:
        with services({**environment, **QUICK}, tmp_path, "api", "worker", "worker", "reconciler") as (api, *rest):
            until(lambda: runs_of(api, schedule_id), "something has fired", CONFIRMED_S_MAX)
            rest[0].kill()

            def all_ran() -> dict[str, list[str]] | None:
                found = runs_of(api, schedule_id)
                done = len(found) >= 12 and all("completed" in states for states in found.values())
                return found if done else None

            return until(all_ran, lambda: f"every job ran: {runs_of(api, schedule_id)}", 2 * CONFIRMED_S_MAX)

    found = await asyncio.to_thread(watch)
    assert [job for job, states in found.items() if states.count("completed") != 1] == []


@pytest.fixture
def proxy(fault_proxy: Callable[[str], Proxy], cassandra_environment: dict[str, str]) -> Proxy:
    named = cassandra_environment
    keyspace, port = named["CASSANDRA_KEYSPACE"], named["CASSANDRA_PORT"]
    return fault_proxy(f"cassandra://{named['CASSANDRA_CONTACT_POINT']}:{port}/{keyspace}?local_dc=datacenter1")


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("name", WRITES)
async def test_a_lost_answer_makes_no_second_job_and_loses_none(
    name: str, lost: str, proxy: Proxy, cassandra_environment: dict[str, str], tmp_path: Path
) -> None:
    options = CassandraOptions.of(proxy.url)
    through = {"CASSANDRA_CONTACT_POINT": options.hosts[0], "CASSANDRA_PORT": str(options.port)}
    async with open_world(FRAME.load({**cassandra_environment, **through})) as world:

        def cut(values: dict[str, UUID]) -> None:
            key = values.get("job_id") or values["schedule_id"]
            (proxy.cut_reply_to if lost == "reply" else proxy.cut_before)(key.bytes)

        cut_tables = AllTables.on(CutTables(world.recorded, name, cut), world.clock)
        cron = cron_of(world, cut_tables)
        moment, expression = one_moment(world)
        schedule_id = await cron.add(expression, moment - timedelta(minutes=30))
        await all_confirmed(cron)
        assert proxy.cuts == 1
        effects = tmp_path / "effects"
        await finish(world, effects)
        assert effects.read_text().split() == [str(job_id_of(schedule_id, moment))]
