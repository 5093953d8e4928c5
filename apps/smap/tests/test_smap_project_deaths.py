"""The process may die at any step of a retry, a firing or a deletion; the next one ends what it began, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime

import pytest
from smap_mortal import HOLD_S, Fate, Killed, fates, mortal, unharmed
from smap_office import Office, open_office

from headrace_smap.collector.blob_names import blob_path
from headrace_smap.project.operations import ProjectOperations, desk_of
from headrace_smap.project.recrawls import Recrawl, schedule_name
from headrace_smap.settings import SmapSettings

Work = Callable[[ProjectOperations], Awaitable[object]]


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def dies(office: Office, work: Work, fate: Fate) -> bool:
    try:
        await work(desk_of(mortal(office.parts, fate), office.calendar, HOLD_S))
    except Killed:
        return True
    return False


async def healed(office: Office, work: Work) -> object:
    """What a new process makes of it, when the holds of the dead have passed."""
    office.calendar.advance(minutes=2)
    return await work(desk_of(mortal(office.parts, unharmed()), office.calendar, HOLD_S))


async def test_a_retry_tells_every_failed_post_under_one_id(office: Office) -> None:
    paths = [f"raw/{number}.json" for number in range(3)]

    for deaths, fate in enumerate(fates()):
        project = await office.make()
        await office.crawl(project, ["raw/a.json"], paths)
        await office.desk.relay.relay()
        await office.events()

        async def work(desk: ProjectOperations, project: str = project, seed: str = str(fate)) -> int:
            retried = await desk.retrier.retry(project, seed)
            while await desk.relay.relay():
                pass
            return retried

        died = await dies(office, work, fate)
        assert await healed(office, work) == len(paths)
        told = {(event["payload"]["minio_path"], event["event_id"]) for event in await office.events()}
        assert sorted(path for path, _ in told) == paths
        if not died:
            assert deaths >= 8
            return


async def test_a_due_time_is_fired_once_and_told(office: Office) -> None:
    for deaths, fate in enumerate(fates()):
        parent = await office.make()
        await office.crawl(parent, [])
        await office.desk.relay.relay()
        await office.events()
        await office.desk.recrawls.set(parent, 3_600)
        view = await office.parts.engine.schedules.get(schedule_name(parent))
        assert view is not None
        office.calendar.advance(hours=1)
        job, due = Recrawl(parent, view.schedule.timetable), office.calendar.now

        async def work(desk: ProjectOperations, job: Recrawl = job, due: datetime = due) -> None:
            await desk.recrawls.crawl(job, due)
            await desk.relay.relay()

        died = await dies(office, work, fate)
        await healed(office, work)
        (child,) = [item for item in (await office.desk.reader.list(200))["items"] if item["parent"] == parent]
        told = Counter(event["payload"]["project_id"] for event in await office.events())
        assert set(told) == {child["id"]}
        assert (await office.desk.accountant.progress(child["id"])) is not None
        await office.desk.recrawls.drop(parent)
        if not died:
            assert deaths >= 8
            return


async def test_a_deletion_leaves_nothing_behind(office: Office) -> None:
    for deaths, fate in enumerate(fates()):
        project = await office.make()
        paths = [blob_path("tiktok", project, name) for name in ("a", "b")]
        for path in paths:
            await office.parts.blobs.put(path, b"{}")
        await office.crawl(project, paths)
        await office.analyse(project, paths)

        async def work(desk: ProjectOperations, project: str = project) -> None:
            await desk.deleter.delete(project)
            while await desk.deleter.sweep():
                pass

        died = await dies(office, work, fate)
        await healed(office, work)
        assert [path async for path in office.parts.blobs.list("raw")] == []
        assert await office.parts.database.rows("deletion_paths", project=project, room=9) == []
        assert await office.desk.accountant.progress(project) is None
        assert await office.parts.ledger.tally(project) is None
        if not died:
            assert deaths >= 12
            return
