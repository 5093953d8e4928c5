"""Find the few records that a database refuses, without a round trip for each of those it takes.

The whole set is tried at once. Only when it is refused it is halved, and its halves again, until a refusal is about a
single record. If that record was folded from several tasks, each is tried by itself: the guilty die, the others are
folded anew and written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace_silver.records.values import EXCEPTION, Reject

T = TypeVar("T")
Folded = tuple[tuple[int, ...], T]

# A message may quote the value it is about, and a value may be megabytes.
MESSAGE_CHARS_MAX = 2_000


class RecordFault(Exception):
    """The database refuses a record for what it says; what was written along with it is undone."""


@dataclass(frozen=True, slots=True)
class Writing(Generic[T]):
    """How records of one kind are written and folded.

    `write` writes all or raises `RecordFault` and leaves nothing behind; `trial` does the same and always leaves
    nothing behind; `members` has the single records behind the folded ones, by task.
    """

    write: Callable[[Sequence[Folded[T]]], None]
    trial: Callable[[Folded[T]], None]
    fold: Callable[[Sequence[tuple[int, T]]], Sequence[Folded[T]]]
    members: dict[int, T]


def isolate(records: Sequence[Folded[T]], writing: Writing[T]) -> list[Reject]:
    """Write what can be written; the tasks that cannot, as rejects."""
    if not records:
        return []
    try:
        writing.write(records)
    except RecordFault as fault:
        if len(records) == 1:
            return _within(records[0], writing, fault)
        middle = len(records) // 2
        return isolate(records[:middle], writing) + isolate(records[middle:], writing)
    return []


def _within(record: Folded[T], writing: Writing[T], fault: RecordFault) -> list[Reject]:
    tasks, _ = record
    if len(tasks) == 1:
        return [rejected(tasks[0], fault)]
    guilty: list[Reject] = []
    for task in tasks:
        try:
            writing.trial(((task,), writing.members[task]))
        except RecordFault as own:
            guilty.append(rejected(task, own))
    dead = {reject.task_id for reject in guilty}
    others = [(task, writing.members[task]) for task in tasks if task not in dead]
    if not guilty:
        # Each would be taken by itself but not together: nobody can say which of them is wrong.
        return [rejected(task, fault) for task in tasks]
    return guilty + isolate(writing.fold(others), writing)


def rejected(task: int, fault: BaseException) -> Reject:
    return Reject(task, EXCEPTION, None, message_of(fault))


def message_of(fault: BaseException) -> str:
    """The words of a fault; never empty."""
    return clean(str(fault)) or type(fault).__name__


def clean(words: str) -> str:
    """As a text column can hold it."""
    return words[:MESSAGE_CHARS_MAX].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
