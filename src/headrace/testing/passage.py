"""How a test lets a store's time pass.

A store that takes its clock as an argument gets one that is moved by hand, and an hour passes at once.
A store that keeps its own clock (a server) is waited for, with holds and delays short enough to wait for.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Passage(Protocol):
    """`hold_s` outlasts any test; `brief_s` is a hold or a delay that a test can afford to see pass."""

    @property
    def hold_s(self) -> float: ...

    @property
    def brief_s(self) -> float: ...

    async def past(self, seconds: float) -> None:
        """Return when the store's clock has moved on by a little more than `seconds`."""


class ManualClock:
    """A clock that stands still until it is moved. Wall and monotonic time can be moved apart."""

    def __init__(self, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0, boot: str = "boot-1") -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._boot = boot

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def boot_id(self) -> str:
        return self._boot

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._monotonic += seconds

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock, as an operator or a time service does; no time passes."""
        self._wall += seconds


class ManualPassage:
    """Passes time on a clock moved by hand."""

    hold_s = 30.0
    brief_s = 30.0

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    async def past(self, seconds: float) -> None:
        self._clock.advance(seconds + 0.2)


class RealPassage:
    """Waits for a server's own clock."""

    hold_s = 60.0

    def __init__(self, brief_s: float = 0.4) -> None:
        self.brief_s = brief_s

    async def past(self, seconds: float) -> None:
        await asyncio.sleep(seconds + 0.15)
