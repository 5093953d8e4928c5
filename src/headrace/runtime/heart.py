"""The heart renews what the worker holds, from a thread of its own: a blocked event loop does not starve it.

A renewal counts from before it was asked for. A claim that could not be renewed in time is dropped by the watch before
its hold ends by any clock: better to lose work than to be two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headrace.ports.seams import Beat
from headrace.ports.store import Store
from headrace.runtime.yard import Yard


class Heart:
    """Beats every third of the hold time. `on_lost` is called, from the heart's thread, if a claim was not kept."""

    def __init__(self, store: Store, worker: str, yard: Yard, on_lost: Callable[[frozenset[int]], None]) -> None:
        self._store, self._worker, self._yard, self._on_lost = store, worker, yard, on_lost
        self._beat: Beat | None = None
        self._failing = False

    def start(self) -> None:
        self._beat = self._yard.seams.threads.beat(self._yard.options.hold_s / 3, self.beat)

    def stop(self) -> None:
        if self._beat is not None:
            self._beat.stop()
            self._beat = None

    async def say_goodbye(self) -> None:
        """Nobody counts on this worker any more. If it is not heard, that costs a hold time and nothing else."""
        said = asyncio.wrap_future(self._yard.seams.threads.run(self._goodbye))
        await asyncio.wait((said,), timeout=self._yard.options.grace_s)

    def _goodbye(self) -> None:
        with suppress(Exception):
            self._store.renew(self._worker, (), 0.0)

    def beat(self) -> None:
        """Renew everything that is held. Nothing is assumed of a renewal that gave no answer."""
        yard = self._yard
        hold_s = yard.options.hold_s
        # Copying the keys is one step of the interpreter: the event loop may add and remove claims at the same time.
        fences = tuple(yard.held)
        asked_at = yard.now()
        try:
            renewed = self._store.renew(self._worker, fences, hold_s)
        except Exception as error:  # the thread must live whatever a store raises
            if self._beat is not None:
                yard.observer.event("renew.failed", error=type(error).__name__, detail=str(error))
            return
        for fence in renewed.kept:
            if (work := yard.held.get(fence)) is not None:
                work.good_until = max(work.good_until, asked_at + hold_s)
        for fence in renewed.ending:
            if (work := yard.held.get(fence)) is not None:
                work.ending = True
        lost = frozenset(fences) - renewed.kept - renewed.ending
        if lost and self._beat is not None:
            self._on_lost(lost)
