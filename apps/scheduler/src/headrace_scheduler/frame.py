"""The frame of the scheduler: its services by name, and what opens them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from headrace.services import Asked, Frame, Part, Service
from headrace_scheduler.settings import HTTP_PORTS, PREFIX, SchedulerSettings

NAME = "scheduler"
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
)
