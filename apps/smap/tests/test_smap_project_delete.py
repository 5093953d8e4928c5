"""A deleted project takes everything with it that is its own, and nothing that is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import apsw
import pytest
from smap_office import EXAMPLE, Office, open_office
from waiting import eventually

from headrace.errors import NotFound, Unreachable
from headrace_smap.collector.blob_names import blob_path
from headrace_smap.count.accountant import ItemEnd
from headrace_smap.project import deleter
from headrace_smap.project.deleter import AGAIN_S, Deleter
from headrace_smap.project.recrawls import schedule_name
from headrace_smap.settings import SmapSettings

TABLES = ("projects", "smap_order", "smap_retry", "smap_found", "smap_crawl", "smap_item", "post_analytics")
TABLES += ("smap_shown", "smap_aggregate", "smap_insight_seen", "smap_notice", "smap_attempt", "headrace_schedule")
TABLES += ("smap_alert", "smap_receivers")


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def filled(office: Office, project: str, paths: Iterable[str]) -> None:
    """A project as all four services leave it."""
    notice = {"channel": "mail", "receiver": "", "notice_id": f"n {project}"}
    now, found = office.calendar.now, list(paths)
    await office.desk.accountant.expect(project, len(found))
    await office.desk.accountant.settle([ItemEnd(project, path) for path in found[:-1]])
    await office.client.get(f"/projects/{project}/progress")
    await office.crawl(project, found[:-1], found[-1:])
    await office.analyse(project, found[:-1])
    task = {"task": "t", "position": 0, "platform": "tiktok", "keyword": "a", "url": "", "day": "", "document": "{}"}
    crawled = [{**task, "state": "waiting", "error": None}]
    told = [
        {"project_id": project, "item": path, "platform": "tiktok", "sentiment": "neutral", "risk": "LOW"}
        for path in found
    ]
    await office.parts.database.transact(
        ("crawl_plan", {"project": project, "rows": crawled, "now": now}),
        ("begin_attempts", {"rows": told[:1], "charge": "c", "now": now}),
        ("aggregate_add", {"rows": told}),
        ("aggregate_see", {"rows": told}),
        ("notice_add", {"project": project, "rows": [notice], "now": now}),
        ("alert_add", {"rows": [{**told[0], "level": "HIGH"}], "now": now}),
        ("receivers_set", {"project": project, "receivers": {"mail": ["an@x.vn"]}}),
    )
    await office.client.post(f"/projects/{project}/recrawl", json={"every_hours": 1})
    await office.desk.retrier.retry(project, "seed")
    for path in found:
        await office.parts.blobs.put(path, b"{}")


async def left(office: Office, project: str) -> dict[str, int]:
    """Rows that name the project, by table."""
    path = office.parts.settings.home / "smap.db"
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = {}
    for table in TABLES:
        column = {"projects": "id", "headrace_schedule": "name"}.get(table, "project_id")
        name = schedule_name(project) if table == "headrace_schedule" else project
        ((count,),) = connection.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (name,))
        found[table] = count
    connection.close()
    return {table: count for table, count in found.items() if count}


async def has_blob(office: Office, path: str) -> bool:
    try:
        await office.parts.blobs.get(path, 100)
    except NotFound:
        return False
    return True


async def test_everything_of_a_project_goes_and_of_others_stays(office: Office) -> None:
    gone, kept = await office.make(), await office.make()
    own = [blob_path("tiktok", gone, f"v{number}") for number in range(5)]
    await filled(office, gone, [*own, "raw/shared.json"])
    await filled(office, kept, ["raw/other.json", "raw/shared.json"])
    stray = blob_path("tiktok", gone, "never-written-down")
    await office.parts.blobs.put(stray, b"{}")
    before = await left(office, kept)
    assert set(before) | {"smap_found"} == set(TABLES)
    assert (await office.client.delete(f"/projects/{gone}")).status_code == 204
    for path in ("", "/progress", "/failures", "/export"):
        assert (await office.client.get(f"/projects/{gone}{path}")).status_code == 404
    assert [item["id"] for item in (await office.client.get("/projects")).json()["items"]] == [kept]
    assert await office.desk.deleter.sweep()
    assert await left(office, gone) == {}
    assert [await has_blob(office, path) for path in (*own, stray)] == [False] * 6
    assert await office.parts.ledger.tally(gone) is None
    assert await left(office, kept) == before
    # Of the one that is kept: that it was made, and a post that is tried again.
    await office.events()
    assert await office.desk.relay.relay() == 2
    assert {event["payload"]["project_id"] for event in await office.events()} == {kept}
    assert await has_blob(office, "raw/shared.json")
    assert await has_blob(office, "raw/other.json")
    assert (await office.client.get(f"/projects/{kept}/progress")).json()["status"] == "DONE"


async def test_deleting_again_is_the_same_and_the_id_is_not_given_away(office: Office) -> None:
    project = await office.make(id="proj_abc")
    for _ in range(2):
        assert (await office.client.delete(f"/projects/{project}")).status_code == 204
    await office.desk.deleter.sweep()
    assert (await office.client.delete(f"/projects/{project}")).status_code == 204
    assert (await office.client.post("/projects", json={**EXAMPLE, "id": project})).status_code == 409


async def test_what_comes_late_is_swept_too(office: Office) -> None:
    project = await office.make()
    await office.client.delete(f"/projects/{project}")
    assert await office.desk.deleter.sweep()
    for delay_s in AGAIN_S:
        await office.analyse(project, ["raw/late.json"])
        await office.desk.accountant.settle([ItemEnd(project, "raw/late.json")])
        assert not await office.desk.deleter.sweep()
        office.calendar.advance(seconds=delay_s + 1)
        assert await office.desk.deleter.sweep()
        assert await left(office, project) == {}
        assert await office.parts.ledger.tally(project) is None
    office.calendar.advance(days=30)
    assert not await office.desk.deleter.sweep()


class Cut:
    """Blobs that cannot be reached after some were removed."""

    def __init__(self, blobs: Any, room: int) -> None:
        self._blobs, self._room = blobs, room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def delete(self, paths: Any) -> None:
        paths = list(paths)
        await self._blobs.delete(paths[: self._room])
        if len(paths) > self._room:
            raise Unreachable("the server is away")


async def test_a_sweep_that_was_cut_goes_on_by_whoever_comes_next(office: Office) -> None:
    project = await office.make()
    paths = [f"raw/{number}.json" for number in range(10)]
    await filled(office, project, paths)
    await office.client.delete(f"/projects/{project}")
    broken = replace(office.parts, blobs=Cut(office.parts.blobs, 4))  # type: ignore[arg-type]
    with pytest.raises(Unreachable):
        await Deleter(broken, office.desk.accountant, office.calendar).sweep()
    assert sum([await has_blob(office, path) for path in paths]) == 6
    assert not await office.desk.deleter.sweep()
    office.calendar.advance(seconds=deleter.HOLD_S + 1)
    assert await office.desk.deleter.sweep()
    assert [await has_blob(office, path) for path in paths] == [False] * 10
    assert await left(office, project) == {}


async def test_a_project_that_cannot_be_swept_keeps_no_other_waiting(office: Office) -> None:
    first, second = await office.make(), await office.make()
    await filled(office, first, [f"raw/{number}.json" for number in range(10)])
    await filled(office, second, ["raw/a.json", "raw/b.json"])
    for project in (first, second):
        await office.client.delete(f"/projects/{project}")
    broken = replace(office.parts, blobs=Cut(office.parts.blobs, 4))  # type: ignore[arg-type]
    deleter = Deleter(broken, office.desk.accountant, office.calendar)
    for _ in range(3):
        with pytest.raises(Unreachable):
            await deleter.sweep()
    assert await left(office, second) == {}
    assert await left(office, first) != {}


async def test_a_name_that_is_no_path_is_no_blob(office: Office) -> None:
    project = await office.make()
    outside = office.parts.settings.home / "keep.json"
    outside.write_text("{}")
    await office.desk.accountant.settle([ItemEnd(project, "../keep.json"), ItemEnd(project, "message:1", False)])
    await office.client.delete(f"/projects/{project}")
    assert await office.desk.deleter.sweep()
    assert outside.exists()
    assert await left(office, project) == {}


async def test_the_loop_sweeps_what_was_deleted(office: Office) -> None:
    project = await office.make()
    stop = asyncio.Event()
    running = asyncio.ensure_future(office.desk.deleter.run(stop))
    await office.client.delete(f"/projects/{project}")

    async def swept() -> bool:
        return not await left(office, project)

    await eventually(swept, "it is swept")
    stop.set()
    await asyncio.wait_for(running, 60)
