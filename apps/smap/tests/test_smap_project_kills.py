"""The project service is killed with -9 while clients order: every order is one project, and each is told of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from smap_office import EXAMPLE, Office, open_office
from smap_processes import OURS
from waiting import eventually

from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace_smap.settings import SmapSettings

TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
KILLS = 2 * TIMES
CLIENTS = 4
ORDERED_S_MAX = 180.0


class Port:
    """Where clients find whoever lives."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.url = "http://127.0.0.1:1"
        self.answered = 0


@asynccontextmanager
async def service(home: Path, port: Port) -> AsyncIterator[ServiceProcess]:
    """The service until it is killed."""
    environment = {"PATH": os.environ["PATH"], "SMAP_HOME": str(home), "SMAP_HTTP_PORT": "0", "SMAP_SIMULATED": "1"}
    process = ServiceProcess(Program("project", (*OURS, "project"), environment), home.with_suffix(".log"))
    try:
        port.url = await process.ready()
        yield process
    finally:
        process.kill()


async def order(port: Port, name: str) -> dict[str, Any]:
    """What a careful client does: the same request with the same key until it is answered."""
    wish, headers = {**EXAMPLE, "name": name}, {"Idempotency-Key": name}

    async def answered() -> dict[str, Any] | None:
        try:
            answer = await port.client.post(f"{port.url}/projects", json=wish, headers=headers)
        except httpx.HTTPError:
            return None
        if answer.status_code == 201:
            port.answered += 1
            return dict(answer.json())
        assert answer.status_code in (409, 503), answer.text
        return None

    return await eventually(answered, f"{name} is ordered", ORDERED_S_MAX)


async def keep_ordering(port: Port, client: int, stop: asyncio.Event) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    while not stop.is_set():
        name = f"{client}-{len(made)}"
        made[name] = await order(port, name)
    return made


async def all_told(office: Office, projects: set[str]) -> None:
    heard: set[str] = set()

    async def every() -> bool:
        heard.update(event["payload"]["project_id"] for event in await office.events())
        return heard >= projects

    await eventually(every, lambda: f"{len(projects - heard)} projects were never told of", 120)
    assert heard == projects


async def test_every_order_is_one_project_however_often_the_service_is_killed(embedded: SmapSettings) -> None:
    stop = asyncio.Event()
    async with open_office(embedded) as office, httpx.AsyncClient(timeout=60) as client:
        port = Port(client)
        clients = [asyncio.ensure_future(keep_ordering(port, number, stop)) for number in range(CLIENTS)]
        for _ in range(KILLS):
            async with service(embedded.home, port) as process:
                enough = port.answered + 3 * CLIENTS
                await eventually(lambda enough=enough: port.answered >= enough, "orders are answered", 120)
                process.kill()
        async with service(embedded.home, port):
            stop.set()
            made = {name: answer for each in await asyncio.gather(*clients) for name, answer in each.items()}
            again = {name: await order(port, name) for name in made}
            ids = {answer["id"] for answer in made.values()}
            await all_told(office, ids)
        assert again == made
        assert len(ids) == len(made) >= 3 * CLIENTS * KILLS
        found, cursor = set(), ""
        while cursor is not None:
            page = (await office.client.get("/projects", params={"limit": 200, "cursor": cursor})).json()
            found |= {item["id"] for item in page["items"]}
            cursor = page["next"]
        assert found == ids
