"""The Main API in this process, a client of it, and a foreign producer and listener on its bus."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uuid_utils
from waiting import eventually

from headrace.consuming import Consumer, Delivery
from headrace.ports import Event, Subscription
from headrace.services import serving
from headrace_matching.api.service import QUEUE, ApiService
from headrace_matching.events.names import CLOSED_BY, PHASE_ENTERED, Phase
from headrace_matching.frame import FRAME
from headrace_matching.parts import MatchingParts, open_parts
from headrace_matching.phases.metrics import label_of
from headrace_matching.settings import MatchingSettings

EXTERNAL = {"query": "red shoes", "products": {"type": "external"}, "videos": {"type": "external"}}
LISTENER = "test.listener"


def uuid7() -> str:
    return str(uuid_utils.uuid7())


def event(name: str, body: bytes) -> Event:
    """A message under an id that no bus has seen: a bus that knows repeats would hide them from the manager."""
    return Event(f"message-{uuid7()}", name, body)


@dataclass(slots=True)
class MatchingWorld:
    """One running Main API."""

    parts: MatchingParts
    service: ApiService
    client: httpx.AsyncClient
    announced: list[dict[str, Any]] = field(default_factory=list)
    published: Counter[str] = field(default_factory=Counter)

    async def open(self, **more: Any) -> str:
        answer = await self.client.post("/jobs", json={**EXTERNAL, **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    async def view(self, job: str) -> dict[str, Any]:
        answer = await self.client.get(f"/jobs/{job}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def publish(self, *events: tuple[str, Mapping[str, Any] | bytes]) -> None:
        """Messages as a foreign producer sends them."""
        made = [event(name, body if isinstance(body, bytes) else json.dumps(body).encode()) for name, body in events]
        self.published.update(label_of(each.topic) for each in made)
        for begin in range(0, len(made), 500):
            await self.parts.bus.publish(made[begin : begin + 500])

    async def complete(self, job: str, *names: str) -> None:
        await self.publish(*((name, {"job_id": job, "event_id": uuid7()}) for name in names))

    async def reaches(self, job: str, phase: Phase | str, state: str = "") -> dict[str, Any]:
        """The view of a job that has come so far."""

        async def there() -> dict[str, Any] | None:
            view = await self.view(job)
            return view if view["phase"] == phase and state in ("", view["state"]) else None

        return await eventually(there, f"job {job} in phase {phase} {state}")

    async def advance(self, job: str, phase: Phase) -> dict[str, Any]:
        """Bring a job to a phase by the events before it."""
        for before, names in CLOSED_BY.items():
            if before == phase:
                break
            await self.complete(job, *names)
        return await self.reaches(job, phase)

    async def dead(self) -> list[tuple[str, bytes, str]]:
        """Dead letters: name, body, reason."""
        letters = await self.parts.bus.dead(QUEUE, 1_000)  # type: ignore[attr-defined]
        return [(letter.event.topic, letter.event.body, letter.reason) for letter in letters]

    async def refused(self, count: int) -> list[tuple[str, bytes, str]]:
        async def there() -> list[tuple[str, bytes, str]] | None:
            found = await self.dead()
            return found if len(found) >= count else None

        return await eventually(there, f"{count} dead letters")

    async def drained(self) -> None:
        """The manager has dealt with everything that was published here."""
        count = self.parts.registry.get_sample_value

        def done() -> bool:
            return all(
                (count("headrace_matching_events_total", {"name": label}) or 0) >= expected
                for label, expected in self.published.items()
            )

        await eventually(done, lambda: f"the manager at the end of {self.published}")

    def entered(self, job: str) -> list[str]:
        return [each["phase"] for each in self.announced if each["job_id"] == job]


@asynccontextmanager
async def opened_world(settings: MatchingSettings) -> AsyncIterator[MatchingWorld]:
    """The service, a client, and a listener that writes down what is announced."""
    stop = asyncio.Event()
    async with open_parts(settings) as parts:
        service = ApiService(parts)
        async with (
            serving(service, settings, stop, "matching") as ready,
            httpx.AsyncClient(base_url=ready.url, timeout=60.0) as client,
        ):
            world = MatchingWorld(parts, service, client)

            async def listen(deliveries: Sequence[Delivery]) -> None:
                world.announced += [json.loads(delivery.event.body) for delivery in deliveries]

            listener = Consumer(parts.bus, Subscription(LISTENER, (PHASE_ENTERED,)), listen)
            await listener.prepare()
            listening = asyncio.create_task(listener.run(stop))
            try:
                yield world
            finally:
                stop.set()
                await listening


def embedded_settings(home: Any, **more: str) -> MatchingSettings:
    return FRAME.load({"MATCHING_HOME": str(home), "MATCHING_HTTP_PORT": "0", **more})
