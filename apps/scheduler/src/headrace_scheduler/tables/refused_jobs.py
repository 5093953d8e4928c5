"""Jobs whose lock somebody else has, as this process was told: their pending rows are left out of polls for a while.

A worker of ours deletes the pending row of what it holds. One of another program may not, or was lost in between with a
lock that lasts for an hour; and as many such rows as a page holds would hide every row behind them. So whoever is
refused a lock notes it, and a row that was due by then is not tried again before a quarter of the time has passed for
which the job has been refused so far: what comes free is found little later than it could be, and what stays locked
costs next to nothing. A row that was written since is another matter: whoever had the lock has ended its run.

A refusal costs a conditional write. After a few dozen of them the locks that are held are read as a whole, which costs
less than those few did, and everything that stands locked is known at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID

from headrace_scheduler.jobs.values import Pending

REST_SHARE = 0.25
REST_MIN, REST_MAX = timedelta(seconds=5), timedelta(seconds=30)
"""In five seconds a worker is refused some hundred locks, so that many rows are passed at the first try."""
STUCK_AFTER = timedelta(minutes=1)
"""More than a lock of ours lasts without a renewal."""
AGAIN_WITHIN = timedelta(minutes=2)
"""What is refused after so long was tried by somebody else meanwhile, and is counted from the beginning."""
LEARN_AFTER = 32
"""Refusals by which a process knows that there are many. Workers that meet at a few jobs are refused fewer."""
LEARN_EVERY, LEARN_REST = timedelta(seconds=2), timedelta(seconds=20)
"""How often all locks are read at most; and after they could not be."""
JOBS_MAX = 10_000
"""The one refused longest ago is forgotten, which costs another refusal."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job has been refused since then, the last time at `at`; its row rests until `until`."""

    since: datetime
    at: datetime
    until: datetime


class RefusedJobs:
    """What one process remembers, the job refused longest ago first."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._jobs: dict[UUID, Refusal] = {}
        self._unlearned, self._learn_at = 0, datetime.min.replace(tzinfo=UTC)

    def note(self, job_id: UUID, left_s: float) -> None:
        """Its lock was refused, and is held for so long unless it is renewed or released."""
        self._unlearned += 1
        self._note(job_id, left_s)

    def should_learn(self) -> bool:
        """Whether so many were refused that all locks should be read; asked again, it says so again after a while."""
        now = self._now()
        if self._unlearned < LEARN_AFTER or now < self._learn_at <= now + LEARN_REST:
            return False
        self._learn_at = now + LEARN_REST
        return True

    def learn(self, held: Iterable[tuple[UUID, float]]) -> None:
        """These locks are held, each for so long: as if each had been refused."""
        for job_id, left_s in islice(held, JOBS_MAX):
            self._note(job_id, left_s)
        self._unlearned, self._learn_at = 0, self._now() + LEARN_EVERY

    def _note(self, job_id: UUID, left_s: float) -> None:
        now, before = self._now(), self._jobs.pop(job_id, None)
        again = before is not None and timedelta() <= now - before.at < AGAIN_WITHIN
        since = before.since if before is not None and again else now
        rest = min(max((now - since) * REST_SHARE, REST_MIN), REST_MAX)
        if left_s < rest.total_seconds():
            rest = timedelta(seconds=max(0.0, left_s))
        self._jobs[job_id] = Refusal(since, now, now + rest)
        if len(self._jobs) > JOBS_MAX:
            del self._jobs[next(iter(self._jobs))]

    def forget(self, job_id: UUID) -> None:
        """Its lock was granted."""
        self._jobs.pop(job_id, None)

    def tried(self, rows: list[Pending], room: int) -> list[Pending]:
        """The rows that may be tried now. Of those that were refused before as many as fill up `room`, or a quarter of
        it if there are enough others: neither keeps the other waiting for long."""
        if not self._jobs:
            return rows
        fresh, again = list[Pending](), list[tuple[datetime, Pending]]()
        now = self._now()
        for row in rows:
            refusal = self._of(row)
            if refusal is None:
                fresh.append(row)
            elif not now < refusal.until <= now + REST_MAX:
                again.append((refusal.until, row))
        again.sort(key=lambda each: each[0])
        return [*fresh, *(row for _, row in again[: max(room - len(fresh), room // 4, 1)])]

    def is_stuck(self, row: Pending) -> bool:
        """Whether it was refused for so long that no worker of ours can be the reason."""
        refusal = self._of(row)
        return refusal is not None and refusal.at - refusal.since >= STUCK_AFTER

    def _of(self, row: Pending) -> Refusal | None:
        """The refusal that this row has met; a later one has met none."""
        refusal = self._jobs.get(row.job_id)
        return refusal if refusal is not None and row.scheduled_time <= refusal.at else None
