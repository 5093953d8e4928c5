"""The frame of the scheduler: its services by name, and what opens them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.services import Asked, Frame, Part, Program, Service, Talk, export_lines
from headrace_scheduler.settings import HTTP_PORTS, PREFIX, SchedulerSettings

if TYPE_CHECKING:
    from headrace_scheduler.rig_servers import RigServers

NAME = "scheduler"
PROGRAM = (sys.executable, "-m", "headrace", NAME)
HOME = "SCHEDULER_HOME"
APART = ("api", "worker", "reconciler")
"""What `up` runs side by side: the three parts of `all`."""
_SENTENCES = {
    "all": "Run REST interface, worker and reconciler in one process. Any number may run.",
    "api": "Run the REST interface alone. It keeps nothing, and any number may run.",
    "worker": "Run a worker alone; it serves health and metrics. Any number may run.",
    "reconciler": "Run a reconciler alone. Of all that run one works, and the others wait.",
}
_WHERE = """

The tables are in Cassandra, named by CASSANDRA_CONTACT_POINT, CASSANDRA_PORT and CASSANDRA_KEYSPACE, and made by
`headrace scheduler schema`; with SCHEDULER_HOME they are in a SQLite file there."""


def _opening(name: str) -> Callable[[SchedulerSettings, asyncio.Event], AbstractAsyncContextManager[Service]]:
    @asynccontextmanager
    async def opened(settings: SchedulerSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
        from headrace_scheduler.orders.order_handlers import open_order_handlers
        from headrace_scheduler.parts import open_parts
        from headrace_scheduler.service import SchedulerService

        async with open_parts(settings) as parts, open_order_handlers(settings.environment) as handlers:
            yield SchedulerService(name, parts, handlers)

    opened.__doc__ = _SENTENCES[name] + _WHERE
    return opened


@asynccontextmanager
async def _asked(settings: SchedulerSettings) -> AsyncIterator[Mapping[str, Part]]:
    from headrace_scheduler.parts import open_parts

    async with open_parts(settings) as parts:
        yield {"tables": Asked(parts.answers)}


FRAME = Frame(
    NAME,
    SchedulerSettings,
    PREFIX,
    ("-m", "headrace", NAME),
    {name: _opening(name) for name in _SENTENCES},
    _asked,
    HTTP_PORTS,
    whole="all",
)


def service_program(name: str, environment: Mapping[str, str], program: Sequence[str] = PROGRAM) -> Program:
    """A service, that of orders too, on any port."""
    return Program(name, (*program, name, "--port", "0"), environment)


async def up(environment: Mapping[str, str], servers: RigServers | None, talk: Talk) -> int:
    """The three services in processes of their own, on the servers of the rig if there are any; and the service of
    orders, if there is a database for it."""
    shared: Mapping[str, str] = {}
    if servers is not None:
        # A directory in the environment goes before Cassandra, and here Cassandra was asked for.
        environment = {name: value for name, value in environment.items() if name != HOME}
        shared = servers.variables
    elif home := FRAME.load(environment).home:
        shared = {HOME: str(home.absolute())}
    environment = {**environment, **shared}
    services = {name: FRAME.services[name] for name in APART}
    frame = replace(FRAME, services=services, told=partial(_told, shared, servers))
    if frame.load(environment).http_port == 0:
        from headrace.testing import reserve_port

        # Orders must know where jobs are taken before that has been opened.
        frame = replace(frame, ports={"api": reserve_port()})
        environment = {name: value for name, value in environment.items() if name != f"{PREFIX}HTTP_PORT"}
    programs = _orders(frame.ports_of(frame.load(environment))["api"], environment, talk)
    return await replace(frame, programs=lambda _settings, _environment: programs).up(environment, talk)


def _orders(api_port: int, environment: Mapping[str, str], talk: Talk) -> Sequence[Program]:
    """The service of orders on this scheduler, if there is a database for it."""
    from headrace_scheduler.orders.frame import NAME as ORDERS_NAME
    from headrace_scheduler.orders.frame import ORDERS

    settings = ORDERS.load(environment)
    if not settings.configured:
        return ()
    known = {"ORDERS_WORKER_URL": f"http://127.0.0.1:{api_port}"}
    if key := FRAME.load(environment).api_key:
        known["ORDERS_WORKER_API_KEY"] = key
    port = ORDERS.ports_of(settings)[ORDERS_NAME]
    return (ORDERS.program(ORDERS_NAME, port, {**known, **environment}, talk),)


def _told(shared: Mapping[str, str], servers: RigServers | None, said: Mapping[str, str]) -> Iterator[str]:
    if servers is not None:
        servers.scrape(said)
        yield f"metrics are scraped by {servers.prometheus.url}"
    yield f"jobs are taken at {said[f'{NAME} api']}/jobs"
    if orders := said.get(f"{NAME} orders"):
        yield f"orders are taken at {orders}/orders"
    yield from export_lines(shared, unset=() if servers is None else (HOME,))
