"""A batch of tasks in an open SQLite transaction, and its settlement.

Nothing travels anywhere, so records are written one by one by a prepared statement. They are folded all the same: what
a bar was between two tasks of one batch is no revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Generic, TypeVar

import apsw

from headrace.tables import Row, time_text
from headrace_silver.queue.isolation import Folded, RecordFault, Writing, clean, isolate
from headrace_silver.records.folds import fold_articles, fold_bars
from headrace_silver.records.values import Article, Bar, Judged, Reject, SettledBatch, Task
from headrace_silver.stores.silver_store import FLAG, Judge
from headrace_silver.stores.sqlite.records import article_row, bar_row, check_fits
from headrace_silver.stores.sqlite.statements import statement

T = TypeVar("T", Bar, Article)


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[T]):
    """How records of one kind are folded and written."""

    write: str
    row: Callable[[T, str], Row]
    fold: Callable[[Iterable[tuple[int, T]]], list[Folded[T]]]


BARS = RecordKind("consume_bars", bar_row, fold_bars)
ARTICLES = RecordKind("consume_articles", article_row, fold_articles)


@contextmanager
def about_records() -> Iterator[None]:
    """While records are written: what is their own fault leaves as `RecordFault`.

    Text that is no Unicode and numbers that are too large are found before SQLite sees them.
    """
    try:
        yield
    except (ValueError, OverflowError, apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError) as error:
        raise RecordFault(str(error)) from error


@dataclass(slots=True)
class SqliteBatch:
    """See `Batch`."""

    connection: apsw.Connection
    tasks: Sequence[Task]
    now: datetime
    judged: Judged | None = None

    def settle(self, judged: Judged, threshold: int | None, judge: Judge | None = None) -> SettledBatch:
        kept = self._kept()
        rejects = judged.rejects + self._written(judged)
        self._reject(rejects)
        dead = {reject.task_id for reject in rejects}
        done = [task for task, _ in chain(judged.bars, judged.articles) if task not in dead]
        self._each("consume_done", ((task,) for task in done))
        settled = SettledBatch(
            bars=sum(task not in dead for task, _ in judged.bars),
            articles=sum(task not in dead for task, _ in judged.articles),
            rejects=rejects,
            revisions=self._kept() - kept,
            slow=None if threshold is None else self._flag(threshold),
        )
        self.connection.execute("COMMIT")
        return settled

    def _written(self, judged: Judged) -> list[Reject]:
        """Write all records; those that cannot be written, as rejects."""
        bars, articles = fold_bars(judged.bars), fold_articles(judged.articles)
        of_bars, of_articles = dict(judged.bars), dict(judged.articles)
        try:
            with self._savepoint():
                self._write(BARS, bars, of_bars)
                self._write(ARTICLES, articles, of_articles)
        except RecordFault:
            return self._isolated(BARS, bars, of_bars) + self._isolated(ARTICLES, articles, of_articles)
        return []

    def _isolated(self, kind: RecordKind[T], records: list[Folded[T]], members: dict[int, T]) -> list[Reject]:
        def write(some: Sequence[Folded[T]]) -> None:
            with self._savepoint():
                self._write(kind, some, members)

        def trial(record: Folded[T]) -> None:
            with self._savepoint(keep=False):
                self._write(kind, [record], members)

        return isolate(records, Writing(write, trial, kind.fold, members))

    def _write(self, kind: RecordKind[T], records: Sequence[Folded[T]], members: dict[int, T]) -> None:
        with about_records():
            for tasks, _ in records:
                if len(tasks) > 1:
                    # A fold must not hide what the database would have refused.
                    for task in tasks:
                        check_fits(members[task])
            now = time_text(self.now)
            self._each(kind.write, [kind.row(record, now) for _, record in records])

    @contextmanager
    def _savepoint(self, keep: bool = True) -> Iterator[None]:
        self.connection.execute("SAVEPOINT records")
        try:
            yield
        except RecordFault:
            keep = False
            raise
        finally:
            # After an error that is nobody's record the whole transaction goes, perhaps it has gone already.
            if self.connection.in_transaction:
                if not keep:
                    self.connection.execute("ROLLBACK TO records")
                self.connection.execute("RELEASE records")

    def _reject(self, rejects: Sequence[Reject]) -> None:
        now = time_text(self.now)
        letters = [(each.reason, each.rule_id, clean(each.error_msg), now, each.task_id) for each in rejects]
        self._each("consume_letters", letters)
        self._each("consume_marked", ((now, each.task_id) for each in rejects))
        self._each("consume_rejects", ((now, each.reason, each.rule_id) for each in rejects))

    def _flag(self, threshold: int) -> bool:
        values = {"name": FLAG, "threshold": threshold, "now": time_text(self.now)}
        [(slow,)] = self.connection.execute(statement("consume_flag"), values)
        return bool(slow)

    def _kept(self) -> int:
        [(count,)] = self.connection.execute(statement("consume_revised"))
        return int(count)

    def _each(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self.connection.executemany(statement(name), rows)
