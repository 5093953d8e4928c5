"""Publishes what was committed with a project: the engine's relay for smap's topics.

A project's `project.created` is preceded by opening its account, so that whoever receives it finds the account. Events
that nobody subscribes to are kept: a collector that is installed tomorrow gets them tomorrow. The engine's own
`job.completed` shares the outbox and never reaches smap's exchange, where that name means something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from prometheus_client import Gauge

from headrace.errors import HeadraceError
from headrace.ports import Event
from headrace.services import Relay, RelayOptions, rest
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import DATA_COLLECTED, PROJECT_CREATED
from headrace_smap.parts import SmapParts

TOPICS = (PROJECT_CREATED, DATA_COLLECTED)
HOLD_S = 10.0
MEASURE_S = 1.0

log = structlog.get_logger("smap")


class Announcer:
    """A relay and its gauges. Any number may run."""

    def __init__(self, parts: SmapParts, accountant: Accountant, hold_s: float = HOLD_S) -> None:
        self._outbox, self._accountant = parts.engine.outbox, accountant
        options = RelayOptions(hold_s=hold_s, topics=TOPICS, keep_unrouted=True, before=self._open_accounts)
        self._relay = Relay(self._outbox, parts.bus, options=options)
        self._unpublished = Gauge(
            "headrace_smap_outbox_unpublished", "Events that the bus was not told yet.", registry=parts.registry
        )
        self._oldest_s = Gauge(
            "headrace_smap_outbox_oldest_seconds", "Age of the oldest of them.", registry=parts.registry
        )

    async def relay(self) -> int:
        """Publish one batch; how many events the bus took."""
        return await self._relay.relay_once()

    async def run(self, stop: asyncio.Event) -> None:
        """Publish what is there, and what comes, until the stop."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._relay.run())
            while not stop.is_set():
                try:
                    await self._measure()
                except HeadraceError as error:
                    log.warning("outbox.failing", error=str(error))
                await rest(stop, MEASURE_S)
            self._relay.drain()

    async def _open_accounts(self, events: Sequence[Event]) -> None:
        for project in dict.fromkeys(event.key for event in events if event.topic == PROJECT_CREATED):
            await self._accountant.open(project)

    async def _measure(self) -> None:
        lag = await self._outbox.lag(TOPICS)
        self._unpublished.set(lag.unpublished)
        self._oldest_s.set(lag.oldest_s)
