"""Keeps `analytics.errors` true: letters that a retry or a deletion made stale are taken out. Its depth is a metric.

The queue is walked through when it holds more than the truth has failed posts, and not all the time, because meanwhile
it is empty for others. Letters beyond that which are not stale are somebody else's, or of posts that are counted in the
next moment: their number is remembered. Letters that others took out can hide as many stale ones: so it is walked
through now and then, whatever it holds.
"""

from __future__ import annotations

import asyncio

import structlog
from prometheus_client import Counter, Gauge

from headrace.errors import HeadraceError
from headrace.services import rest
from headrace_smap.letters.error_queue import letter_depth, open_letters
from headrace_smap.parts import SmapParts

LOOK_S = 5.0
LOOKS_BETWEEN = 120
"""After so many looks, ten minutes, every letter is judged anew."""

log = structlog.get_logger("smap")


class LetterSweeper:
    """Any number may run: letters in the hands of another are left for the next time."""

    def __init__(self, parts: SmapParts) -> None:
        self._parts, self._beyond, self._looks = parts, 0, 0
        self._depth = Gauge("headrace_smap_letters", "Letters in analytics.errors", registry=parts.registry)
        self._removed = Counter(
            "headrace_smap_letters_removed", "Letters taken out because they were stale", registry=parts.registry
        )

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.look()
            except HeadraceError as error:
                log.warning("letters.failing", error=str(error))
            await rest(stop, LOOK_S)

    async def look(self) -> int:
        """Measure, and take out what is stale if there can be any; how many letters were."""
        depth = await letter_depth(self._parts.bus)
        ((failed,),) = await self._parts.database.rows("letter_failed")
        self._looks += 1
        again = self._looks % LOOKS_BETWEEN == 0
        removed = await self._sweep(depth) if depth > (0 if again else failed + self._beyond) else 0
        self._depth.set(depth - removed)
        return removed

    async def _sweep(self, depth: int) -> int:
        async with open_letters(self._parts) as queue:
            letters = await queue.letters()
            removed = await queue.remove([letter for letter in letters if letter.stale])
        unknown = sum(not (letter.known or letter.stale) for letter in letters)
        self._beyond = unknown + max(0, depth - len(letters))
        if removed:
            self._removed.inc(removed)
            log.info("letters.removed", letters=removed)
        return removed
