"""Which tasks come next, found out for many batches at once, and what the next batch will write.

A deleted task stays in the queue's index until a vacuum, and a search for the next ones begins at the front every
time: after a million tasks it passes a million that are gone, in every batch (measured: 10 ms, as long as half a batch
takes). While one full batch follows another, the search therefore goes far ahead, and the batches lock what it found by
key. It is good for a second: an urgent task that arrives meanwhile waits no longer than that. Only a search from the
front may say that the queue is empty.

The tasks of the next batch are read, without a lock, together with the lock on those of this one, and are judged and
packed while the database is busy with this one. When their turn comes, they are locked if nobody touched them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace_silver.records.values import Task
from headrace_silver.stores.postgres.binary_arrays import Packed, integers
from headrace_silver.stores.postgres.records import BatchDraft

BATCHES = 20
SECONDS_MAX = 1.0
TASKS_MAX = 50_000


@dataclass(slots=True)
class Coming:
    """Tasks as they were read before their turn, the transactions that wrote them, and what will be written."""

    tasks: Sequence[Task]
    writers: set[int]
    draft: BatchDraft | None = None

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> Coming:
        return cls([Task(*row[:4]) for row in rows], {row[4] for row in rows})

    def values(self) -> dict[str, Packed]:
        """By which they can be held, as long as they are as they were."""
        return {"ids": integers([task.id for task in self.tasks]), "writers": integers(list(self.writers))}


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

    def next(self, size: int, search: Callable[[int], Sequence[int]], held: Sequence[Task] = ()) -> list[int]:
        """The ids of the batch after the tasks that are held; none if it is to be searched from the front."""
        if not self._is_busy:
            return []
        if len(self._ids) < size or time.monotonic() - self._found_at > SECONDS_MAX:
            known = {task.id for task in held}
            found = search(min(BATCHES * size, TASKS_MAX) + len(known))
            self._ids = [task for task in reversed(found) if task not in known]
            self._found_at = time.monotonic()
        cut = len(self._ids) - size
        if cut < 0:
            return []
        ids = self._ids[cut:]
        del self._ids[cut:]
        return ids
