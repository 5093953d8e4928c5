"""A batch of tasks in an open PostgreSQL transaction, and its settlement.

In the good case everything from the savepoint to COMMIT is one round trip, and while the database is at it, the next
batch is judged. If the database refuses a record, the savepoint brings back the moment before the first one was
written, the guilty are found by halving, and the rest of the settlement follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import psycopg

from headrace_silver.queue.isolation import Folded, RecordFault, Writing, clean, isolate
from headrace_silver.records.folds import fold_articles, fold_bars
from headrace_silver.records.values import Article, Bar, Judged, Reject, SettledBatch, Task
from headrace_silver.stores.postgres.binary_arrays import integers
from headrace_silver.stores.postgres.look_ahead import Coming
from headrace_silver.stores.postgres.records import REJECT_COLUMNS, BatchDraft, article_parts, bar_parts, packed
from headrace_silver.stores.postgres.statements import statement
from headrace_silver.stores.silver_store import FLAG, Judge

T = TypeVar("T", Bar, Article)
Connection = psycopg.Connection[tuple[Any, ...]]
Answer = psycopg.Cursor[tuple[Any, ...]]
# By class of SQLSTATE: bad data, a constraint, a view's condition, a size limit, an exception raised by a trigger.
_RECORD = ("22", "23", "44", "54", "P0")


@contextmanager
def about_records() -> Iterator[None]:
    """While records are written: what is their own fault leaves as `RecordFault`."""
    try:
        yield
    except ValueError as error:
        raise RecordFault(str(error)) from error
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(_RECORD):
            raise
        raise RecordFault(str(error).strip()) from error


@dataclass(slots=True)
class PostgresBatch:
    """See `Batch`. `keeps` says whether the tables of our own are there; `coming` is the next batch, if it is known."""

    connection: Connection
    tasks: Sequence[Task]
    now: datetime
    keeps: bool
    draft: BatchDraft | None = None
    coming: Coming | None = None
    settled: bool = False
    _revisions: list[Answer] = field(default_factory=list)
    _released: Answer | None = None

    @property
    def judged(self) -> Judged | None:
        return None if self.draft is None else self.draft.judged

    def settle(self, judged: Judged, threshold: int | None, judge: Judge | None = None) -> SettledBatch:
        draft = self.draft if self.draft is not None and self.draft.judged is judged else BatchDraft.of(judged)
        rejects = judged.rejects
        try:
            with about_records():
                parts = draft.parts(self.keeps)
                with self.connection.pipeline():
                    self._do("SAVEPOINT records")
                    for text, values in parts:
                        self._revisions.append(self._do(text, values))
                    flag = self._end(judged, rejects, threshold)
                    self._look_ahead(judge)
        except RecordFault as fault:
            if self._released is not None and self._released.statusmessage:
                # All records were taken: it is about a letter or the queue.
                raise fault.__cause__ or fault from None
            self._do("ROLLBACK TO SAVEPOINT records")
            self._revisions.clear()
            rejects = rejects + self._isolated(draft)
            with self.connection.pipeline():
                flag = self._end(judged, rejects, threshold)
        self.settled = True
        dead = {reject.task_id for reject in rejects}
        return SettledBatch(
            bars=sum(task not in dead for task, _ in judged.bars),
            articles=sum(task not in dead for task, _ in judged.articles),
            rejects=rejects,
            revisions=sum(row[0] for answer in self._revisions if answer.description for row in answer),
            slow=None if flag is None else flag.fetchall()[0][0],
        )

    def _look_ahead(self, judge: Judge | None) -> None:
        """Prepare the next batch. Everything of this one is sent, and its answers are not asked for yet."""
        if self.coming is not None and judge is not None:
            self.coming.draft = BatchDraft.of(judge(self.coming.tasks, self.now))
            with suppress(ValueError):
                # What cannot be packed is found again when it is to be written.
                self.coming.draft.parts(self.keeps)

    def _isolated(self, draft: BatchDraft) -> list[Reject]:
        of_bars = self._writing(partial(bar_parts, keeps=self.keeps), fold_bars, dict(draft.judged.bars))
        of_articles = self._writing(article_parts, fold_articles, dict(draft.judged.articles))
        return isolate(draft.bars, of_bars) + isolate(draft.articles, of_articles)

    def _writing(self, parts_of: Any, fold: Any, members: dict[int, T]) -> Writing[T]:
        def write(records: Sequence[Folded[T]]) -> None:
            self._revisions += self._behind_savepoint(lambda: parts_of(records), keep=True)

        def trial(record: Folded[T]) -> None:
            self._behind_savepoint(lambda: parts_of([record]), keep=False)

        return Writing(write, trial, fold, members)

    def _behind_savepoint(self, parts_of: Callable[[], list[tuple[Any, Any]]], keep: bool) -> list[Answer]:
        self._do("SAVEPOINT part")
        try:
            with about_records():
                parts = parts_of()
                with self.connection.pipeline():
                    answers = [self._do(text, values) for text, values in parts]
        except RecordFault:
            self._do("ROLLBACK TO SAVEPOINT part")
            raise
        self._do("RELEASE SAVEPOINT part" if keep else "ROLLBACK TO SAVEPOINT part")
        return answers

    def _end(self, judged: Judged, rejects: Sequence[Reject], threshold: int | None) -> Answer | None:
        """Letters, deletion, flag and commit; the flag's answer if it was its turn."""
        # A task deleted inside the savepoint would have two holders, its transaction and the savepoint's own. No search
        # can tell that such a row is dead: each would look at it again, until a vacuum.
        self._released = self._do("RELEASE SAVEPOINT records")
        if rejects:
            letters = [Reject(each.task_id, each.reason, each.rule_id, clean(each.error_msg)) for each in rejects]
            columns = packed(letters, REJECT_COLUMNS)
            self._do(statement("consume_letters"), columns)
            if self.keeps:
                self._do(statement("consume_rejects"), {name: columns[name] for name in ("reason", "rule_id")})
        dead = {reject.task_id for reject in rejects}
        done = [task for task, _ in chain(judged.bars, judged.articles) if task not in dead]
        if done:
            self._do(statement("consume_done"), {"task_id": integers(done)})
        flag = None
        if threshold is not None:
            flag = self._do(statement("consume_flag"), {"name": FLAG, "threshold": threshold})
        self._do("COMMIT")
        return flag

    def _do(self, text: Any, values: dict[str, Any] | None = None) -> Answer:
        # What has no values is not worth preparing.
        return self.connection.execute(text, values, prepare=None if values else False)
