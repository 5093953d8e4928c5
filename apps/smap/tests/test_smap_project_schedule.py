"""Projects that are crawled again: once per due time, from where the last crawl ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from smap_office import EXAMPLE, START, Office, open_office
from waiting import eventually

import headrace
from headrace.ports import JobFilter
from headrace.schedules import FireOutcome
from headrace_smap.days import VIETNAM
from headrace_smap.project.creator import Creator
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.project.recrawls import FLOW, WAIT_S, Outcome, Recrawl, Recrawls, child_id, next_range, schedule_name
from headrace_smap.settings import SmapSettings


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


class Counted(Recrawls):
    """Tells how its jobs ended."""

    def __init__(self, office: Office, creator: Creator | None = None) -> None:
        super().__init__(office.parts, creator or office.desk.creator, office.calendar)
        self.outcomes: list[Outcome] = []

    async def crawl(self, recrawl: Recrawl, due: datetime) -> Outcome:
        outcome = await super().crawl(recrawl, due)
        self.outcomes.append(outcome)
        return outcome


async def fire_due(office: Office, instances: int = 1) -> int:
    """Services come, and go when nothing is due and every job has ended or waits; how many have ended."""
    services = [Counted(office) for _ in range(instances)]
    engine = office.parts.engine
    office.calendar.advance(seconds=WAIT_S)

    def ended(kind: type[Outcome]) -> int:
        return sum(isinstance(outcome, kind) for service in services for outcome in service.outcomes)

    async def at_rest() -> bool:
        # In this order: a schedule that fires in between is due, or its job is open.
        due = (await engine.store.schedules.due([FLOW])).schedules
        open_jobs = await engine.jobs(JobFilter(flow=FLOW, state="open"))
        return not due and ended(headrace.Snooze) == len(open_jobs)

    async with AsyncExitStack() as stack:
        for service in services:
            await stack.enter_async_context(engine.worker(service.flow))
        await eventually(at_rest, "nothing is due and every job has ended or waits")
    return ended(headrace.Done)


async def children(office: Office, parent: str) -> list[dict[str, Any]]:
    items = (await office.client.get("/projects", params={"limit": 200})).json()["items"]
    return [item for item in items if item["parent"] == parent]


async def scheduled(office: Office, **rhythm: float) -> str:
    project = await office.make(name="VF3", posts_max=9)
    await office.crawl(project, [])
    answer = await office.client.post(f"/projects/{project}/recrawl", json=rhythm)
    assert answer.status_code == 200, answer.text
    return project


async def submitted(office: Office, parent: str) -> Recrawl:
    """What the schedule of a project submits."""
    view = await office.parts.engine.schedules.get(schedule_name(parent))
    assert view is not None
    return Recrawl(parent, view.schedule.timetable)


async def test_a_due_project_is_crawled_again_since_its_last_range(office: Office) -> None:
    parent = await scheduled(office, every_days=1)
    assert await fire_due(office) == 0
    office.calendar.advance(days=1)
    assert await fire_due(office) == 1
    (child,) = await children(office, parent)
    assert child["date_range"] == ["2025-02-01", "2025-03-02"]
    assert (child["keywords"], child["targets"]) == (EXAMPLE["keywords"], EXAMPLE["targets"])
    assert (child["name"], child["posts_max"]) == ("VF3", 9)
    await office.crawl(child["id"], [])
    office.calendar.advance(days=1)
    assert await fire_due(office) == 1
    ranges = [item["date_range"] for item in await children(office, parent)]
    assert ranges == [["2025-03-02", "2025-03-03"], ["2025-02-01", "2025-03-02"]]
    await office.desk.relay.relay()
    told = [event["payload"] for event in await office.events() if event["topic"] == "project.created"]
    assert [payload.get("parent") for payload in told] == [None, parent, parent]
    plan = (await office.client.get(f"/projects/{parent}/recrawl")).json()
    assert (plan["runs"], plan["next_at"]) == (2, "2025-03-04T12:00:00.000Z")


async def test_what_fell_due_while_nobody_was_there_is_made_up_for_once(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=5, minutes=30)
    for _ in range(3):
        await fire_due(office)
    assert len(await children(office, parent)) == 1
    plan = (await office.client.get(f"/projects/{parent}/recrawl")).json()
    assert plan["next_at"] == "2025-03-01T18:00:00.000Z"


async def test_a_crawl_waits_until_the_one_before_has_ended(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    await fire_due(office)
    office.calendar.advance(hours=1)
    assert await fire_due(office) == 0
    (child,) = await children(office, parent)
    await office.crawl(child["id"], [])
    assert await fire_due(office) == 1
    assert len(await children(office, parent)) == 2


async def test_a_last_crawl_that_was_deleted_does_not_stop_the_next(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    await fire_due(office)
    (child,) = await children(office, parent)
    await office.client.delete(f"/projects/{child['id']}")
    await office.desk.deleter.sweep()
    office.calendar.advance(hours=1)
    assert await fire_due(office) == 1
    assert [item["date_range"][1] for item in await children(office, parent)] == ["2025-03-01"]


async def test_many_instances_fire_a_due_time_once(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    assert await fire_due(office, instances=5) == 1
    assert len(await children(office, parent)) == 1
    assert (await office.client.get(f"/projects/{parent}/recrawl")).json()["runs"] == 1


class Hasty(Creator):
    """A broken twin: whoever runs the job of a due time makes a project of its own."""

    made = 0

    async def create_crawl(self, project: str, order: AcceptedOrder) -> None:
        Hasty.made += 1
        await super().create_crawl(f"{project}-{Hasty.made}", order)


async def run_twice(office: Office, creator: Creator) -> int:
    """The process dies before it has settled the job, and the next one runs it again on another day."""
    parent = await scheduled(office, every_hours=1)
    recrawls = Recrawls(office.parts, creator, office.calendar)
    job, due = await submitted(office, parent), START + timedelta(hours=1)
    assert isinstance(await recrawls.crawl(job, due), headrace.Done)
    (child,) = await children(office, parent)
    await office.crawl(child["id"], [])
    office.calendar.advance(days=1)
    assert isinstance(await recrawls.crawl(job, due), headrace.Done)
    return len(await children(office, parent))


async def test_a_job_that_is_run_again_finds_its_project_made(office: Office) -> None:
    assert await run_twice(office, office.desk.creator) == 1


async def test_without_the_derived_id_a_due_time_would_make_two_projects(office: Office) -> None:
    assert await run_twice(office, Hasty(office.parts, office.calendar)) == 2


async def test_moments_that_come_while_a_crawl_waits_are_passed_over(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    for _ in range(4):
        office.calendar.advance(hours=1)
        await fire_due(office)
    view = await office.parts.engine.schedules.get(schedule_name(parent))
    assert view is not None
    fired, overlapped = FireOutcome.FIRED, FireOutcome.OVERLAPPED
    assert [fire.outcome for fire in view.fires] == [overlapped, overlapped, fired, fired]
    (child,) = await children(office, parent)
    await office.crawl(child["id"], [])
    assert await fire_due(office) == 1
    assert len(await children(office, parent)) == 2


@pytest.mark.parametrize("way", ["dropped", "changed", "deleted"])
async def test_a_crawl_that_waits_goes_with_its_schedule(way: str, office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    await fire_due(office)
    office.calendar.advance(hours=1)
    assert await fire_due(office) == 0
    match way:
        case "dropped":
            await office.client.delete(f"/projects/{parent}/recrawl")
        case "changed":
            await office.client.post(f"/projects/{parent}/recrawl", json={"every_hours": 2})
        case _:
            await office.client.delete(f"/projects/{parent}")
    (child,) = await children(office, parent)
    await office.crawl(child["id"], [])
    assert await fire_due(office) == 1
    assert len(await children(office, parent)) == 1


async def test_a_schedule_that_outlived_its_project_goes_when_it_fires(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    job = await submitted(office, parent)
    await office.client.delete(f"/projects/{parent}")
    engine, flow = office.parts.engine, office.desk.recrawls.flow
    await engine.schedules.set(schedule_name(parent), flow, job.timetable, payload=job)
    office.calendar.advance(hours=1)
    assert await fire_due(office) == 1
    assert await engine.schedules.get(schedule_name(parent)) is None
    assert await children(office, parent) == []


async def test_a_project_that_is_deleted_meanwhile_is_not_crawled_again(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    await office.client.delete(f"/projects/{parent}")
    order = AcceptedOrder(["VF3"], [], ["2025-02-01", "2025-03-01"], None, None, parent)
    await office.desk.creator.create_crawl(child_id(parent, START), order)
    assert await children(office, parent) == []


@pytest.mark.parametrize("project", ["a/b", "a@b", "x" * 200, "a\tb"])
async def test_a_project_of_any_id_has_a_schedule(project: str, office: Office) -> None:
    engine, flow = office.parts.engine, office.desk.recrawls.flow
    await engine.schedules.add(schedule_name(project), flow, "PT1H", payload=Recrawl(project, "PT1H"))
    assert await engine.schedules.get(schedule_name(project)) is not None
    assert schedule_name(project) != schedule_name(f"{project}2")


async def test_a_schedule_can_be_changed_and_dropped(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    await office.client.post(f"/projects/{parent}/recrawl", json={"every_s": 7_200})
    plan = (await office.client.get(f"/projects/{parent}")).json()["schedule"]
    assert (plan["every_s"], plan["next_at"], plan["runs"]) == (7_200, "2025-03-01T14:00:00.000Z", 0)
    for _ in range(2):
        assert (await office.client.delete(f"/projects/{parent}/recrawl")).status_code == 204
    office.calendar.advance(days=9)
    assert await fire_due(office) == 0


@pytest.mark.parametrize(
    "rhythm", [{}, {"every_s": 59}, {"every_hours": 0}, {"every_hours": 1, "every_days": 1}, {"often": 1}]
)
async def test_a_rhythm_that_makes_no_sense_is_refused(rhythm: dict[str, float], office: Office) -> None:
    project = await office.make()
    assert (await office.client.post(f"/projects/{project}/recrawl", json=rhythm)).status_code == 422


async def test_nobody_can_be_scheduled(office: Office) -> None:
    answer = await office.client.post("/projects/nobody/recrawl", json={"every_hours": 1})
    assert answer.status_code == 404


async def test_the_loop_fires_what_falls_due(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    stop = asyncio.Event()
    running = asyncio.ensure_future(office.desk.recrawls.run(stop))
    await eventually(lambda: children(office, parent), "it is fired")
    stop.set()
    await asyncio.wait_for(running, 60)


def test_a_due_time_has_one_id() -> None:
    assert child_id("p", START) == child_id("p", START.astimezone())
    assert child_id("p", START) != child_id("q", START)


@pytest.mark.parametrize(
    ("last", "created", "expected"),
    [
        (["2025-01-01", "2025-02-01"], None, ["2025-02-01", "2025-03-01"]),
        (["2025-01-01", "2026-01-01"], None, ["2025-03-01", "2025-03-01"]),
        ([], datetime(2025, 2, 10, tzinfo=UTC), ["2025-02-10", "2025-03-01"]),
        ({"from": 1}, datetime(2025, 2, 10, tzinfo=UTC), ["2025-02-10", "2025-03-01"]),
        (["x", "y"], None, ["2025-03-01", "2025-03-01"]),
    ],
)
def test_the_next_range_begins_where_the_last_ended(last: Any, created: datetime | None, expected: list[str]) -> None:
    assert next_range(last, created, datetime(2025, 2, 28, 17, tzinfo=UTC), VIETNAM) == expected
