"""Schedules in a worker: which moments fire, when, and what their items are."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from waiting import eventually

from headrace import Flow, connect
from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.errors import CallerError, Conflict, InvalidFlow, InvalidPayload
from headrace.core.jobs import JobFilter
from headrace.core.schedules import DueSchedule, Misfire, Overlap, Schedule, jitter_ms
from headrace.runtime.declared_schedules import declared_schedules
from headrace.runtime.observe import Observer
from headrace.runtime.scheduler import Scheduler
from headrace.runtime.seams import Seams
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions, Yard
from headrace.testing.passage import ManualClock
from headrace.testing.simulation.loop import Process, VirtualLoop
from headrace.testing.simulation.seams import CountedIdentity, VirtualClock, VirtualThreads

MINUTE_MS = 60_000
NOON_MS = 1_794_830_400_000
MINUTELY = Schedule("minutely", "ticking", "* * * * *")


def ticking(name: str = "ticking") -> Flow:
    flow = Flow(name)

    @flow.stage
    async def tick(moment: str) -> None: ...

    return flow


def scheduler(flow: Flow | None = None) -> Scheduler:
    yard = Yard(Seams(), WorkerOptions(), Observer("w"))
    return Scheduler(SqliteStore(InlineDatabase(), ManualClock()).schedules, [flow or ticking()], "w", yard)


def due(schedule: Schedule, handled_ms: int, asked_ms: int | None = None, running: bool = True) -> DueSchedule:
    return DueSchedule(schedule, 7, handled_ms, asked_ms, running)


def moments(schedule: Schedule, handled_ms: int, now_ms: int) -> tuple[list[int], int, int]:
    """What fires, in minutes since noon; how many are missed; how far the schedule is handled."""
    firing = scheduler().decide(due(schedule, handled_ms), now_ms)
    assert (firing.revision, firing.seen_ms) == (7, handled_ms)
    fired = [(fire.moment_ms - NOON_MS) // MINUTE_MS for fire in firing.fires]
    return fired, firing.missed, (firing.handled_ms - NOON_MS) // MINUTE_MS


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        (Misfire.SKIP, ([9, 10], 8, 10)),
        (Misfire.ONCE, ([10], 9, 10)),
        (Misfire.ALL, ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0, 10)),
    ],
)
def test_a_misfire_is_dealt_with_as_declared(misfire: Misfire, expected: tuple[list[int], int, int]) -> None:
    schedule = Schedule("minutely", "ticking", "* * * * *", misfire=misfire)
    assert moments(schedule, NOON_MS, NOON_MS + 10 * MINUTE_MS) == expected
    assert moments(schedule, NOON_MS, NOON_MS + MINUTE_MS + 59_000) == ([1], 0, 1)
    assert moments(schedule, NOON_MS, NOON_MS + MINUTE_MS - 1) == ([], 0, 0)


def test_so_many_are_made_up_for_and_no_more() -> None:
    schedule = Schedule("minutely", "ticking", "* * * * *", misfire=Misfire.ALL)
    fired, missed, handled = moments(schedule, NOON_MS, NOON_MS + 1_440 * MINUTE_MS)
    assert (len(fired), fired[-1], handled) == (100, 1_440, 1_440)
    assert missed == 900
    assert moments(schedule, NOON_MS - 365 * 1_440 * MINUTE_MS, NOON_MS)[0][-1] == 0


def test_a_clock_that_was_set_back_makes_the_schedule_wait_for_the_clock_and_not_for_what_was_handled() -> None:
    firing = scheduler().decide(due(MINUTELY, NOON_MS + 60 * MINUTE_MS), NOON_MS + 500)
    assert (firing.fires, firing.handled_ms, firing.due_ms) == ((), NOON_MS + 500, NOON_MS + MINUTE_MS)


def test_jitter_is_drawn_from_the_moment() -> None:
    schedule = Schedule("minutely", "ticking", "* * * * *", jitter_s=30.0)
    drawn = [jitter_ms(schedule, NOON_MS + minute * MINUTE_MS) for minute in range(100)]
    assert drawn == [jitter_ms(schedule, NOON_MS + minute * MINUTE_MS) for minute in range(100)]
    assert min(drawn) >= 0
    assert max(drawn) < 30_000
    assert len(set(drawn)) > 90
    late = NOON_MS + MINUTE_MS + jitter_ms(schedule, NOON_MS + MINUTE_MS)
    assert moments(schedule, NOON_MS, late - 1) == ([], 0, 0)
    assert moments(schedule, NOON_MS, late) == ([1], 0, 1)
    assert scheduler().decide(due(schedule, NOON_MS), NOON_MS).due_ms == late


@pytest.mark.parametrize(("when", "gap_s"), [("* * * * *", 60), ("0,5 3 * * *", 300), ("PT10S", 10)])
def test_a_jitter_that_reaches_the_next_moment_is_refused(when: str, gap_s: int) -> None:
    """Two moments would be due at once, and one of them would count as missed though a worker runs."""
    short, long = ticking(), ticking()
    short.every(when, jitter_s=gap_s - 0.5)
    long.every(when, jitter_s=gap_s)
    assert [schedule.jitter_s for schedule in declared_schedules(short)] == [gap_s - 0.5]
    with pytest.raises(CallerError, match="between two of its moments"):
        declared_schedules(long)


def test_an_operators_fire_of_a_paused_schedule_moves_nothing() -> None:
    firing = scheduler().decide(due(MINUTELY, NOON_MS, asked_ms=4_711, running=False), NOON_MS + 10 * MINUTE_MS)
    assert [(fire.moment_ms, fire.manual) for fire in firing.fires] == [(4_711, True)]
    assert (firing.handled_ms, firing.missed) == (NOON_MS, 0)


def test_a_flow_with_several_roots_must_be_told_which() -> None:
    flow = ticking()

    @flow.stage
    async def tock(moment: str) -> None: ...

    (fire,) = scheduler(flow).decide(due(MINUTELY, NOON_MS), NOON_MS + MINUTE_MS).fires
    assert (fire.submission, "several root stages" in fire.reason) == (None, True)
    said = Schedule("a", "ticking", "* * * * *", stage="tock")
    (fire,) = scheduler(flow).decide(due(said, NOON_MS), NOON_MS + MINUTE_MS).fires
    assert fire.submission is not None
    assert fire.submission.parcels[0].stage == "tock"


def test_a_declaration_says_everything() -> None:
    flow = Flow("digest")

    @flow.every(
        "0 6 * * 1-5",
        tz="Asia/Ho_Chi_Minh",
        misfire="all",
        jitter_s=5,
        overlap=Overlap.SKIP,
        payload=[1],
        tenant="acme",
    )
    @flow.stage
    async def find(numbers: Any) -> None: ...

    flow.every(timedelta(minutes=5), name="often", payload=None)
    first, second = declared_schedules(flow)
    assert first == Schedule(
        "digest",
        "digest",
        "0 6 * * 1-5",
        "Asia/Ho_Chi_Minh",
        b"\x91\x01",
        "find",
        Misfire.ALL,
        Overlap.SKIP,
        5.0,
        "acme",
    )
    assert (second.name, second.timetable, second.payload, second.stage) == ("often", "PT300S", b"\xc0", "find")
    assert find.__name__ == "find"


def test_a_declaration_that_cannot_work_is_refused_with_words() -> None:
    flow = Flow("digest")
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("* * * *", {}, "5 fields"),
        ("* * * * *", {"tz": "Asia/Atlantis"}, "no time zone"),
        ("* * * * *", {"misfire": "twice"}, "once, all"),
        ("* * * * *", {"overlap": "queue"}, "allow, "),
        ("* * * * *", {"jitter": 5}, "no option 'jitter'"),
    ]
    for when, options, words in wrong:
        with pytest.raises(InvalidFlow, match=words):
            flow.every(when, **options)
    assert flow.declarations == ()


def test_a_declaration_fits_its_stage() -> None:
    flow = Flow("digest")
    flow.every("* * * * *")

    @flow.stage
    async def find(count: int) -> None: ...

    with pytest.raises(InvalidFlow, match=r"gives the moment to find.*expected int"):
        declared_schedules(flow)
    twice = ticking()
    twice.every("* * * * *")
    twice.every("0 * * * *")
    with pytest.raises(InvalidFlow, match="two schedules called 'ticking'"):
        declared_schedules(twice)
    unfit = ticking()
    unfit.every("* * * * *", payload=5)
    with pytest.raises(InvalidPayload, match="expected str"):
        declared_schedules(unfit)
    stray = ticking()
    stray.every("* * * * *")(test_a_declaration_fits_its_stage)
    with pytest.raises(InvalidFlow, match="is not a stage"):
        Worker(SqliteStore(InlineDatabase(), ManualClock()), [stray])


class CountingDatabase(InlineDatabase):
    """An idle worker reads nothing but what is due."""

    reads = 0

    async def read(self, work: Any) -> Any:
        self.reads += 1
        return await super().read(work)


def hours(database: InlineDatabase, flow: Flow, count: int, *beside: Schedule) -> None:
    """So many hours of a worker in virtual time, with these schedules beside those of its flow, each asked to run."""
    loop = VirtualLoop(Random(1))
    clock, process = VirtualClock(loop), Process("worker")
    store = SqliteStore(database, clock)
    seams = Seams(clock, Random(2), CountedIdentity("w"), VirtualThreads(loop, process, Random(3)))

    async def begin() -> None:
        for schedule in beside:
            await store.schedules.add(schedule)
            await store.schedules.run(schedule.name, 4_711)
        loop.spawn(process, Worker(store, [flow], seams).run())

    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(loop.spawn(loop.system, begin()))
        loop.elapse(count * 3_600.0)
    finally:
        asyncio.set_event_loop(None)
        loop.bury()


def test_an_idle_worker_fires_within_a_second_and_does_not_poll_tightly() -> None:
    """An hour of every minute, in virtual time: when each fire was made, and how often the store was asked."""
    database, flow = CountingDatabase(), ticking()
    flow.every("* * * * *")
    hours(database, flow, 1)
    rows = database.connection.execute("SELECT moment_ms, fired_at FROM headrace_fire").fetchall()
    drift = [fired_at - moment / 1_000 for moment, fired_at in rows]
    assert len(rows) == 60
    assert min(drift) >= 0
    assert max(drift) < 0.1
    assert database.reads < 1.1 * 3_600


def test_what_a_worker_cannot_read_is_left_to_others_as_it_is() -> None:
    """A worker without this time zone must not make those wait who have it, nor ask all the time."""
    database, flow = CountingDatabase(), ticking()
    flow.every("0 * * * *")
    hours(database, flow, 2, Schedule("abroad", "ticking", "* * * * *", tz="Mars/Olympus"))
    (left,) = database.connection.execute("SELECT due_ms, asked_ms FROM headrace_schedule WHERE name = 'abroad'")
    assert left == (None, 4_711)
    assert len(database.connection.execute("SELECT 1 FROM headrace_fire").fetchall()) == 2, "the others fire"
    assert database.reads < 1.1 * 7_200


async def test_a_schedule_submits_jobs_that_know_their_moment(tmp_path: Path) -> None:
    seen: list[datetime] = []
    flow = Flow("seconds")

    @flow.every(timedelta(seconds=1), tz="Asia/Ho_Chi_Minh")
    @flow.stage
    async def note(moment: datetime) -> None:
        seen.append(moment)

    async with connect(f"sqlite:///{tmp_path}/jobs.db") as engine:
        async with engine.worker(flow):
            await eventually(lambda: len(seen) >= 2, "two moments fire")
            assert [view.state for view in await engine.schedules.list()] == ["active"]
        assert [view.state for view in await engine.schedules.list()] == ["no worker"]
        jobs = await engine.jobs(JobFilter(flow="seconds"))
    assert seen == sorted(set(seen))
    assert [moment.microsecond for moment in seen] == [0] * len(seen)
    assert seen[0].utcoffset() == timedelta(hours=7)
    first = seen[0].astimezone(ZoneInfo("UTC")).isoformat()
    assert jobs[-1].key == f"seconds@{first}"


async def test_a_program_adds_runs_pauses_and_removes(tmp_path: Path) -> None:
    seen: list[Any] = []
    flow = Flow("noting")

    @flow.stage
    async def note(word: str) -> None:
        seen.append(word)

    async with connect(f"sqlite:///{tmp_path}/jobs.db") as engine:
        with pytest.raises(InvalidPayload):
            await engine.schedules.add("yearly", flow, "0 0 1 1 *", payload=5)
        with pytest.raises(CallerError, match="misfire"):
            await engine.schedules.add("yearly", flow, "0 0 1 1 *", misfire="never")  # type: ignore[arg-type]
        await engine.schedules.add("yearly", flow, "0 0 1 1 *", payload="hello")
        await engine.schedules.add("yearly", flow, "0 0 1 1 *", payload="hello")
        await engine.schedules.add("named", "noting", timedelta(days=1), payload="by name")
        with pytest.raises(Conflict):
            await engine.schedules.add("yearly", flow, "0 0 2 1 *")
        await engine.schedules.set("yearly", flow, "0 0 2 1 *", payload="hello")
        yearly = await engine.schedules.get("yearly")
        assert yearly is not None
        assert yearly.schedule.timetable == "0 0 2 1 *"
        assert await engine.schedules.get("monthly") is None
        assert [view.state for view in await engine.schedules.list()] == ["no worker", "no worker"]
        assert await engine.schedules.pause("named")
        assert await engine.schedules.run("yearly")
        assert await engine.schedules.run("named")
        async with engine.worker(flow):
            await eventually(lambda: len(seen) == 2, "both are run")
            assert await engine.schedules.resume("named")
            assert await engine.schedules.remove("named")
            assert not await engine.schedules.remove("named")
        assert sorted(seen) == ["by name", "hello"]
        (left,) = await engine.schedules.list()
        assert [fire.manual for fire in left.fires] == [True]


async def test_of_two_workers_that_fire_each_tells_its_own(tmp_path: Path) -> None:
    flow = ticking()
    flow.every(timedelta(seconds=1))
    async with connect(f"sqlite:///{tmp_path}/jobs.db") as engine:
        async with engine.worker(flow) as one, engine.worker(flow) as two:
            await eventually(lambda: _told(one) + _told(two) >= 3, "three moments fire")
        (view,) = await engine.schedules.list()
        jobs = await engine.jobs(JobFilter(flow="ticking"))
    # What was under way when they stopped may be told by nobody.
    assert len(jobs) - 2 <= _told(one) + _told(two) <= len(jobs)
    assert view.missed == 0


def _told(worker: Worker) -> int:
    return worker.observer.counts["schedule.fired"]


async def test_two_flows_that_declare_one_name_are_refused_when_the_second_worker_starts() -> None:
    store = SqliteStore(InlineDatabase(), ManualClock())
    await store.schedules.declare("w", ["ticking"], [MINUTELY])
    other = ticking("other")
    other.every("* * * * *", name="minutely")
    with pytest.raises(Conflict, match="minutely") as refused:
        await asyncio.wait_for(Worker(store, [other]).run(), 10.0)
    assert "headrace schedules remove minutely" in refused.value.hint
