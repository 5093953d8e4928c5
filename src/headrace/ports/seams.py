"""Where headrace touches the world: time, chance, identity and threads.

Production passes the real ones; the simulator passes its own and so decides everything that happens.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    def wall(self) -> float:
        """Seconds since the epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds that only go forward, the same for all processes of a machine since it booted."""

    def boot_id(self) -> str:
        """Which boot `monotonic` counts from."""


class Chance(Protocol):
    def random(self) -> float:
        """In [0, 1)."""


class Identity(Protocol):
    def new(self) -> str:
        """An opaque id that sorts by time of making."""


class Beat(Protocol):
    def stop(self) -> None:
        """No further beat starts after this returns."""


class Threads(Protocol):
    def beat(self, every_s: float, work: Callable[[], None]) -> Beat:
        """Call `work` every `every_s` seconds beside the event loop, whatever the loop does."""

    def run(self, work: Callable[[], T]) -> Future[T]:
        """Run blocking user code beside the event loop, in a thread of its own."""
