"""Projects that are crawled again: once per due time, from where the last crawl ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from smap_office import EXAMPLE, START, Office, open_office
from waiting import eventually

from headrace_smap.project.creator import Creator
from headrace_smap.project.scheduling import Scheduler, child_id, next_range
from headrace_smap.settings import Settings


@pytest.fixture
async def office(embedded: Settings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def children(office: Office, parent: str) -> list[dict[str, Any]]:
    items = (await office.client.get("/projects", params={"limit": 200})).json()["items"]
    return [item for item in items if item["parent"] == parent]


async def scheduled(office: Office, **rhythm: float) -> str:
    project = await office.make(name="VF3", posts_max=9)
    await office.crawl(project, [])
    answer = await office.client.post(f"/projects/{project}/recrawl", json=rhythm)
    assert answer.status_code == 200, answer.text
    return project


async def test_a_due_project_is_crawled_again_since_its_last_range(office: Office) -> None:
    parent = await scheduled(office, every_days=1)
    assert await office.desk.scheduler.fire_due() == 0
    office.calendar.advance(days=1)
    assert await office.desk.scheduler.fire_due() == 1
    (child,) = await children(office, parent)
    assert child["date_range"] == ["2025-02-01", "2025-03-02"]
    assert (child["keywords"], child["targets"]) == (EXAMPLE["keywords"], EXAMPLE["targets"])
    assert (child["name"], child["posts_max"]) == ("VF3", 9)
    await office.crawl(child["id"], [])
    office.calendar.advance(days=1)
    assert await office.desk.scheduler.fire_due() == 1
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
        await office.desk.scheduler.fire_due()
    assert len(await children(office, parent)) == 1
    plan = (await office.client.get(f"/projects/{parent}/recrawl")).json()
    assert plan["next_at"] == "2025-03-01T18:00:00.000Z"


async def test_a_crawl_waits_until_the_one_before_has_ended(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    await office.desk.scheduler.fire_due()
    office.calendar.advance(hours=1)
    assert await office.desk.scheduler.fire_due() == 0
    (child,) = await children(office, parent)
    await office.crawl(child["id"], [])
    assert await office.desk.scheduler.fire_due() == 1
    assert len(await children(office, parent)) == 2


async def test_a_last_crawl_that_was_deleted_does_not_stop_the_next(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    await office.desk.scheduler.fire_due()
    (child,) = await children(office, parent)
    await office.client.delete(f"/projects/{child['id']}")
    await office.desk.deleter.sweep()
    office.calendar.advance(hours=1)
    assert await office.desk.scheduler.fire_due() == 1
    assert [item["date_range"][1] for item in await children(office, parent)] == ["2025-03-01"]


async def test_many_instances_fire_a_due_time_once(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    schedulers = [Scheduler(office.world, office.desk.creator, office.calendar) for _ in range(5)]
    await asyncio.gather(*(scheduler.fire_due() for scheduler in schedulers))
    assert len(await children(office, parent)) == 1
    assert (await office.client.get(f"/projects/{parent}/recrawl")).json()["runs"] == 1


class Hasty(Creator):
    """A broken twin: whoever looks at a due time makes a project of its own."""

    made = 0

    async def fire(self, project: str, order: Any, firing: Any) -> bool:
        Hasty.made += 1
        return await super().fire(f"{project}-{Hasty.made}", order, firing)

    def _steps(self, project: str, order: Any, origin: str, due: Any = None) -> Any:
        return super()._steps(project, order, origin, None)


async def test_without_the_derived_id_a_due_time_would_fire_twice(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    office.calendar.advance(hours=1)
    creator = Hasty(office.world, office.desk.accountant, office.desk.relay, office.calendar)
    schedulers = [Scheduler(office.world, creator, office.calendar) for _ in range(2)]
    await asyncio.gather(*(scheduler.fire_due() for scheduler in schedulers))
    assert len(await children(office, parent)) == 2


async def test_a_schedule_can_be_changed_and_dropped(office: Office) -> None:
    parent = await scheduled(office, every_hours=1)
    await office.client.post(f"/projects/{parent}/recrawl", json={"every_s": 7_200})
    plan = (await office.client.get(f"/projects/{parent}")).json()["schedule"]
    assert (plan["every_s"], plan["next_at"], plan["runs"]) == (7_200, "2025-03-01T14:00:00.000Z", 0)
    for _ in range(2):
        assert (await office.client.delete(f"/projects/{parent}/recrawl")).status_code == 204
    office.calendar.advance(days=9)
    assert await office.desk.scheduler.fire_due() == 0


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
    running = asyncio.ensure_future(office.desk.scheduler.run(stop))
    await eventually(lambda: children(office, parent), "it is fired")
    stop.set()
    await asyncio.wait_for(running, 5)


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
    assert next_range(last, created, date(2025, 3, 1)) == expected
