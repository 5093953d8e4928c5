"""A project whose posts are analysed by handlers of a test's own, in a world that can be cut off at any call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec
from prometheus_client import CollectorRegistry
from smap_posts import PROJECT, delivery, message, nothing, post

from headrace.ports import Delivery, Event, Subscription
from headrace_smap.analytics.analysts import ThreadAnalyst
from headrace_smap.analytics.dead_letters import Letters
from headrace_smap.analytics.handler import Handler
from headrace_smap.analytics.modules import Pipeline
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.service import handler_of
from headrace_smap.count.accountant import Accountant
from headrace_smap.days import VIETNAM
from headrace_smap.envelope import ANALYSIS_FINISHED, ERRORS_QUEUE, JOB_COMPLETED
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

WATCH = "watch"
LIMIT_S = 20.0
HOLD_S = 60.0
UPLOADS = 8


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class Cut:
    """A part of the world in which one call, the `at`th of this name, is the last thing that its process does.

    `after`: what was called has done its work, and nobody hears of it."""

    def __init__(self, part: Any, name: str, after: bool, at: int = 1) -> None:
        self._part, self._name, self._after, self._left = part, name, after, at

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._part, name)
        if name != self._name:
            return real

        async def call(*arguments: Any, **more: Any) -> Any:
            self._left -= 1
            is_last = self._left == 0
            if is_last and not self._after:
                raise Killed
            answer = await real(*arguments, **more)
            if is_last:
                raise Killed
            return answer

        return call


@dataclass(slots=True)
class Desk:
    """One project; `paths` are its posts."""

    parts: SmapParts
    paths: list[str] = field(default_factory=list)

    async def store(self, **blobs: bytes) -> None:
        """A blob for each name; the path follows from it."""
        self.paths += [f"raw/{name}.json" for name in blobs]
        waiting = iter(blobs.items())

        async def lane() -> None:
            for name, data in waiting:
                await self.parts.blobs.put(f"raw/{name}.json", data)

        await asyncio.gather(*(lane() for _ in range(UPLOADS)))

    async def seal(self) -> None:
        accountant = Accountant(self.parts)
        await accountant.open(PROJECT)
        await accountant.seal(PROJECT, len(self.paths))

    def deliveries(self, paths: Sequence[str] | None = None, deliveries: int = 1) -> list[Delivery]:
        told = self.paths if paths is None else paths
        return [delivery(message(path), number, deliveries) for number, path in enumerate(told, 1)]

    def handler(self, modules: Pipeline | None = None, kind: type[Handler] = Handler, **exchanged: Any) -> Handler:
        """As a new process would make it, with some of its parts exchanged."""
        parts = replace(self.parts, registry=CollectorRegistry(), **exchanged)
        analysis = Analysis(ThreadAnalyst(modules or nothing()), LIMIT_S)
        handler = handler_of(parts, Accountant(parts), analysis)
        return handler if kind is Handler else kind(handler._means)

    async def progress(self) -> tuple[object, ...]:
        found = await Accountant(self.parts).progress(PROJECT)
        assert found is not None
        return found["status"], found["total"], found["processed"], found["errors"]

    async def items(self) -> dict[str, tuple[bool, str]]:
        """How every post ended by the truth: well or not, and the rule."""
        rows = await self.parts.database.rows("truth_items", project=PROJECT, after="", room=1_000)
        failed = await self.parts.database.rows("truth_failed", project=PROJECT, after="", room=1_000)
        rules = {item: reason.partition(":")[0] for item, reason, _ in failed}
        return {item: (ok, rules.get(item, "")) for item, ok in rows}

    async def rules(self) -> dict[str, str]:
        return {item: rule for item, (ok, rule) in (await self.items()).items() if not ok}

    async def letters(self) -> list[Event]:
        return await self._received(ERRORS_QUEUE)

    async def told(self) -> list[Event]:
        """Results and ends that were told since the last time somebody asked."""
        return await self._received(WATCH)

    async def results(self, version: str = "") -> list[str]:
        """Paths that have a result of another version."""
        values = {"project": PROJECT, "after": "", "version": version, "timezone": VIETNAM.key, "room": 1_000}
        return [path for path, *_ in await self.parts.database.rows("outdated_results", **values)]

    async def _received(self, subscription: str) -> list[Event]:
        found: list[Event] = []
        while True:
            received = await self.parts.bus.receive(subscription, "test", 100, HOLD_S)
            if not received.deliveries:
                return found
            await self.parts.bus.ack(received.deliveries)
            found += [each.event for each in received.deliveries]


@asynccontextmanager
async def open_desk(settings: SmapSettings) -> AsyncIterator[Desk]:
    async with open_parts(settings) as parts:
        await parts.bus.subscribe(Subscription(WATCH, (ANALYSIS_FINISHED, JOB_COMPLETED)))
        await Letters(parts.bus).prepare()
        await parts.bus.subscribe(Subscription(ERRORS_QUEUE, (ERRORS_QUEUE,)))
        yield Desk(parts)


def topics(events: Sequence[Event]) -> dict[str, int]:
    """How many different events of each topic; the same id is the same event."""
    ids = {event.event_id: event.topic for event in events}
    return {topic: list(ids.values()).count(topic) for topic in sorted(set(ids.values()))}


def payload(event: Event) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.json.decode(event.body)["payload"])


def good(count: int) -> dict[str, bytes]:
    return {f"good{number}": post(id=f"vid_{number}") for number in range(count)}
