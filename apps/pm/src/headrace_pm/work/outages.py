"""For how long files wait for something that is away: the longer it is away, the longer.

Thousands of files may wait for one server or sink. If each asked again after a fixed pause, they would take all places
of the worker by turns, and nothing else would get on. So a file waits about as long as the outage has lasted: when it
ends, nobody waits for longer than it took.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

PAUSE_S_MIN, PAUSE_S_MAX = 2.0, 300.0


class OutageClock:
    """Outages by the name of what is away."""

    def __init__(self, now: Callable[[], float] = time.monotonic, chance: Callable[[], float] = random.random) -> None:
        self._now, self._chance = now, chance
        self._since: dict[str, float] = {}

    @property
    def away(self) -> tuple[str, ...]:
        """What is away now, as far as is known."""
        return tuple(self._since)

    def failed(self, name: str) -> float:
        """It was asked and is away: how long to wait before it is asked for the same file."""
        lasted_s = self._now() - self._since.setdefault(name, self._now())
        # Spread, so that those who met it together do not come back together.
        return min(max(lasted_s, PAUSE_S_MIN), PAUSE_S_MAX) * (0.5 + self._chance())

    def passed(self, name: str) -> None:
        """It answers."""
        self._since.pop(name, None)
