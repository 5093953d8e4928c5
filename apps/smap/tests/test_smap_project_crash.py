"""The process may die between any two steps of making a project: nothing is lost, nothing is doubled.

Every call to the database, the ledger and the bus is a place to die, before it or when it is done. After each death a
new process comes up on what is left, and the client asks again with its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from smap_mortal import HOLD_S, Fate, Killed, fates, mortal, unharmed
from smap_office import EXAMPLE, Office, open_office

from headrace.http import Options, application
from headrace.ports import Event
from headrace_smap.parts import SmapParts
from headrace_smap.project.announcer import Announcer
from headrace_smap.project.creator import Creator
from headrace_smap.project.operations import ProjectOperations, desk_of
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.project.routes import project_routes
from headrace_smap.receivers import Receivers
from headrace_smap.settings import SmapSettings

Equip = Callable[[ProjectOperations], ProjectOperations]


def as_it_is(desk: ProjectOperations) -> ProjectOperations:
    return desk


class Processes:
    """One after another on the same port: routes that lead to the desk of whoever lives."""

    def __init__(self, office: Office, equip: Equip) -> None:
        self.office, self.equip, self.desk = office, equip, office.desk
        options = Options("project", idempotency=Living(self, "keys"))  # type: ignore[arg-type]
        app = application(options, project_routes(Living(self)))  # type: ignore[arg-type]
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")

    async def order(self, name: str, fate: Fate | None = None) -> httpx.Response:
        """A new process answers the order and tells what it has to tell, if it lives."""
        self.desk = self.equip(desk_of(mortal(self.office.parts, fate or unharmed()), self.office.calendar, HOLD_S))
        order, key = {**EXAMPLE, "name": name}, {"Idempotency-Key": name}
        answer = await self.client.post("/projects", json=order, headers=key)
        await self.desk.relay.relay()
        return answer


class Living:
    """The desk of the process that lives, or a part of it."""

    def __init__(self, processes: Processes, part: str = "") -> None:
        self._processes, self._part = processes, part

    def __getattr__(self, name: str) -> Any:
        desk = self._processes.desk
        return getattr(getattr(desk, self._part) if self._part else desk, name)


async def dies_at(office: Office, processes: Processes, fate: Fate) -> bool:
    """Let one process die by this fate and the next ones heal it; False if it did not come to that."""
    name, died = f"order {fate}", False
    try:
        await processes.order(name, fate)
    except Killed:
        died = True
    # Holds of the dead pass, and whoever waits for them goes on.
    office.calendar.advance(minutes=2)
    answers = [await processes.order(name) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201], answers[0].text
    assert answers[0].content == answers[1].content
    project = answers[0].json()["id"]
    items = (await office.client.get("/projects", params={"limit": 200})).json()["items"]
    assert [item["id"] for item in items if item["name"] == name] == [project]
    progress = await office.client.get(f"/projects/{project}/progress")
    assert progress.json()["status"] == "INITIALIZING"
    told = [event for event in await office.events() if event["payload"]["name"] == name]
    assert {(event["topic"], event["payload"]["project_id"]) for event in told} == {("project.created", project)}
    assert len({event["event_id"] for event in told}) == 1
    return died


async def every_death(settings: SmapSettings, equip: Equip = as_it_is) -> int:
    async with open_office(settings) as office:
        processes = Processes(office, equip)
        for deaths, fate in enumerate(fates()):
            if not await dies_at(office, processes, fate):
                return deaths
    return 0


async def test_a_project_survives_a_death_at_every_step(embedded: SmapSettings) -> None:
    assert await every_death(embedded) >= 12


class WithoutOutbox(Creator):
    """A broken twin: the rows are committed without their event."""

    def _events(self, project: str, order: AcceptedOrder) -> list[Event]:
        return []


async def test_without_the_outbox_the_event_would_be_lost(embedded: SmapSettings) -> None:
    def equip(desk: ProjectOperations) -> ProjectOperations:
        return replace(desk, creator=WithoutOutbox(desk.parts))

    with pytest.raises(AssertionError):
        await every_death(embedded, equip)


class WithoutSeed(Creator):
    """A broken twin: every run of the handler makes a project of its own."""

    made = 0

    async def create(
        self, project: str, order: AcceptedOrder, receivers: Receivers | None = None, traceparent: str = ""
    ) -> None:
        WithoutSeed.made += 1
        await super().create(f"{project}-{WithoutSeed.made}", order, receivers, traceparent)


async def test_without_the_seed_a_project_would_be_doubled(embedded: SmapSettings) -> None:
    def equip(desk: ProjectOperations) -> ProjectOperations:
        return replace(desk, creator=WithoutSeed(desk.parts))

    with pytest.raises(AssertionError):
        await every_death(embedded, equip)


class Accounts:
    """A bus that looks for the account of every project that it hears of."""

    def __init__(self, parts: SmapParts) -> None:
        self._parts, self.found = parts, list[bool]()

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        for event in events:
            self.found.append(await self._parts.ledger.tally(event.key) is not None)
        return await self._parts.bus.publish(events)


class WithoutAccounts(Announcer):
    """A broken twin: events are published whether there is an account or not."""

    async def _open_accounts(self, events: Sequence[Event]) -> None: ...


@pytest.mark.parametrize(("announcer", "found"), [(Announcer, [True]), (WithoutAccounts, [False])])
async def test_whoever_hears_of_a_project_finds_its_account(
    embedded: SmapSettings, announcer: type[Announcer], found: list[bool]
) -> None:
    async with open_office(embedded) as office:
        await Creator(office.parts).create("p1", AcceptedOrder(["a"], [], []))
        bus: Any = Accounts(office.parts)
        parts = replace(office.parts, bus=bus, registry=CollectorRegistry())
        assert await announcer(parts, office.desk.accountant).relay() == 1
        assert bus.found == found
