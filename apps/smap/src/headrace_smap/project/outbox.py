"""The outbox: events that were committed with what they tell of, told until the bus has them.

A project's `project.created` is preceded by opening its account, so that whoever hears of the project finds it. Events
that nobody is there to hear are kept: a collector that is installed tomorrow gets them tomorrow. Any number of relays
may run; each holds what it tells, and what a killed one held is told by another when the hold has passed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from prometheus_client import Gauge

from headrace.errors import CallerError, HeadraceError
from headrace.ports import Event
from headrace.services import Backoff, rest
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.completions import utc_now
from headrace_smap.database import Row, Step
from headrace_smap.envelope import PROJECT_CREATED
from headrace_smap.world import World

HOLD_S = 10.0
POLL_S = 1.0
ROOM = 500
UNHEARD = Backoff(0.5, 5.0)
REFUSED_S = 60.0

log = structlog.get_logger("smap")


def adding(events: Sequence[Event], origin: str, now: datetime) -> Step:
    """The step that commits events; one that is there already stays as it is."""
    rows = [
        {"event_id": event.event_id, "topic": event.topic, "body": event.body.hex(), "key": event.key}
        for event in events
    ]
    return "outbox_add", {"rows": rows, "origin": origin, "now": now}


def held(now: datetime, hold_s: float) -> dict[str, Any]:
    """A span of time as statements take it: SQLite goes by our clock, PostgreSQL by its own."""
    return {"now": now, "hold_s": hold_s, "until": now + timedelta(seconds=hold_s)}


class Relay:
    """Tells the bus what the outbox holds."""

    def __init__(self, world: World, accountant: Accountant, now: Callable[[], datetime] = utc_now) -> None:
        self._world, self._accountant, self._now = world, accountant, now
        self._holder = secrets.token_hex(8)
        self._bell = asyncio.Event()
        self._unpublished = Gauge(
            "headrace_smap_outbox_unpublished", "Events that the bus was not told yet.", registry=world.registry
        )
        self._oldest_s = Gauge(
            "headrace_smap_outbox_oldest_seconds", "Age of the oldest of them.", registry=world.registry
        )

    def ring(self) -> None:
        """There is something to tell."""
        self._bell.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Tell what is there, and what comes, until the stop."""
        while not stop.is_set():
            self._bell.clear()
            try:
                told = await self.relay()
                await self._measure()
            except HeadraceError as error:
                log.warning("outbox.failing", error=str(error))
                told = 0
            if told < ROOM:
                await rest(stop, POLL_S, self._bell)

    async def relay(self) -> int:
        """Tell one batch; how many events it had."""
        now = self._now()
        _, rows = await self._world.database.transact(
            ("outbox_hold", {"holder": self._holder, "room": ROOM, **held(now, HOLD_S)}),
            ("outbox_held", {"holder": self._holder}),
        )
        if not rows:
            return 0
        try:
            for project in dict.fromkeys(row[3] for row in rows if row[1] == PROJECT_CREATED):
                await self._accountant.open(project)
            await self._tell(rows)
        except CallerError:
            await self._tell_each(rows)
        except HeadraceError:
            await self._put_off([row[0] for row in rows], UNHEARD.first_s)
            raise
        return len(rows)

    async def _tell_each(self, rows: Sequence[Row]) -> None:
        """The bus refused the batch for one of them: the others do not wait for it."""
        for row in rows:
            try:
                await self._tell([row])
            except CallerError as error:
                log.error("outbox.refused", event_id=row[0], error=str(error))
                await self._put_off([row[0]], REFUSED_S)

    async def _tell(self, rows: Sequence[Row]) -> None:
        heard = await self._world.bus.publish([_event(row) for row in rows])
        told = tuple(row[0] for row, yes in zip(rows, heard, strict=True) if yes)
        if told:
            await self._world.database.rows("outbox_published", events=told, now=self._now())
        unheard = [row for row, yes in zip(rows, heard, strict=True) if not yes]
        if unheard:
            log.warning("outbox.unheard", events=len(unheard), topic=unheard[0][1], hint="is a consumer set up?")
            attempts = min(int(row[5]) for row in unheard)
            await self._put_off([row[0] for row in unheard], UNHEARD.pause_s(attempts + 1))

    async def _put_off(self, events: Sequence[str], delay_s: float) -> None:
        until = self._now() + timedelta(seconds=delay_s)
        await self._world.database.rows("outbox_later", events=tuple(events), delay_s=delay_s, until=until)

    async def _measure(self) -> None:
        ((unpublished, oldest_s),) = await self._world.database.rows("outbox_lag", now=self._now())
        self._unpublished.set(unpublished)
        self._oldest_s.set(oldest_s)


def _event(row: Row) -> Event:
    event_id, topic, body, key, created_at, _ = row
    return Event(event_id, topic, bytes(body), key, happened_at=created_at.timestamp())
