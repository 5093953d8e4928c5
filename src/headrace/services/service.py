"""A service: what it prepares, what it runs, its routes, and the parts it needs; and the frame that serves it.

    class Orders(Service):
        name = "orders"

        def routes(self) -> Sequence[APIRouter]: ...
        async def run(self, stop: asyncio.Event) -> None: ...

It is served with `/healthz`, `/readyz` (which asks its parts) and `/metrics`, says in one line that it is ready, and
ends on SIGTERM when what it holds is finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from headrace.runtime.programs import REPORT_S, die_with_parent, tell_ready
from headrace.runtime.seams import RealThreads
from headrace.services.freed_memory import keep_little
from headrace.services.http_settings import HttpSettings
from headrace.services.signals import Stopped, patiently, stopping

if TYPE_CHECKING:
    from fastapi import APIRouter
    from prometheus_client import CollectorRegistry

    from headrace.http import Access, IdempotencyStore, Limits

STOP_S_MAX = 20.0


class Part(Protocol):
    """Something that a service cannot work without: a store, a bus, a bucket."""

    async def answers(self) -> object:
        """Return if it answers, whatever; raise if it does not."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A part that is asked by a call of its own."""

    call: Callable[[], Awaitable[object]]

    async def answers(self) -> object:
        return await self.call()


class SupervisedWorker(Protocol):
    """A worker that knows for how long it has not got on, such as one of a store or of a source."""

    @property
    def handling_s_max(self) -> float:
        """For how long a handler may keep the process from saying anything."""

    def still_s(self) -> float:
        """For how long it has not got on, though it could; asked from a thread."""


class Service:
    """One service; a subclass overrides what it has.

    `parts` are asked by `/readyz` and by `doctor`, `health` by `/healthz`. `registry` holds its metrics, `idempotency`
    the answers to repeated POSTs; without them there are new ones in memory. `access` has further API keys, `limits`
    other limits of what comes in.
    """

    name: str = ""
    parts: Mapping[str, Part] = MappingProxyType({})
    health: Mapping[str, Part] = MappingProxyType({})
    registry: CollectorRegistry | None = None
    idempotency: IdempotencyStore | None = None
    access: Access | None = None
    limits: Limits | None = None

    async def prepare(self) -> None:
        """Make what it needs and is missing. Called again if a server was not up yet."""

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, finish what is in hand, give back the rest."""
        await stop.wait()

    def beside(self) -> Mapping[str, Part]:
        """What it can work without, such as one of many servers: `/readyz` asks and names it, and calls the service
        degraded and not unready for it. Asked for at every request, so there may be others each time."""
        return {}

    def routes(self) -> Sequence[APIRouter]:
        """What it answers over HTTP."""
        return ()

    def workers(self) -> Sequence[SupervisedWorker]:
        """What has to get on in this process: a supervisor ends the process when one of them does not. Asked every
        second, from a thread."""
        return ()


@dataclass(frozen=True, slots=True)
class Ready:
    """A service that is up, and where."""

    title: str
    url: str

    @property
    def line(self) -> str:
        return f"{self.title} is ready at {self.url}"


Opening = Callable[[asyncio.Event], AbstractAsyncContextManager[Service]]
"""Opens the parts of a service and makes it; whatever runs beside it ends when the event is set."""


@asynccontextmanager
async def serving(
    service: Service, settings: HttpSettings, stop: asyncio.Event, application: str
) -> AsyncIterator[Ready]:
    """A service and its HTTP side for as long as the block runs; what ends it early ends the block."""
    from headrace import http

    await patiently(service.prepare, settings.wait_s, stop)
    options = http.Options(
        f"{application}-{service.name}",
        host=settings.http_host,
        port=settings.http_port or 0,
        api_keys={application: settings.api_key} if settings.api_key else {},
        access=service.access or http.Access(),
        limits=service.limits or http.Limits(),
        checks={name: part.answers for name, part in service.parts.items()},
        health={name: part.answers for name, part in service.health.items()},
        beside=lambda: {name: part.answers for name, part in service.beside().items()},
        registry=service.registry,
        idempotency=service.idempotency,
    )
    async with http.serving(http.application(options, service.routes())) as served, asyncio.TaskGroup() as group:
        running = group.create_task(service.run(stop))
        try:
            yield Ready(f"{application} {service.name}", served.url)
        finally:
            stop.set()
            async with asyncio.timeout(STOP_S_MAX):
                await running


async def serve(opening: Opening, settings: HttpSettings, application: str, say: Callable[[str], None]) -> None:
    """One service until a signal asks it to stop; a server that is not there yet is waited for."""
    die_with_parent(signal.SIGTERM)
    keep_little()
    stop = asyncio.Event()
    with stopping(stop), contextlib.suppress(Stopped):
        async with contextlib.AsyncExitStack() as stack:
            service = await patiently(lambda: stack.enter_async_context(opening(stop)), settings.wait_s, stop)
            ready = await stack.enter_async_context(serving(service, settings, stop, application))
            # What is there by now stays: the collector need not look at it again and again.
            gc.freeze()
            say(ready.line)
            beat = RealThreads().beat(REPORT_S, _reports(service, tell_ready(ready.url)))
            stack.callback(beat.stop)
            await stop.wait()


def _reports(service: Service, report: Callable[[float, float], None]) -> Callable[[], None]:
    """Says how the workers of a service get on; one without any says nothing, and nothing is expected of it."""

    def say() -> None:
        workers = service.workers()
        if workers:
            report(max(each.still_s() for each in workers), max(each.handling_s_max for each in workers))

    return say
