"""What fails while others do not is left alone for a while, twice as long each time: the others wait for every try."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class GrowingRests(Generic[K]):
    """The rests of one loop: the first one, and the longest."""

    def __init__(self, first: timedelta, longest: timedelta, now: Callable[[], datetime]) -> None:
        self._first, self._longest, self._now = first, longest, now
        # How long each rests, and until when.
        self._rests: dict[K, tuple[timedelta, datetime]] = {}

    def rests(self, key: K) -> bool:
        """Not for as long as a clock was set back."""
        now = self._now()
        _, until = self._rests.get(key, (timedelta(), now))
        return now < until <= now + self._longest

    def failed(self, key: K) -> timedelta:
        """How long it is left alone now."""
        before, _ = self._rests.get(key, (timedelta(), None))
        rest = min(max(2 * before, self._first), self._longest)
        self._rests[key] = (rest, self._now() + rest)
        return rest

    def worked(self, key: K) -> None:
        self._rests.pop(key, None)
