"""What any manager does for everybody: pay what a lost process owed, forget messages that waited and are gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import structlog

import headrace
from headrace.errors import HeadraceError
from headrace.services import Pauses, rest
from headrace_matching.phases.transitions import Transitions

SWEEP_S = 5.0
# A message may come again after it was refused, if the refusal was not acknowledged; then it waits anew.
KEPT_BEYOND_S = 600.0
log = structlog.get_logger("matching")


class Sweep:
    """Looks every few seconds. Any number may run."""

    def __init__(self, engine: headrace.Engine, transitions: Transitions, lookback_s: float) -> None:
        self._engine, self._transitions = engine, transitions
        self._kept_s = lookback_s + KEPT_BEYOND_S

    async def run(self, stop: asyncio.Event) -> None:
        pauses = Pauses()
        while not stop.is_set():
            try:
                await self.look(datetime.now(UTC))
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("sweep.failing", error=str(error))
                await rest(stop, pauses.next_s())
                continue
            pauses.reset()
            await rest(stop, SWEEP_S)

    async def look(self, now: datetime) -> None:
        """One look."""
        await self._transitions.pay_owed()
        await self._engine.run("unknown_sweep", before=now - timedelta(seconds=self._kept_s))
