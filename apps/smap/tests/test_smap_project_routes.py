"""What clients see of projects, and what they can do to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from smap_office import EAR, EXAMPLE, Office, open_office
from waiting import eventually

from headrace.ports import Event, Subscription
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.progress_routes import watch
from headrace_smap.project.announcer import TOPICS
from headrace_smap.project.stream import watch_newest
from headrace_smap.settings import SmapSettings


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def test_projects_are_listed_newest_first_a_page_at_a_time(office: Office) -> None:
    made = []
    for number in range(5):
        made.append(await office.make(id=f"p{number}"))
        # Two share a moment: the id decides.
        office.calendar.advance(seconds=number % 2)
    seen: list[str] = []
    cursor = ""
    for _ in range(3):
        page = (await office.client.get("/projects", params={"limit": 2, "cursor": cursor})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert (seen, cursor) == (sorted(made, reverse=True), None)


@pytest.mark.parametrize("params", [{"cursor": "x"}, {"limit": 0}, {"limit": 201}, {"status": "LOST"}])
async def test_a_wrong_page_is_refused(params: dict[str, str], office: Office) -> None:
    answer = await office.client.get("/projects", params=params)
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_projects_are_found_by_their_status(office: Office) -> None:
    waiting, done, cancelled = [await office.make() for _ in range(3)]
    await office.crawl(done, ["raw/a.json"])
    await office.client.post(f"/projects/{cancelled}/cancel")
    for status, project in (("INITIALIZING", waiting), ("DONE", done), ("CANCELLED", cancelled)):
        items = (await office.client.get("/projects", params={"status": status})).json()["items"]
        assert [(item["id"], item["status"]) for item in items] == [(project, status)]


async def test_a_project_is_shown_with_its_counts(office: Office) -> None:
    project = await office.make()
    await office.crawl(project, ["raw/a.json", "raw/b.json", "raw/c.json"], ["raw/d.json"])
    shown = (await office.client.get(f"/projects/{project}")).json()
    assert (shown["status"], shown["ended"]) == ("DONE", True)
    assert shown["progress"] == {"total": 4, "processed": 4, "errors": 1, "percent": 100.0}
    assert shown["finished_at"].endswith("Z")


async def test_what_the_ledger_has_forgotten_is_shown_from_the_database(office: Office) -> None:
    project = await office.make()
    await office.crawl(project, ["raw/a.json"], ["raw/b.json"])
    before = (await office.client.get("/projects")).json()
    await office.parts.ledger.forget(project)
    assert (await office.client.get("/projects")).json() == before
    assert (await office.client.get(f"/projects/{project}/progress")).json()["percent"] == 100.0


@pytest.mark.parametrize("project", ["nobody", "a%00b", "a" * 300, "%2e%2e"])
async def test_nobody_is_not_found(project: str, office: Office) -> None:
    answer = await office.client.get(f"/projects/{project}/progress")
    assert (answer.status_code, answer.json()) == (404, {"status": "NOT_FOUND", "percent": 0})
    for method, path in [
        ("GET", ""),
        ("GET", "/failures"),
        ("GET", "/export"),
        ("GET", "/recrawl"),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("POST", "/seal"),
        ("GET", "/progress/stream"),
    ]:
        answer = await office.client.request(method, f"/projects/{project}{path}")
        assert answer.status_code == 404, (method, path)


async def test_progress_is_streamed_until_the_project_is_done(office: Office) -> None:
    project, accountant = await office.make(), office.desk.accountant
    await accountant.expect(project, 2)
    stream, told = watch(accountant, project, "", 0.01), []
    told.append(await anext(stream))
    for number in range(2):
        await accountant.settle([ItemEnd(project, f"raw/{number}.json")])
        told.append(await anext(stream))
    await accountant.seal(project, 2)
    told += [event async for event in stream]
    shown = [json.loads(event.data) for event in told]
    assert [(each["status"], each["processed"], each["total"]) for each in shown] == [
        ("CRAWLING", 0, 3),
        ("CRAWLING", 1, 3),
        ("CRAWLING", 2, 3),
        ("DONE", 2, 2),
    ]
    path = f"/projects/{project}/progress/stream"
    late = await office.client.get(path, headers={"Last-Event-ID": told[0].event_id})
    assert f"id: {told[-1].event_id}\nevent: progress\ndata: {told[-1].data}\n\n" in late.text
    assert late.text.count("data: ") == 1
    again = await office.client.get(path, headers={"Last-Event-ID": told[-1].event_id})
    assert (again.status_code, again.text) == (204, "")


async def test_a_stream_that_is_resumed_does_not_tell_again_what_was_heard(office: Office) -> None:
    project, accountant = await office.make(), office.desk.accountant
    first = watch(accountant, project, "", 0.01)
    heard = await anext(first)
    await first.aclose()
    resumed = asyncio.ensure_future(anext(watch(accountant, project, heard.event_id, 0.01)))
    await office.crawl(project, [])
    assert json.loads((await asyncio.wait_for(resumed, 60)).data)["status"] != "INITIALIZING"


async def test_the_newest_projects_are_one_stream(office: Office) -> None:
    stream = watch_newest(office.desk.reader, "", 0.01)
    assert (await anext(stream)).data == "[]"
    project = await office.make()
    first = await anext(stream)
    assert [item["id"] for item in json.loads(first.data)] == [project]
    await office.crawl(project, ["raw/a.json"])
    told = [json.loads((await anext(stream)).data)[0]["status"]]
    while told[-1] != "DONE":
        told.append(json.loads((await anext(stream)).data)[0]["status"])
    await stream.aclose()
    resumed = watch_newest(office.desk.reader, first.event_id, 0.01)
    assert (await anext(resumed)).event_id != first.event_id
    await resumed.aclose()


async def test_cancelling_stops_at_what_was_found(office: Office) -> None:
    project = await office.make()
    await office.desk.accountant.expect(project, 0)
    await office.client.post(f"/projects/{project}/recrawl", json={"every_hours": 1})
    for _ in range(2):
        answer = await office.client.post(f"/projects/{project}/cancel")
        assert answer.json() == {"id": project, "cancelled": True, "status": "CANCELLED"}
    assert (await office.client.get(f"/projects/{project}/recrawl")).status_code == 404
    await office.desk.relay.relay()
    assert {event["topic"] for event in await office.events()} == {"project.created"}


async def test_what_is_done_cannot_be_cancelled(office: Office) -> None:
    project = await office.make()
    await office.crawl(project, ["raw/a.json"])
    answer = await office.client.post(f"/projects/{project}/cancel")
    assert answer.json() == {"id": project, "cancelled": False, "status": "DONE"}


async def test_failed_posts_are_listed_with_their_reasons(office: Office) -> None:
    project = await office.make()
    await office.crawl(project, ["raw/a.json"], [f"raw/x{number}.json" for number in range(5)])
    page = (await office.client.get(f"/projects/{project}/failures", params={"limit": 3})).json()
    rest = (await office.client.get(f"/projects/{project}/failures", params={"cursor": page["next"]})).json()
    assert [item["item"] for item in [*page["items"], *rest["items"]]] == [f"raw/x{number}.json" for number in range(5)]
    assert (page["items"][0]["reason"], rest["next"]) == ("invalid_json", None)
    assert (page["tasks"], "tasks" in rest) == ([], False)


async def test_crawl_tasks_that_failed_are_not_hidden_behind_a_hundred_percent(office: Office) -> None:
    project = await office.make()
    task = {"platform": "news", "keyword": "", "url": "", "day": "", "document": ""}
    rows = [
        {**task, "task": str(number), "position": number, "state": state, "url": url, "error": "404"}
        for number, (state, url) in enumerate((("failed", ""), ("done", ""), ("failed", "https://x.vn/2")))
    ]
    await office.parts.database.rows("crawl_plan", project=project, rows=rows, now=office.calendar.now)
    shown = (await office.client.get(f"/projects/{project}")).json()
    listed = (await office.client.get("/projects")).json()["items"]
    assert (shown["failed_tasks"], [item["failed_tasks"] for item in listed]) == (2, [2])
    failures = (await office.client.get(f"/projects/{project}/failures")).json()
    assert failures == {
        "items": [],
        "next": None,
        "tasks": [{"task": "0", "reason": "404"}, {"task": "https://x.vn/2", "reason": "404"}],
    }


async def test_failed_posts_are_tried_again_and_the_errors_shrink(office: Office) -> None:
    project = await office.make()
    await office.crawl(project, ["raw/a.json"], ["raw/x.json", "raw/y.json"])
    await office.desk.relay.relay()
    first_ids = {event["event_id"] for event in await office.events()}
    answers = [
        await office.client.post(f"/projects/{project}/retry", headers={"Idempotency-Key": key})
        for key in ("one", "one", "two")
    ]
    assert [answer.json()["retried"] for answer in answers] == [2, 2, 2]
    await office.desk.relay.relay()
    events = await office.events()
    assert {event["topic"] for event in events} == {"data.collected"}
    assert (
        sorted(event["payload"]["minio_path"] for event in events) == ["raw/x.json", "raw/x.json"] + ["raw/y.json"] * 2
    )
    assert len({event["event_id"] for event in events} | first_ids) == 4 + len(first_ids)
    assert all(event["payload"]["shard"] == 7 for event in events)
    await Accountant(office.parts).settle([ItemEnd(project, "raw/x.json")])
    progress = (await office.client.get(f"/projects/{project}/progress")).json()
    assert progress == {"status": "DONE", "total": 3, "processed": 3, "errors": 1, "percent": 100.0}
    assert (await office.client.post(f"/projects/{project}/retry")).json()["retried"] == 1
    await office.desk.relay.relay()
    assert {event["topic"] for event in await office.events()} == {"data.collected"}


async def test_posts_are_tried_again_where_nobody_subscribes_to_projects(office: Office) -> None:
    await office.parts.bus.subscribe(Subscription(EAR, ("data.collected",)))
    project = await office.make()
    await office.crawl(project, [], ["raw/x.json"])
    assert (await office.client.post(f"/projects/{project}/retry")).json()["retried"] == 1
    await office.desk.relay.relay()
    assert [event["topic"] for event in await office.events()] == ["data.collected"]


async def test_the_end_of_a_job_of_the_engine_stays_off_the_exchange(office: Office) -> None:
    await office.parts.engine.outbox.add([Event("theirs", "job.completed", b"{}")])
    await office.make()
    assert await office.desk.relay.relay() == 1
    assert [event["topic"] for event in await office.events()] == ["project.created"]


async def test_a_retried_message_keeps_what_only_others_know_of_it(office: Office) -> None:
    project = await office.make()
    payload = {"project_id": project, "platform": "TIKTOK", "minio_path": "raw/x.json", "crawled_at": "-", "shard": 7}
    body = json.dumps({"event_id": "theirs", "tenant": "t1", "payload": payload}).encode()
    await office.desk.accountant.settle([ItemEnd(project, "raw/x.json", False, "invalid_json", body)])
    await office.desk.relay.relay()
    await office.events()
    assert (await office.client.post(f"/projects/{project}/retry")).json()["retried"] == 1
    await office.desk.relay.relay()
    (event,) = await office.events()
    assert (event["tenant"], event["payload"]) == ("t1", payload)
    assert event["event_id"] != "theirs"


async def test_posts_of_a_cancelled_project_are_not_tried_again(office: Office) -> None:
    project = await office.make()
    await office.desk.accountant.settle([ItemEnd(project, "raw/a.json", False, "invalid_json")])
    await office.client.post(f"/projects/{project}/cancel")
    assert (await office.client.post(f"/projects/{project}/retry")).status_code == 409


async def test_a_message_that_never_named_a_post_is_not_tried_again(office: Office) -> None:
    project = await office.make()
    await office.desk.accountant.settle([ItemEnd(project, "message:1", False, "event_path", b"{}")])
    assert (await office.client.post(f"/projects/{project}/retry")).json()["retried"] == 0


async def test_a_project_of_a_collector_that_does_not_seal_is_sealed_by_hand(office: Office) -> None:
    project = await office.make()
    await office.desk.accountant.settle([ItemEnd(project, "raw/a.json")])
    answer = await office.client.post(f"/projects/{project}/seal", json={"total": 1})
    assert answer.json()["progress"] == {"status": "DONE", "total": 1, "processed": 1, "errors": 0, "percent": 100.0}
    assert (await office.client.post(f"/projects/{project}/seal", json={"total": -1})).status_code == 422


async def test_the_same_order_twice_is_one_project(office: Office) -> None:
    headers = {"Idempotency-Key": "order-1"}
    answers = [await office.client.post("/projects", json=EXAMPLE, headers=headers) for _ in range(3)]
    assert {answer.content for answer in answers} == {answers[0].content}
    other = await office.client.post("/projects", json={**EXAMPLE, "keywords": ["b"]}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:headrace:problem:key-reused")
    assert len((await office.client.get("/projects")).json()["items"]) == 1


async def test_events_that_nobody_hears_are_kept(embedded: SmapSettings) -> None:
    async with open_office(embedded) as office:
        await office.parts.engine.bus.unsubscribe("ear")
        await office.make()
        assert await office.desk.relay.relay() == 0
        assert (await office.parts.engine.outbox.lag(TOPICS)).unpublished == 1
    async with open_office(embedded) as office:
        await eventually(office.desk.relay.relay, "the event is told")
        assert [event["topic"] for event in await office.events()] == ["project.created"]


async def test_a_relay_tells_what_comes_without_being_asked(office: Office) -> None:
    stop = asyncio.Event()
    running = asyncio.ensure_future(office.desk.relay.run(stop))
    await office.make()
    told = await eventually(office.events, "the event is told")
    assert [event["topic"] for event in told] == ["project.created"]
    stop.set()
    await asyncio.wait_for(running, 60)


async def test_routes_are_described(office: Office) -> None:
    paths = (await office.client.get("/api/v1/openapi.json")).json()["paths"]
    assert {"post", "get"} <= set(paths["/api/v1/projects"])
    for path in ("progress", "progress/stream", "cancel", "retry", "seal", "recrawl", "export", "failures"):
        assert f"/api/v1/projects/{{project}}/{path}" in paths
