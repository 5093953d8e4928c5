"""The consumer: take a batch, judge it, settle it. Once, until the queue is empty, or for ever.

A run holds the lock from its first batch to its last. What goes wrong is told in the specification's own words on
stdout. One batch that was rolled back ends a plain run; a drain tries again a few times and a follower goes on trying,
later and later, because whatever was rolled back is still in the queue.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import partial

from headrace.errors import HeadraceError, suppress_healing
from headrace.services import Backoff, Sources, Stop, read, setting
from headrace_silver.records.judgement import judge
from headrace_silver.records.rules import RuleSettings
from headrace_silver.records.values import EXCEPTION, Judged, SettledBatch, Task
from headrace_silver.stores.silver_store import LOCK, SilverStore

FLAG_S_MIN = 1.0
FLAG_IDLE_S = 10.0
IDLE = Backoff(0.05, 1.0, jitter=0.0)
AGAIN = Backoff(0.1, 5.0, jitter=0.0)
DRAIN_TRIES_MAX = 5

LOCK_BUSY = f"Lock '{LOCK}' đang bận; worker thoát 0."
NO_TASK = "Không có task nào, worker kết thúc."
TASK_ERROR = "Lỗi xử lý task {task}: {error}"
ROLLED_BACK = "Lỗi nghiêm trọng, rollback batch: {error}"


class Mode(Enum):
    """How long a run lasts."""

    ONE = "one batch"
    DRAIN = "until the queue is empty"
    FOLLOW = "until it is told to stop"


@dataclass(frozen=True, slots=True)
class ConsumeSettings:
    """What may be set from outside."""

    batch_size: int = setting(500, "tasks per transaction", low=1, high=50_000)
    backlog_threshold: int = setting(10_000, "with more ready tasks the flag is on", low=0, high=10**12)
    rules: RuleSettings = field(default_factory=RuleSettings)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> ConsumeSettings:
        """From the variables of the specification; an empty one states nothing."""
        return replace(read(cls, Sources("", environment)), rules=RuleSettings.read(environment))


@dataclass(frozen=True, slots=True)
class ConsumedTasks:
    """What a run did. `busy`: another consumer had the lock. `failed`: the last batch was rolled back."""

    batches: int = 0
    bars: int = 0
    articles: int = 0
    rejects: int = 0
    revisions: int = 0
    by_rule: Mapping[str, int] = field(default_factory=Counter)
    slow: bool | None = None
    busy: bool = False
    failed: bool = False

    def with_batch(self, settled: SettledBatch) -> ConsumedTasks:
        """One more was committed; one without a task counts as none, but leaves the flag and the failure behind."""
        rules = Counter(reject.rule_id or reject.reason for reject in settled.rejects)
        return replace(
            self,
            batches=self.batches + any((settled.bars, settled.articles, settled.rejects)),
            bars=self.bars + settled.bars,
            articles=self.articles + settled.articles,
            rejects=self.rejects + len(settled.rejects),
            revisions=self.revisions + settled.revisions,
            by_rule=Counter(self.by_rule) + rules,
            slow=self.slow if settled.slow is None else settled.slow,
            failed=False,
        )


def tell(line: str) -> None:
    """Print a line at once; letters that the other end has no code for are spelled, so that none can stop a run."""
    code = sys.stdout.encoding or "utf-8"
    print(line.encode(code, "backslashreplace").decode(code), flush=True)


def _silent(consumed: ConsumedTasks) -> None:
    """Nobody wants to see how far it is."""


@dataclass(slots=True)
class TaskConsumer:
    """One run over one store. `show` hears of every batch; lines for the log go to `line`."""

    store: SilverStore
    settings: ConsumeSettings
    mode: Mode
    line: Callable[[str], None] = tell
    show: Callable[[ConsumedTasks], None] = _silent
    stop: Stop = field(default_factory=Stop)
    consumed: ConsumedTasks = field(default_factory=ConsumedTasks)
    _flagged_at: float = float("-inf")
    _owes_flag: bool = False

    def run(self) -> ConsumedTasks:
        """Until there is no more to do, or nothing more can be done."""
        with self.stop.listening():
            try:
                if self.store.lock():
                    self._batches()
                else:
                    self.line(LOCK_BUSY)
                    self.consumed = replace(self.consumed, busy=True)
            finally:
                with suppress(HeadraceError):
                    # If the database is gone, so is the lock.
                    self.store.unlock()
        return self.consumed

    def _batches(self) -> None:
        idle = failures = 0
        while not self.stop.asked:
            try:
                count = self._batch()
            except HeadraceError as error:
                failures += 1
                if not self._again(error, failures):
                    return
                continue
            failures = 0
            if self.mode is Mode.ONE or (self.mode is Mode.DRAIN and not count):
                return
            idle = 0 if count else idle + 1
            if idle:
                self._idle(IDLE.pause_s(idle))
        if self._owes_flag:
            self._last_flag()

    def _batch(self) -> int:
        """Consume one batch; how many tasks it had."""
        with self.store.batch(self.settings.batch_size) as batch:
            count = len(batch.tasks)
            threshold = self.settings.backlog_threshold if self._is_flag_due(count) else None
            judged = batch.judged or self._judge(batch.tasks, batch.now)
            settled = batch.settle(judged, threshold, self._judge)
        self._owes_flag = threshold is None
        if threshold is not None:
            self._flagged_at = time.monotonic()
        for reject in settled.rejects:
            if reject.reason == EXCEPTION:
                self.line(TASK_ERROR.format(task=reject.task_id, error=reject.error_msg))
        self.consumed = self.consumed.with_batch(settled)
        if count:
            self.show(self.consumed)
        elif self.mode is not Mode.FOLLOW:
            self.line(NO_TASK)
        return count

    def _judge(self, tasks: Sequence[Task], now: datetime) -> Judged:
        return judge(tasks, now, self.settings.rules)

    def _is_flag_due(self, count: int) -> bool:
        """Counting ten thousand tasks costs as much as a batch: once a second is enough while one follows another."""
        if self.mode is Mode.ONE or (self.mode is Mode.DRAIN and not count):
            return True
        age_s = time.monotonic() - self._flagged_at
        return age_s >= (FLAG_S_MIN if count or self._owes_flag else FLAG_IDLE_S)

    def _last_flag(self) -> None:
        """A run that is told to stop between two counts still leaves the flag as it should be."""
        with suppress(HeadraceError), self.store.batch(0) as batch:
            self.consumed = self.consumed.with_batch(batch.settle(Judged(), self.settings.backlog_threshold))

    def _again(self, error: HeadraceError, failures: int) -> bool:
        """Tell that a batch was rolled back; whether to go on, after a pause and with the lock in hand."""
        self.line(ROLLED_BACK.format(error=error))
        self.consumed = replace(self.consumed, failed=True)
        if self.mode is Mode.ONE or not error.heals:
            return False
        while self.mode is Mode.FOLLOW or failures < DRAIN_TRIES_MAX:
            self.stop.unless_asked(partial(time.sleep, AGAIN.pause_s(failures)))
            if self.stop.asked:
                return False
            # After a cut the server may still hold the lock for the connection that we have lost.
            with suppress_healing():
                if self.store.lock():
                    return True
            failures += 1
        return False

    def _idle(self, pause_s: float) -> None:
        # A server that went away while there was nothing to do is found by the next batch.
        with suppress(HeadraceError):
            self.stop.unless_asked(lambda: self.store.wait(pause_s))
