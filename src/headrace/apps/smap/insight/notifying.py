"""One notification per project and channel: a notice is written once, and sent until somebody has taken it.

`job.completed` only writes the notices; a sender claims those that are due. If it dies between the receiver's answer
and our commit, the notice is sent once more under the same id, by which a receiver can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from headrace.apps.smap import envelope
from headrace.apps.smap.consuming import PASSING, rest
from headrace.apps.smap.database import Database
from headrace.apps.smap.envelope import Malformed
from headrace.ports import Delivery

HOLD_S = 120.0
SEND_S_MAX = 60.0
POLL_S = 1.0
ATTEMPTS_MAX = 12
PAUSE_S_MIN, PAUSE_S_MAX = 2.0, 3_600.0
ROOM = 10
ERROR_CHARS_MAX = 500
log = structlog.get_logger("smap")


class Refused(Exception):
    """The receiver will never take it: sending again changes nothing."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What is told of one finished project. `id` is the same in every attempt."""

    id: str
    project: str
    counts: Mapping[str, object]
    report_url: str = ""


class Channel(Protocol):
    name: str

    async def send(self, notice: Notice) -> None:
        """Hand it over. `Refused`: for good; any other exception: later."""


class Teller(Protocol):
    """Who knows what is to be told."""

    async def notice(self, project: str, notice_id: str) -> Notice | None:
        """None: nobody is to be told of this project."""


class Notifier:
    """Writes notices and sends them. Any number may run."""

    def __init__(self, database: Database, channels: Sequence[Channel], teller: Teller) -> None:
        self._database, self._teller = database, teller
        self._channels = {channel.name: channel for channel in channels}
        self._news = asyncio.Event()

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """A batch of `job.completed`, in any of its forms."""
        for delivery in deliveries:
            try:
                project = envelope.read(delivery.event.body).project
            except Malformed as wrong:
                log.warning("completion.unreadable", event_id=delivery.event.event_id, rule=wrong.rule)
                continue
            await self.add(project)

    async def add(self, project: str) -> None:
        """The notices of a finished project; those that were written before stay as they are."""
        rows = [{"channel": name, "notice_id": envelope.derived_id("notice", project, name)} for name in self._channels]
        if rows:
            await self._database.rows("notice_add", project=project, rows=rows, now=_now())
            self._news.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due until `stop` is set."""
        while not stop.is_set():
            self._news.clear()
            try:
                sent = await self.send_due()
            except PASSING as error:
                log.warning("notices.failing", error=str(error))
                sent = 0
            if not sent:
                await rest(stop, POLL_S, self._news)

    async def send_due(self) -> int:
        """Send one batch of due notices; how many were tried."""
        if not self._channels:
            return 0
        now = _now()
        until = now + timedelta(seconds=HOLD_S)
        due = await self._database.rows("notice_claim", now=now, until=until, room=ROOM)
        await asyncio.gather(*(self._send(str(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in due))
        return len(due)

    async def _send(self, project: str, channel: str, notice_id: str, attempts: int) -> None:
        values = {"project": project, "channel": channel}
        try:
            notice = await self._teller.notice(project, notice_id)
            if notice is not None and channel in self._channels:
                async with asyncio.timeout(SEND_S_MAX):
                    await self._channels[channel].send(notice)
        except Exception as error:
            final = isinstance(error, Refused) or attempts >= ATTEMPTS_MAX
            state = "given up" if final else "waiting"
            due = _now() + timedelta(seconds=min(PAUSE_S_MAX, PAUSE_S_MIN * 2**attempts))
            reason = f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
            log.warning("notice.failed", project=project, channel=channel, attempts=attempts, state=state, error=reason)
            await self._database.rows("notice_failed", **values, state=state, due=due, error=reason)
            return
        await self._database.rows("notice_sent", **values, now=_now())


def _now() -> datetime:
    return datetime.now(UTC)
