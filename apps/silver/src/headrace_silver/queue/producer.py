"""The producer's side: tasks into the queue, a whole file or nothing of it.

Everything goes through one stream of the database (COPY in PostgreSQL) inside one transaction per file: a row that is
no task stops its file, and the queue is as if the file had never been begun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.errors import CallerError
from headrace_silver.records.record_files import FileReading, Incoming, read_tasks
from headrace_silver.stores.silver_store import SilverStore

PRIORITY = 100
PRIORITY_MIN, PRIORITY_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True)
class Put:
    """What became of one file: how many tasks of each kind are in the queue now, or why none is."""

    file: str
    kinds: Counter[str] = field(default_factory=Counter)
    error: str | None = None

    @property
    def count(self) -> int:
        return self.kinds.total()


def put_file(store: SilverStore, path: str, reading: FileReading, priority: int = PRIORITY) -> Put:
    """Put all of a file, or nothing and say why."""
    try:
        return Put(path, put_tasks(store, read_tasks(path, reading), priority))
    except CallerError as error:
        return Put(path, error=f"{error}{f' ({error.hint})' if error.hint else ''}")


def put_tasks(store: SilverStore, tasks: Iterable[Incoming], priority: int = PRIORITY) -> Counter[str]:
    """Put tasks in one transaction; how many of each kind."""
    kinds: Counter[str] = Counter()

    def rows() -> Iterator[tuple[str, str, int]]:
        for task in tasks:
            kinds[task.kind] += 1
            chosen = priority if task.priority is None else task.priority
            if not PRIORITY_MIN <= chosen <= PRIORITY_MAX:
                raise CallerError(f"the priority {chosen} is beyond an integer", "smaller is more urgent; usual is 100")
            yield task.kind, task.payload, chosen

    with store.transaction():
        store.load("put_tasks", rows())
        if kinds:
            store.rows("put_ready")
    return kinds
