"""Jobs over HTTP: orders, lists, streams, and what is refused."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from matching_world import EXTERNAL, MatchingWorld, opened_world

from headrace_matching.events.names import COMPLETED, PRODUCTS_COLLECTED, Phase
from headrace_matching.phases.jobs import JobOrder
from headrace_matching.settings import MatchingSettings


async def test_a_job_is_ordered_once_per_key(world: MatchingWorld) -> None:
    key = {"Idempotency-Key": "order-1"}
    first = await world.client.post("/jobs", json=EXTERNAL, headers=key)
    again = await world.client.post("/jobs", json=EXTERNAL, headers=key)
    other = await world.client.post("/jobs", json=EXTERNAL)
    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 201)
    assert first.json() == again.json() == {"job_id": first.json()["job_id"], "phase": "collection"}
    assert first.headers["location"] == f"/jobs/{first.json()['job_id']}"
    assert other.json() != first.json()
    assert len((await world.client.get("/jobs")).json()["jobs"]) == 2
    changed = await world.client.post("/jobs", json={**EXTERNAL, "query": "blue"}, headers=key)
    assert changed.status_code == 422


async def test_the_same_order_at_the_same_time_is_one_job(world: MatchingWorld) -> None:
    """Two requests whose keys are not kept yet, or whose process died in between, have the same seed."""
    order = JobOrder(1, {"type": "external"}, {"type": "external"})
    jobs = await asyncio.gather(*(world.service.jobs.open(order, "seed") for _ in range(5)))
    assert len(set(jobs)) == 1
    assert len((await world.client.get("/jobs")).json()["jobs"]) == 1
    assert len(await world.parts.engine.jobs()) == 1


NO_ORDERS: list[dict[str, Any]] = [
    {},
    {"query": "x", "products": {"type": "external"}},
    {"query": "x", "products": {"type": "external"}, "videos": {"type": "magic"}},
    {"query": "x", "products": {"type": "external"}, "videos": {}},
    {"query": "x", "products": {"type": "external"}, "videos": "external"},
    {"query": "x", "products": {"type": "folder", "path": "/etc"}, "videos": {"type": "external"}},
    {"query": "x", "products": {"type": "folder"}, "videos": {"type": "external"}},
    {"query": "x", "products": {"type": "feed"}, "videos": {"type": "external"}},
    {"query": "x", "products": {"type": "feed", "url": "file:///etc/passwd"}, "videos": {"type": "external"}},
    {"query": "x", "products": {"type": "feed", "url": "http://[::1"}, "videos": {"type": "external"}},
    {"query": "x", "products": {"type": "simulated"}, "videos": {"type": "external"}},
    {"query": "x\0", "products": {"type": "external"}, "videos": {"type": "external"}},
    {"query": ["x" * 70_000], "products": {"type": "external"}, "videos": {"type": "external"}},
]


async def test_an_order_that_cannot_work_is_refused(embedded_world: MatchingWorld) -> None:
    for order in NO_ORDERS:
        answer = await embedded_world.client.post("/jobs", json=order)
        assert answer.status_code == 422, (order, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await embedded_world.client.get("/jobs")).json() == {"jobs": [], "next": None}


async def test_sources_are_kept_with_what_else_they_say(embedded_world: MatchingWorld) -> None:
    sources = {
        "products": {"type": "feed", "url": "https://shop.example/feed.json", "every": 3},
        "videos": {"type": "simulated", "seed": 7, "difficulty": 2},
    }
    view = await embedded_world.view(await embedded_world.open(query={"colour": "red"}, **sources))
    assert {name: view[name] for name in ("query", "products", "videos")} == {"query": {"colour": "red"}, **sources}


async def test_a_folder_must_lie_below_one_that_is_named(embedded: MatchingSettings, tmp_path: Path) -> None:
    allowed, secret = tmp_path / "shared", tmp_path / "shared-not"
    for folder in (allowed / "a", secret):
        folder.mkdir(parents=True)
    (allowed / "link").symlink_to(secret)
    async with opened_world(replace(embedded, folders=(str(allowed),))) as world:

        async def status(path: str) -> int:
            order = {**EXTERNAL, "products": {"type": "folder", "path": path}}
            return (await world.client.post("/jobs", json=order)).status_code

        assert [await status(str(path)) for path in (allowed, allowed / "a", allowed / "later")] == [201, 201, 201]
        outside = (secret, allowed / ".." / "shared-not", allowed / "link", tmp_path, "/", "a", "shared/a", "/\0")
        assert [await status(str(path)) for path in outside] == [422] * len(outside)


async def test_jobs_are_listed_newest_first_in_pages(world: MatchingWorld) -> None:
    jobs = [await world.open(query=number) for number in range(5)]
    await world.advance(jobs[2], Phase.FEATURE_EXTRACTION)
    shown: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = (await world.client.get("/jobs", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        shown += page["jobs"]
        cursor = page["next"]
        if cursor is None:
            break
    assert [job["job_id"] for job in shown] == jobs[::-1]
    assert [job["query"] for job in shown] == [4, 3, 2, 1, 0]
    found = await world.client.get("/jobs", params={"state": "running", "phase": "feature_extraction"})
    assert [job["job_id"] for job in found.json()["jobs"]] == [jobs[2]]
    for wrong in ({"state": "odd"}, {"phase": "odd"}, {"limit": 0}):
        assert (await world.client.get("/jobs", params=wrong)).status_code == 422
    assert (await world.client.get("/jobs", params={"cursor": "odd"})).status_code == 400


async def test_a_job_that_is_not_there_is_not_found(embedded_world: MatchingWorld) -> None:
    reads = ("", "/results", "/assets", "/embeddings", "/keypoints", "/matches", "/stream", "/duplicates")
    asked = [("GET", path) for path in (*reads, "/evidence/p/v")] + [("POST", "/cancel"), ("POST", "/resume")]
    for method, path in asked:
        answer = await embedded_world.client.request(method, f"/jobs/nobody{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:headrace:problem:not-found"), path


async def _views(lines: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) async for line in lines.aiter_lines() if line.startswith("data: ")]


async def test_a_stream_shows_every_phase_and_ends_with_the_job(world: MatchingWorld) -> None:
    job = await world.open()
    async with world.client.stream("GET", f"/jobs/{job}/stream") as lines:
        assert lines.headers["content-type"].startswith("text/event-stream")
        reading = asyncio.ensure_future(_views(lines))
        await world.complete(job, *COMPLETED)
        views = await asyncio.wait_for(reading, 60)
    assert (views[-1]["state"], views[-1]["phase"]) == ("completed", "completed")
    assert views[-1] == await world.view(job)


async def test_a_job_shows_the_events_that_came(world: MatchingWorld) -> None:
    job = await world.open()
    await world.complete(job, PRODUCTS_COLLECTED)
    await world.drained()
    (event,) = (await world.view(job))["events"]
    assert (event["name"], event["duplicates"]) == (PRODUCTS_COLLECTED, 0)
    assert event["first_seen"].endswith("Z")
