"""One notification per project and channel: a notice is written once, and sent until somebody has taken it.

`job.completed` only writes the notices; a sender claims those that are due. Anybody may announce an end too early, and
there is one notice only: that of a project we know is due when the truth says that it is finished. One that we do not
know is believed at once. If the sender dies between the receiver's answer and our commit, the notice is sent once more
under the same id, by which a receiver can tell.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

import structlog

from headrace.consuming import Delivery, trace_of
from headrace.errors import HeadraceError
from headrace.services import Backoff, rest
from headrace_smap import envelope
from headrace_smap.database import Database
from headrace_smap.envelope import Malformed
from headrace_smap.receivers import Receiver, ReceiverBook

HOLD_S = 120.0
SEND_S_MAX = 60.0
POLL_S = 1.0
PAUSES = Backoff(2.0, 3_600.0)
ATTEMPTS_MAX = 80
"""Three days with these pauses: a mail server that is away over a weekend loses no alert."""
ROOM = 10
ERROR_CHARS_MAX = 500
COUNTS = ("total", "done", "errors")
SENTIMENTS = ("positive", "neutral", "negative")
COUNT_MAX = 2**53
"""Larger numbers are not the same in every JSON."""
log = structlog.get_logger("smap")


class NoticeRefused(Exception):
    """The receiver will never take it, or is not to have it: sending again changes nothing."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the posts of a project say: how many by sentiment and by risk (None: nobody knows), spam left out, and how
    many are spam or were made up."""

    sentiments: Counter[str]
    risk: Counter[str] | None = None
    spam: int = 0
    simulated: int = 0

    @property
    def posts(self) -> int:
        return self.sentiments.total() + self.spam

    @property
    def shares(self) -> dict[str, float]:
        """Of the posts that are no spam; nothing if there are none."""
        total = self.sentiments.total()
        return {name: self.sentiments[name] / total for name in SENTIMENTS} if total else {}


@dataclass(frozen=True, slots=True)
class Notice:
    """What is told of one finished project. `id` is the same in every attempt. `counts`: total, done and errors, or
    nothing if nobody knows them; `name` is what people call it; `failed_tasks` of its crawl found nothing."""

    id: str
    project: str
    counts: Mapping[str, int]
    report_url: str = ""
    name: str = ""
    summary: Summary | None = None
    failed_tasks: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the crawl failed as a whole: there is nothing to be analysed."""
        return bool(self.failed_tasks) and self.counts.get("total") == 0


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """What is handed over: for people a subject and a text, for programs its kind and data. `id` is the same in every
    attempt."""

    id: str
    subject: str
    text: str
    kind: str
    data: Mapping[str, Any]


class DueNotice(NamedTuple):
    """A notice that was claimed. `counts`: what the announcement said, if it did; `alert`: the batch of alerts that it
    tells, if it tells no end."""

    notice_id: str
    project: str
    channel: str
    receiver: str
    attempts: int
    counts: Mapping[str, int] | None
    alert: str | None


class Channel(Protocol):
    name: str

    async def send(self, message: OutgoingMessage, receiver: Receiver) -> None:
        """Hand it over. `NoticeRefused`: for good; any other exception: later."""


class Teller(Protocol):
    """Who knows what is to be told."""

    async def message(self, due: DueNotice) -> OutgoingMessage:
        """`NoticeRefused`: nobody is to be told of this project."""


class Notifier:
    """Writes notices and sends them. Any number may run."""

    def __init__(
        self, database: Database, channels: Sequence[Channel], receivers: ReceiverBook, teller: Teller
    ) -> None:
        self._database, self._receivers, self._teller = database, receivers, teller
        self._channels = {channel.name: channel for channel in channels}
        self._news = asyncio.Event()

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """A batch of `job.completed`, in any of its forms."""
        for delivery in deliveries:
            try:
                message = envelope.read(delivery.event.body)
            except Malformed as wrong:
                log.warning("completion.unreadable", event_id=delivery.event.event_id, rule=wrong.rule)
                continue
            # Ends that come together are of several traces.
            trace = trace_of(delivery.event)
            with structlog.contextvars.bound_contextvars(**({"traceparent": trace} if trace else {})):
                log.info("completion.received", project=message.project)
                await self.add(message.project, _counts(message.payload))

    async def add(self, project: str, counts: Mapping[str, int] | None = None) -> None:
        """The notices of a project whose end was announced; those that were written before stay as they are."""
        rows = [
            {"channel": to.channel, "receiver": to.name, "notice_id": _notice_id(project, to), "counts": counts}
            for to in await self._receivers.of(project)
        ]
        if rows:
            await self._database.rows("notice_add", project=project, rows=rows, now=_now())
            self._news.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is due until `stop` is set."""
        while not stop.is_set():
            self._news.clear()
            try:
                sent = await self.send_due()
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("notices.failing", error=str(error))
                sent = 0
            if not sent:
                await rest(stop, POLL_S, self._news)

    async def send_due(self) -> int:
        """Send one batch of due notices; how many were tried."""
        now = _now()
        until = now + timedelta(seconds=HOLD_S)
        due = await self._database.rows("notice_claim", now=now, until=until, room=ROOM)
        await asyncio.gather(*(self._send(DueNotice(*row)) for row in due))
        return len(due)

    async def _send(self, due: DueNotice) -> None:
        try:
            message = await self._teller.message(due)
            channel, receiver = await self._way(due)
            async with asyncio.timeout(SEND_S_MAX):
                await channel.send(message, receiver)
        except Exception as error:
            await self._failed(due, error)
            return
        await self._database.rows("notice_sent", notice=due.notice_id, now=_now())

    async def _way(self, due: DueNotice) -> tuple[Channel, Receiver]:
        """How to reach whom it is for, as the project and the settings say by now."""
        named = await self._receivers.of(due.project)
        receiver = next((each for each in named if (each.channel, each.name) == (due.channel, due.receiver)), None)
        if receiver is None:
            raise NoticeRefused("nobody wants it there any more")
        if due.channel not in self._channels:
            raise NoticeRefused(f"no {due.channel} can be sent: SMAP_SMTP_URL is not set")
        return self._channels[due.channel], receiver

    async def _failed(self, due: DueNotice, error: Exception) -> None:
        final = isinstance(error, NoticeRefused) or due.attempts >= ATTEMPTS_MAX
        state = "given up" if final else "waiting"
        later = _now() + timedelta(seconds=PAUSES.pause_s(due.attempts + 1))
        reason = f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
        about = {"project": due.project, "channel": due.channel, "attempts": due.attempts}
        log.warning("notice.failed", **about, state=state, error=reason)
        await self._database.rows("notice_failed", notice=due.notice_id, state=state, due=later, error=reason)


def _notice_id(project: str, receiver: Receiver) -> str:
    """The same for the same receiver, whenever it is told."""
    name = (receiver.name,) if receiver.name else ()
    return envelope.derived_id("notice", project, receiver.channel, *name)


def _counts(payload: Mapping[str, Any]) -> dict[str, int] | None:
    """What an announcement says, if it says all of it in numbers: anybody may have written it."""
    counts = {name: count for name in COUNTS if type(count := payload.get(name)) is int and 0 <= count <= COUNT_MAX}
    return counts if len(counts) == len(COUNTS) else None


def _now() -> datetime:
    return datetime.now(UTC)
