"""A collector service that runs in the test's own loop, and what it has done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from waiting import eventually

from headrace.ports import Event, Subscription
from headrace_smap.collector.service import CollectorService
from headrace_smap.frame import FRAME
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings
from headrace_smap.values import SEALED, Standing

LISTENER = "smap.analytics"
SEALED_S_MAX = 120.0


@asynccontextmanager
async def collecting(environment: Mapping[str, str]) -> AsyncIterator[SmapParts]:
    """A world with a collector in it, and somebody who listens to it."""
    settings = FRAME.load({"SMAP_CRAWL_BACKOFF_S": "0.01", **environment})
    async with open_parts(settings) as parts, running(parts):
        yield parts


@asynccontextmanager
async def running(parts: SmapParts) -> AsyncIterator[CollectorService]:
    await parts.bus.subscribe(Subscription(LISTENER, ("data.collected",)))
    service, stop = CollectorService(parts), asyncio.Event()
    await service.prepare()
    serving = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await asyncio.wait_for(serving, 60)


async def order(parts: SmapParts, project: str, **payload: Any) -> None:
    """As a foreign project service would: an event and nothing else."""
    body = {"event_id": "evt_001", "payload": {"project_id": project, **payload}}
    await tell(parts, json.dumps(body).encode(), project)


async def tell(parts: SmapParts, body: bytes, event_id: str) -> None:
    await parts.bus.publish([Event(event_id, "project.created", body)])


async def sealed(parts: SmapParts, project: str, timeout_s: float = SEALED_S_MAX) -> Standing:
    async def look() -> Standing | None:
        standing = await parts.ledger.tally(project)
        return standing if standing is not None and standing.status in SEALED else None

    return await eventually(look, f"{project} is sealed", timeout_s)


async def blobs_count(parts: SmapParts, project: str) -> int:
    return len([path async for path in parts.blobs.list("raw") if f"/{project}/" in path])


async def told(parts: SmapParts) -> dict[str, dict[str, Any]]:
    """The payloads of all `data.collected` so far, by path."""
    found: dict[str, dict[str, Any]] = {}
    while deliveries := (await parts.bus.receive(LISTENER, "test", 500, 60.0)).deliveries:
        for delivery in deliveries:
            payload = json.loads(delivery.event.body)["payload"]
            found[payload["minio_path"]] = payload
        await parts.bus.ack(deliveries)
    return found


async def report(parts: SmapParts, project: str) -> list[tuple[str, str, int, str | None]]:
    """Name, state, posts and error of each task."""
    rows = await parts.database.rows("crawl_report", project=project, after=-1, room=1_000)
    return [(row[1], row[6], row[8], row[9]) for row in rows]


def environment_of(settings: SmapSettings, **given: str) -> dict[str, str]:
    return {**settings.environment, **given}
