"""Dead letters: how many and why, one in full, all of them in a file, and the way back into the queue.

A letter is open until it is redriven or closed, and only the last letter of a task counts: a task that was redriven and
died again has two. The mark of a redrive is a row of `silver_redrive` under the letter's id, written in the transaction
that makes the task ready again, so that no letter is redriven twice. A person closes a letter with a note
(`silver_closed`): its task stays dead, and only after it was reopened it can be redriven. Both take one lock, so no
letter is closed and redriven. The queue's own tables get no new column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headrace.errors import CallerError, NotFound
from headrace_silver.records.kinds import kind_of
from headrace_silver.records.payloads import NotAnObject, decode
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, UNKNOWN_TASK_TYPE
from headrace_silver.stores.silver_store import SilverStore

LETTERS_MAX = 100_000_000
PAGE = 1_000
REDRIVE_PAGE = 50_000
NOTE_CHARS_MAX = 2_000
OLDEST_FIRST, NEWEST_FIRST = 1, -1
LEFT_SHOWN_MAX = 100
_PREFIXES = {"ta_": TA_BAR, "sa_": SA_ARTICLE}


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters. `every`: redriven, closed and outdated ones too."""

    reason: str | None = None
    rule: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[int, ...] = ()
    every: bool = False

    @property
    def narrows(self) -> bool:
        return any((self.reason, self.rule, self.since, self.until, self.ids))

    def values(self, **others: object) -> dict[str, object]:
        """As the statements take it."""
        return {
            "reason": self.reason,
            "rule": self.rule,
            "since": self.since,
            "until": self.until,
            "ids": json.dumps(self.ids) if self.ids else None,
            "every": self.every,
            **others,
        }


@dataclass(frozen=True, slots=True)
class Letter:
    """One row of `task_q_dlq`, when it was redriven, and who closed it with which note. `payload` is JSON text."""

    id: int
    task_id: int | None
    reason: str
    rule_id: str | None
    error_msg: str | None
    created_at: datetime
    redriven_at: datetime | None
    closed_at: datetime | None
    closed_by: str | None
    note: str | None
    payload: str | None

    @property
    def kind(self) -> str | None:
        return kind_of_letter(self.reason, self.rule_id, self.payload)


@dataclass(frozen=True, slots=True)
class LetterCount:
    """How many letters have one reason and rule, and from when to when."""

    reason: str
    rule_id: str | None
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(slots=True)
class Redriven:
    """What a redrive did: tasks made ready, tasks made anew from their letter, and letters it could not help.

    `left` has (letter, why) of the first of these.
    """

    ready: int = 0
    anew: int = 0
    left_count: int = 0
    left: list[tuple[int, str]] = field(default_factory=list)

    def leave(self, letter: int, why: str) -> None:
        self.left_count += 1
        if len(self.left) < LEFT_SHOWN_MAX:
            self.left.append((letter, why))


@dataclass(frozen=True, slots=True)
class LetterNote:
    """What a person writes about the letters that it closes."""

    text: str
    by: str

    def __post_init__(self) -> None:
        for name, said in (("note", self.text), ("name", self.by)):
            if not said.strip() or len(said) > NOTE_CHARS_MAX or "\0" in said:
                hint = '--note "the exchange cancelled these trades", --by NAME'
                raise CallerError(f"a {name} has 1 to {NOTE_CHARS_MAX:,} characters", hint)


def counts(store: SilverStore, which: LetterFilter) -> list[LetterCount]:
    """Open letters by reason and rule, most first."""
    return [LetterCount(*row) for row in store.rows("letters_counts", which.values())]


def newest(store: SilverStore, which: LetterFilter, limit: int = LETTERS_MAX) -> Iterator[Letter]:
    """Letters, newest first. Which they are is asked once, what they hold page by page."""
    ids = _chosen(store, which, NEWEST_FIRST, limit)
    for start in range(0, len(ids), PAGE):
        for row in store.rows("letters_of", _ids(ids[start : start + PAGE])):
            yield Letter(*row)


def one(store: SilverStore, letter: int) -> tuple[Letter, str | None, str | None]:
    """A letter, and the type and status of its task if that is still in the queue."""
    found = store.rows("letters_of", _ids([letter]))
    if not found:
        raise NotFound(f"there is no letter {letter}", "headrace silver dead list")
    task = store.rows("letters_task", {"id": letter})
    task_type, status = task[0] if task else (None, None)
    return Letter(*found[0]), task_type, status


def letter_document(letter: Letter) -> dict[str, Any]:
    """With stable keys; the payload as the JSON it is."""
    return {
        "id": letter.id,
        "task_id": letter.task_id,
        "task_type": letter.kind,
        "reason": letter.reason,
        "rule_id": letter.rule_id,
        "error_msg": letter.error_msg,
        "created_at": letter.created_at.isoformat(),
        "redriven_at": letter.redriven_at.isoformat() if letter.redriven_at else None,
        "closed_at": letter.closed_at.isoformat() if letter.closed_at else None,
        "closed_by": letter.closed_by,
        "note": letter.note,
        "payload": None if letter.payload is None else json.loads(letter.payload),
    }


def redrive(store: SilverStore, which: LetterFilter, limit: int) -> Redriven:
    """Give the tasks of open letters another passage, oldest letters first: all in one transaction."""
    done = Redriven()
    with store.transaction():
        store.rows("redrive_begin")
        ids = _chosen(store, which, OLDEST_FIRST, limit)
        for letter in _stated(store, which, ids):
            if letter.closed_at is not None:
                done.leave(letter.id, f"{_why_not_open(letter)}; to reopen it: headrace silver dead reopen {letter.id}")
        for start in range(0, len(ids), REDRIVE_PAGE):
            page = ids[start : start + REDRIVE_PAGE]
            _bring_back(store, dict(store.rows("redrive_mark", _ids(page))), done)
        if done.ready or done.anew:
            store.rows("put_ready")
    return done


def close(store: SilverStore, which: LetterFilter, note: LetterNote, limit: int) -> tuple[int, list[tuple[int, str]]]:
    """Close open letters; how many, and of those that were named but not open why not."""
    with store.transaction():
        store.rows("redrive_begin")
        ids = _chosen(store, which, OLDEST_FIRST, limit)
        left = [(letter.id, _why_not_open(letter)) for letter in _stated(store, which, ids)]
        for start in range(0, len(ids), REDRIVE_PAGE):
            page = _ids(ids[start : start + REDRIVE_PAGE])
            store.rows("letters_close", {**page, "note": note.text, "closed_by": note.by})
    return len(ids), left


def reopen(store: SilverStore, letters: Iterable[int]) -> list[int]:
    """Take back that these letters were closed; which of them were."""
    with store.transaction():
        store.rows("redrive_begin")
        return sorted(row[0] for row in store.rows("letters_reopen", _ids(letters)))


def _stated(store: SilverStore, which: LetterFilter, ids: list[int]) -> list[Letter]:
    """The letters that were named by their ids and are not among the chosen ones."""
    others = sorted(set(which.ids) - set(ids))
    return [Letter(*row) for row in store.rows("letters_of", _ids(others))] if others else []


def _why_not_open(letter: Letter) -> str:
    if letter.closed_at is not None:
        return f"{letter.closed_by} closed it on {letter.closed_at:%Y-%m-%d} ({letter.note})"
    if letter.redriven_at is not None:
        return f"it was redriven on {letter.redriven_at:%Y-%m-%d}"
    return "it is not among those that were asked for, or its task has a later one"


def _chosen(store: SilverStore, which: LetterFilter, direction: int, limit: int) -> list[int]:
    return [row[0] for row in store.rows("letters_ids", which.values(direction=direction, limit=limit))]


def _bring_back(store: SilverStore, marked: dict[int, int | None], done: Redriven) -> None:
    """The tasks of these letters become ready; of a task that is gone a new one is made from its letter."""
    tasks = [task for task in marked.values() if task is not None]
    ready = {row[0] for row in store.rows("redrive_tasks", _ids(tasks))}
    done.ready += len(ready)
    orphans = [letter for letter, task in marked.items() if task not in ready]
    if not orphans:
        return
    anew: dict[str, list[int]] = {}
    left = []
    for letter, task, reason, rule, payload, status in store.rows("redrive_orphans", _ids(orphans)):
        kind = kind_of_letter(reason, rule, payload)
        if status is None and payload is not None and kind is not None:
            anew.setdefault(kind, []).append(letter)
            continue
        done.leave(letter, _why_left(task, payload, status))
        left.append(letter)
    for kind, letters in anew.items():
        store.rows("redrive_insert", {**_ids(letters), "kind": kind})
        done.anew += len(letters)
    if left:
        store.rows("redrive_unmark", _ids(left))


def _why_left(task: int | None, payload: str | None, status: str | None) -> str:
    if status is not None:
        return f"its task {task} is not dead any more but {status!r}"
    if payload is None:
        return "its task is gone, and the letter has no payload"
    return "its task is gone, and nothing tells its type: put its payload again with --kind"


def kind_of_letter(reason: str, rule: str | None, payload: str | None) -> str | None:
    """A letter does not hold its task's type: the rule tells, or else the fields of the payload."""
    if reason == UNKNOWN_TASK_TYPE:
        return None
    if rule is not None and rule[:3] in _PREFIXES:
        return _PREFIXES[rule[:3]]
    record = decode(payload) if payload is not None else NotAnObject("")
    return None if isinstance(record, NotAnObject) else kind_of(record)


def _ids(ids: Iterable[int]) -> dict[str, Any]:
    return {"ids": json.dumps(list(ids))}
