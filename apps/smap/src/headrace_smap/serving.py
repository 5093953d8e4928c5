"""The frame that a service runs in: its surroundings, its HTTP side, signals, and one line when it is ready."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from headrace.errors import CallerError, HeadraceError
from headrace.http import Options, application, serving
from headrace_smap.consumer import rest
from headrace_smap.count.keeper import keeping
from headrace_smap.settings import HTTP_PORTS, Settings
from headrace_smap.world import World, open_world

if TYPE_CHECKING:
    from fastapi import APIRouter

    from headrace.http import Check, IdempotencyStore

T = TypeVar("T")
TENANT = "smap"
AGAIN_S = 0.5
STOP_S_MAX = 20.0
_HOMES = {
    "project": ("headrace_smap.project.service", "ProjectService"),
    "collector": ("headrace_smap.collector.service", "CollectorService"),
    "analytics": ("headrace_smap.analytics.service", "AnalyticsService"),
    "insight": ("headrace_smap.insight.service", "InsightService"),
}
NAMES = tuple(_HOMES)
log = structlog.get_logger("smap")


class Stopped(Exception):
    """Somebody asked for the end before there was a beginning."""


class Service(Protocol):
    """One of the four. It works with its world and with no other service."""

    name: str

    @property
    def idempotency(self) -> IdempotencyStore | None:
        """Where answers to repeated POSTs are kept, if it has any."""

    async def prepare(self) -> None:
        """Make what it needs and is missing; after that nothing it must hear is lost."""

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, finish what is in hand, give back the rest."""

    def routes(self) -> Sequence[APIRouter]: ...


@dataclass(frozen=True, slots=True)
class Ready:
    """A service that is up."""

    name: str
    url: str
    service: Service

    @property
    def line(self) -> str:
        return f"smap {self.name} is ready at {self.url}"


def service_of(name: str, world: World) -> Service:
    module, kind = _HOMES[name]
    service: Service = getattr(importlib.import_module(module), kind)(world)
    return service


@asynccontextmanager
async def serving_one(name: str, world: World, stop: asyncio.Event) -> AsyncIterator[Ready]:
    """A service and its HTTP side for as long as the block runs; what ends it early ends the block."""
    service, settings = service_of(name, world), world.settings
    await patiently(service.prepare, settings.wait_s, stop)
    port = HTTP_PORTS[name] if settings.http_port is None else settings.http_port
    options = Options(
        f"smap-{name}",
        host=settings.http_host,
        port=port,
        api_keys={TENANT: settings.api_key} if settings.api_key else {},
        checks=checks(world),
        registry=world.registry,
        idempotency=service.idempotency,
    )
    async with serving(application(options, service.routes())) as served, asyncio.TaskGroup() as group:
        running = group.create_task(service.run(stop))
        try:
            yield Ready(name, served.url, service)
        finally:
            stop.set()
            async with asyncio.timeout(STOP_S_MAX):
                await running


def checks(world: World) -> dict[str, Check]:
    """What `/readyz` asks."""

    async def database() -> None:
        await world.database.rows("answers")

    async def ledger() -> None:
        await world.ledger.tally("readyz")

    async def bus() -> None:
        answers = getattr(world.bus, "answers", None)
        if answers is not None:
            await answers()

    return {"database": database, "ledger": ledger, "blobs": world.blobs.answers, "bus": bus}


async def run(name: str, settings: Settings, say: Callable[[str], None]) -> None:
    """One service until a signal asks it to stop; a server that is not there yet is waited for."""
    if name not in _HOMES:
        raise CallerError(f"there is no service {name!r}", f"one of {', '.join(NAMES)}")
    stop = asyncio.Event()
    with stopping(stop):
        async with contextlib.AsyncExitStack() as stack:

            async def opened() -> World:
                return await stack.enter_async_context(open_world(settings))

            with contextlib.suppress(Stopped):
                world = await patiently(opened, settings.wait_s, stop)
                await patiently(lambda: stack.enter_async_context(keeping(world, stop)), settings.wait_s, stop)
                ready = await stack.enter_async_context(serving_one(name, world, stop))
                say(ready.line)
                await stop.wait()


@contextlib.contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM ask politely; a second one is not asked."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def ask(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, ask, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def patiently(work: Callable[[], Awaitable[T]], wait_s: float, stop: asyncio.Event) -> T:
    """Servers come up in any order and may break off: what they do not answer is asked again for a while.
    A server that is set up wrongly is refused at once."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while not stop.is_set():
        try:
            return await work()
        except HeadraceError as error:
            if not error.heals:
                raise
            if asyncio.get_running_loop().time() >= deadline:
                raise
            log.warning("server.awaited", error=str(error))
            await rest(stop, AGAIN_S)
    raise Stopped
