"""A cancelled project is called so wherever somebody looks; only the hash, which others read, ends DONE."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from smap_office import Office, open_office

from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.progress_routes import watch
from headrace_smap.insight.report.content import gather
from headrace_smap.insight.report.page import headline
from headrace_smap.settings import SmapSettings


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def statuses(office: Office, project: str) -> dict[str, str]:
    """What each surface says."""
    client = office.client
    stream = [event async for event in watch(office.desk.accountant, project, "", 0.01)]
    report = await gather(office.parts.database, project)
    listed = await office.parts.database.rows("report_list", room=10)
    return {
        "progress": (await client.get(f"/projects/{project}/progress")).json()["status"],
        "stream": json.loads(stream[-1].data)["status"],
        "report": report.status if report else "",
        "reports": next(row[3] for row in listed if row[0] == project),
    }


async def test_a_cancelled_project_is_called_so_everywhere(office: Office) -> None:
    project, accountant = await office.make(), office.desk.accountant
    await accountant.expect(project, 2)
    await accountant.settle([ItemEnd(project, "raw/a.json")])
    await office.client.post(f"/projects/{project}/cancel")
    assert set((await statuses(office, project)).values()) == {"CANCELLED"}
    # What was under way is let go, and the count comes to its end.
    await accountant.settle([ItemEnd(project, "raw/b.json", reason="cancelled")])
    standing = await office.parts.ledger.tally(project)
    assert standing is not None
    assert standing.status == "DONE"
    assert set((await statuses(office, project)).values()) == {"CANCELLED"}
    shown = (await office.client.get(f"/projects/{project}")).json()
    (listed,) = (await office.client.get("/projects")).json()["items"]
    assert [(each["status"], each["ended"]) for each in (shown, listed)] == [("CANCELLED", True)] * 2
    assert {event["topic"] for event in await office.events()} <= {"project.created"}
    report = await gather(office.parts.database, project)
    assert report is not None
    assert headline(report) == "Cancelled before there were results."


async def test_a_cancelled_project_of_a_foreign_service_is_called_so_too(office: Office) -> None:
    """It has no row in `projects`."""
    accountant = Accountant(office.parts)
    await accountant.open("theirs")
    await accountant.settle([ItemEnd("theirs", "raw/a.json")])
    answer = await office.client.post("/projects/theirs/cancel")
    assert answer.json() == {"id": "theirs", "cancelled": True, "status": "CANCELLED"}
    assert set((await statuses(office, "theirs")).values()) == {"CANCELLED"}


async def test_a_stream_of_a_cancelled_project_ends(office: Office) -> None:
    project, path = await office.make(), "/projects/{}/progress/stream"
    await office.client.post(f"/projects/{project}/cancel")
    heard = await office.client.get(path.format(project))
    assert heard.text.count("event: progress") == 1
    (event_id,) = [line[4:] for line in heard.text.splitlines() if line.startswith("id: ")]
    again = await office.client.get(path.format(project), headers={"Last-Event-ID": event_id})
    assert again.status_code == 204


async def test_failures_of_a_project_of_a_foreign_service_are_shown(office: Office) -> None:
    accountant = Accountant(office.parts)
    await accountant.open("theirs")
    await accountant.settle([ItemEnd("theirs", "raw/x.json", False, "invalid_json: broken")])
    (item,) = (await office.client.get("/projects/theirs/failures")).json()["items"]
    assert (item["item"], item["reason"]) == ("raw/x.json", "invalid_json: broken")
    assert (await office.client.get("/projects/theirs/export")).status_code == 200
    assert (await office.client.post("/projects/theirs/retry")).json()["retried"] == 1
    assert (await office.client.get("/projects/nobody/failures")).status_code == 404
