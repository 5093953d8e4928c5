"""Orders are checked at the door, with words that help."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from smap_office import EXAMPLE, Office, open_office

from headrace_smap.collector.task_plan import read_order
from headrace_smap.settings import SmapSettings


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def test_the_example_of_the_specification_is_a_project(office: Office) -> None:
    answer = await office.client.post("/projects", json=EXAMPLE)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/projects/{made['id']}"
    assert made["id"].startswith("proj_")
    assert {name: made[name] for name in EXAMPLE} == EXAMPLE
    assert (await office.client.get(f"/projects/{made['id']}/progress")).json() == {
        "status": "INITIALIZING",
        "total": 0,
        "processed": 0,
        "errors": 0,
        "percent": 0.0,
    }
    await office.desk.relay.relay()
    (event,) = await office.events()
    assert event["topic"] == "project.created"
    assert event["event_id"].startswith("evt_")
    assert event["payload"] == {"project_id": made["id"], **EXAMPLE}


@pytest.mark.parametrize("target", [{"platform": "tiktok"}, {"url": "https://www.tiktok.com/@vinfast"}])
async def test_a_target_is_told_with_both_fields_and_means_the_same(office: Office, target: dict[str, str]) -> None:
    """A collector that was written from the specification reads `target["url"]` whether one was given or not."""
    project = await office.make(targets=[target], date_range=None)
    await office.desk.relay.relay()
    (event,) = await office.events()
    payload = event["payload"]
    assert payload["targets"] == [{"platform": "", "url": "", **target}]
    assert payload["date_range"] == []
    assert read_order(project, payload) == read_order(project, {**payload, "targets": [target]})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "keywords"),
    ({"keywords": []}, "keywords"),
    ({"keywords": "VF3"}, "keywords"),
    ({"keywords": ["VF3", "  "]}, r"keywords[1] is blank"),
    ({"keywords": ["a\u0000b"]}, "cannot be printed"),
    ({"keywords": ["\ud800"]}, "keywords[0]"),
    ({"keywords": ["k" * 201]}, "keywords[0]"),
    ({"keywords": [f"k{number}" for number in range(201)]}, "keywords"),
    ({"keywords": ["a"], "targets": {"platform": "tiktok"}}, "targets"),
    ({"keywords": ["a"], "targets": [{}]}, "each of targets"),
    ({"keywords": ["a"], "targets": [{"platform": "tik tok"}]}, "platform"),
    ({"keywords": ["a"], "targets": [{"platform": "tiktok", "link": "x"}]}, "targets[0].link"),
    ({"keywords": ["a"], "date_range": ["2025-02-01", "2025-01-01"]}, "before it begins"),
    ({"keywords": ["a"], "date_range": ["2025-02-30", "2025-03-01"]}, "date_range[0]"),
    ({"keywords": ["a"], "date_range": [0, 86_400]}, "2025-01-31"),
    ({"keywords": ["a"], "date_range": ["2025-01-01"]}, "date_range[1]"),
    ({"keywords": ["a"], "date_range": ["2000-01-01", "2025-01-01"]}, "DAYS_MAX"),
    ({"keywords": [f"k{number}" for number in range(100)], "date_range": ["2024-01-01", "2024-12-31"]}, "TASKS_MAX"),
    ({"keywords": ["a"], "posts_max": 0}, "posts_max"),
    ({"keywords": ["a"], "id": "../up"}, "id"),
    ({"keywords": ["a"], "id": "stream"}, "id"),
    ({"keywords": ["a"], "name": "a\nb"}, "name"),
    ({"keywords": ["a"], "keyword": ["b"]}, "'keyword' is no field"),
]


async def test_what_cannot_be_a_project_is_refused_with_the_place(office: Office) -> None:
    for order, words in WRONG:
        body = json.dumps(order)
        answer = await office.client.post("/projects", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), body
        assert words in answer.json()["detail"], body
    assert (await office.client.get("/projects")).json()["items"] == []


async def test_an_order_that_no_bus_would_carry_is_refused(office: Office) -> None:
    targets = [{"url": f"https://example.com/{number}/{'x' * 900}"} for number in range(300)]
    answer = await office.client.post("/projects", json={**EXAMPLE, "targets": targets})
    assert (answer.status_code, "ORDER_BYTES_MAX" in answer.text) == (413, True)


async def test_keywords_are_trimmed_and_told_once(office: Office) -> None:
    project = await office.make(keywords=[" VinFast  VF3 ", "VinFast VF3", "xe điện"])
    assert (await office.client.get(f"/projects/{project}")).json()["keywords"] == ["VinFast VF3", "xe điện"]


async def test_an_id_of_the_clients_own_is_kept_and_not_given_twice(office: Office) -> None:
    assert await office.make(id="proj_abc") == "proj_abc"
    assert await office.make(project_id="proj_abc") == "proj_abc"
    answer = await office.client.post("/projects", json={**EXAMPLE, "id": "proj_abc", "keywords": ["other"]})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:headrace:problem:conflict")
    await office.desk.relay.relay()
    assert [event["payload"]["keywords"] for event in await office.events()] == [EXAMPLE["keywords"]]


async def test_a_project_of_a_foreign_service_is_not_taken_over(office: Office) -> None:
    now = office.calendar.now
    await office.parts.database.transact(
        ("order_insert", _row("foreign", "digest", now)),
        ("order_project", _row("foreign", "digest", now)),
        ("deletion_order", {"project": "foreign"}),
    )
    answer = await office.client.post("/projects", json={**EXAMPLE, "id": "foreign"})
    assert answer.status_code == 409
    assert await office.desk.relay.relay() == 0


def _row(project: str, digest: str, now: object) -> dict[str, object]:
    values = {"project": project, "digest": digest, "now": now, "status": "INITIALIZING", "due": None}
    columns: dict[str, object] = {"keywords": ["a"], "targets": [], "date_range": []}
    return {**values, **columns, "name": None, "posts_max": None, "parent": None}


async def test_what_else_was_ordered_is_told_and_shown(office: Office) -> None:
    project = await office.make(name="Tháng Giêng", posts_max=500)
    shown = (await office.client.get(f"/api/v1/projects/{project}")).json()
    assert (shown["name"], shown["posts_max"], shown["parent"]) == ("Tháng Giêng", 500, None)
    await office.desk.relay.relay()
    (event,) = await office.events()
    assert (event["payload"]["name"], event["payload"]["posts_max"]) == ("Tháng Giêng", 500)
