"""What lies in `analytics.errors`: looking at it, and taking out what is not true any more.

Others read that queue too, and a letter is only ever added to it by an analysis. It is *stale* when its post has since
ended well, when a later letter tells of the same post, or when its project was deleted; a retry and a deletion leave
such letters behind. A letter whose post nobody knows is never stale: it is somebody else's, or on its way to the
database, which is told after the queue.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, cast

import headrace
from headrace.errors import NotFound
from headrace.ports import Bus, BusOperations, Delivery, Event
from headrace_smap.analytics.batch import post_of
from headrace_smap.database import Database
from headrace_smap.envelope import ERRORS_QUEUE, EXCHANGE
from headrace_smap.parts import SmapParts

LETTERS_MAX = 10_000
"""So many are looked at, the oldest first: they are in our hands meanwhile, and for nobody else to take."""
RECEIVE_MAX = 1_000
HOLD_S = 60.0
TAKE_S_MAX = HOLD_S / 3
"""Letters whose reader was killed come one at a time. What is not given back within its hold counts as a failure of the
letter, and at the last of these it would be gone from the queue."""
FAILED, DONE = "failed", "done"


@dataclass(frozen=True, slots=True)
class ErrorLetter:
    """One letter. `rule`, `reason` and `attempt` are what its writer says. `known`: we count its post as failed."""

    id: str
    project: str
    item: str
    rule: str
    reason: str
    attempt: str
    known: bool
    stale: bool


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """`depth` is the whole queue, of which `seen` were looked at; the others are of those."""

    depth: int
    seen: int
    stale: int
    unknown: int
    rules: dict[str, int]
    projects: dict[str, int]


class LetterPlace(Protocol):
    async def read(self) -> list[Event]:
        """The oldest letters, up to LETTERS_MAX, which stay where they are."""

    async def remove(self, ids: frozenset[str]) -> int:
        """Take out the letters of these ids; how many they were."""


class BrokerLetters:
    """In RabbitMQ, where a bus is told that these are its dead letters."""

    def __init__(self, operations: BusOperations) -> None:
        self._operations = operations

    async def read(self) -> list[Event]:
        return [letter.event for letter in await self._operations.dead(ERRORS_QUEUE, LETTERS_MAX)]

    async def remove(self, ids: frozenset[str]) -> int:
        return await self._operations.purge(ERRORS_QUEUE, tuple(ids))


class StoreLetters:
    """In a store, where they wait for a subscription that nobody consumes."""

    def __init__(self, bus: Bus, take_s_max: float = TAKE_S_MAX) -> None:
        self._bus, self._take_s_max = bus, take_s_max

    async def read(self) -> list[Event]:
        held = await self._taken()
        await self._bus.requeue(held)
        return [each.event for each in held]

    async def remove(self, ids: frozenset[str]) -> int:
        held = await self._taken()
        chosen = [each for each in held if each.event.event_id in ids]
        await self._bus.requeue([each for each in held if each.event.event_id not in ids])
        return sum(await self._bus.ack(chosen))

    async def _taken(self) -> list[Delivery]:
        held: list[Delivery] = []
        clock = asyncio.get_running_loop().time
        began = clock()
        while len(held) < LETTERS_MAX and (not held or clock() - began < self._take_s_max):
            try:
                received = await self._bus.receive(ERRORS_QUEUE, f"letters-{os.getpid()}", RECEIVE_MAX, HOLD_S)
            except NotFound:
                # No analysis of ours ever ran here.
                break
            if not received.deliveries:
                break
            held += received.deliveries
        return held


class LetterQueue:
    """Counts, shows and removes letters."""

    def __init__(self, database: Database, place: LetterPlace, bus: Bus) -> None:
        self._database, self._place, self._bus = database, place, bus

    async def letters(self, project: str | None = None) -> list[ErrorLetter]:
        """The oldest first."""
        posts = [(event, post_of(event)) for event in await self._place.read()]
        names = [post.name for _, post in posts]
        rows = [{"project": name, "item": item} for name, item in dict.fromkeys(names)]
        states = {(name, item): (state, gone) for name, item, state, gone in await self._states(rows)}
        newest = {post.name: event.event_id for event, post in posts}
        found = []
        for event, post in posts:
            state, gone = states.get(post.name, (None, False))
            stale = gone or state == DONE or newest[post.name] != event.event_id
            said = event.headers or {}
            told = (said.get("rule", ""), said.get("reason", ""), said.get("attempt", ""))
            found.append(ErrorLetter(event.event_id, *post.name, *told, state == FAILED, stale))
        return [letter for letter in found if project in (None, letter.project)]

    async def counts(self) -> LetterCounts:
        letters, depth = await self.letters(), await letter_depth(self._bus)
        true = [letter for letter in letters if not letter.stale]
        return LetterCounts(
            max(depth, len(letters)),
            len(letters),
            len(letters) - len(true),
            sum(not letter.known for letter in true),
            dict(Counter(letter.rule or "unknown" for letter in true).most_common()),
            dict(Counter(letter.project for letter in true).most_common()),
        )

    async def remove(self, letters: Sequence[ErrorLetter]) -> int:
        ids = frozenset(letter.id for letter in letters)
        return await self._place.remove(ids) if ids else 0

    async def _states(self, rows: Sequence[dict[str, str]]) -> list[tuple[str, str, str | None, bool]]:
        return [(*row,) for row in await self._database.rows("letter_posts", rows=rows)] if rows else []


async def letter_depth(bus: Bus) -> int:
    """How many letters there are, in whosever hands."""
    try:
        backlog = await cast("BusOperations", bus).backlog(ERRORS_QUEUE)
    except NotFound:
        return 0
    return backlog.waiting + backlog.held


@asynccontextmanager
async def open_letters(parts: SmapParts) -> AsyncIterator[LetterQueue]:
    """The queue of these parts, for as long as the block runs."""
    if not parts.settings.amqp_url:
        yield LetterQueue(parts.database, StoreLetters(parts.bus), parts.bus)
        return
    opened = headrace.bus(parts.settings.amqp_url, exchange=EXCHANGE, prefetch=1, dead_letters=ERRORS_QUEUE)
    async with opened as bus:
        yield LetterQueue(parts.database, BrokerLetters(cast("BusOperations", bus)), parts.bus)
