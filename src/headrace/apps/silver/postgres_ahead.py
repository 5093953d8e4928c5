"""Which tasks come next, found out for many batches at once.

A deleted task stays in the queue's index until a vacuum, and a search for the next ones begins at the front every
time: after a million tasks it passes a million that are gone, in every batch (measured: 9 ms at the start of 200,000
tasks, 30 ms towards their end). While one full batch follows another, the search therefore goes far ahead, and the
batches lock what it found by key. It is good for a second: an urgent task that arrives meanwhile waits no longer than
that. Only a search from the front may say that the queue is empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BATCHES = 20
SECONDS_MAX = 1.0
TASKS_MAX = 50_000


@dataclass(slots=True)
class Ahead:
    """Ids in the order of their turn, those that come first at the end."""

    _ids: list[int] = field(default_factory=list)
    _found_at: float = 0.0
    _is_busy: bool = False

    def taken(self, asked: int, got: int) -> None:
        """How a batch went. Less than was asked for: the queue ends here, or somebody else is at it."""
        self._is_busy = 0 < asked <= got
        if not self._is_busy:
            self._ids.clear()

    def forget(self) -> None:
        """A batch was not settled: its tasks are at the front again."""
        self.taken(0, 0)

    def next(self, size: int, search: Callable[[int], Sequence[int]]) -> list[int]:
        """The ids of the next batch; none if it is to be searched from the front."""
        if not self._is_busy:
            return []
        if len(self._ids) < size or time.monotonic() - self._found_at > SECONDS_MAX:
            self._ids = list(search(min(BATCHES * size, TASKS_MAX)))[::-1]
            self._found_at = time.monotonic()
        cut = len(self._ids) - size
        if cut < 0:
            return []
        ids = self._ids[cut:]
        del self._ids[cut:]
        return ids
