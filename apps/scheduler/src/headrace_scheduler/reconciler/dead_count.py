"""How many jobs are dead: each of them waits for a person, and a series tells of it until somebody has come."""

from __future__ import annotations

import time

from headrace_scheduler.parts import SchedulerParts

LOOK_S = 10.0
# What takes long is not done again before so many times as long have passed.
REST_SHARE = 10.0
COUNTED_MAX = 10_000
"""Whether there are more makes no difference to whoever is called."""


class DeadCount:
    """Counted by the reconciler that leads, and by no other."""

    def __init__(self, parts: SchedulerParts) -> None:
        self._dead, self._metrics = parts.tables.dead, parts.metrics
        self._look_at = float("-inf")

    async def step(self) -> None:
        """Count again, if it is time."""
        began = time.monotonic()
        if began < self._look_at:
            return
        self._metrics.dead_now(await self._dead.count(COUNTED_MAX))
        ended = time.monotonic()
        self._look_at = ended + max(LOOK_S, REST_SHARE * (ended - began))

    def stop(self) -> None:
        """Another process counts from now on."""
        self._look_at = float("-inf")
        self._metrics.dead_now(0)
