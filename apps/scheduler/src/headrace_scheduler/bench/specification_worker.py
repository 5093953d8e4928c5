"""A worker written from the pseudocode of the specification alone (§4.2.1, §4.3.1, §5.1): one job after another.

It polls a bucket, and for each job: draw a token, insert the lock, delete the pending row, `running`, history, (the
job does nothing, so no heartbeat comes due), history end, `completed`, release. Each statement waits for the last.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

BLOCK = 100
TTL = timedelta(seconds=30)
PAGE = 100
_WHERE = "WHERE bucket_id = ? AND scheduled_time = ? AND job_id = ?"
DUE = (
    "SELECT scheduled_time, job_id FROM jobs_pending_by_bucket WHERE bucket_id = ? AND scheduled_time <= ? "
    f"LIMIT {PAGE}"
)
FIRST_BLOCK = "INSERT INTO lock_seq (resource, last_seq) VALUES (?, ?) IF NOT EXISTS"
LOCK = "INSERT INTO locks (resource_id, holder, fencing_token, expire_at, epoch) VALUES (?, ?, ?, ?, 0) IF NOT EXISTS"
RELEASE = "DELETE FROM locks WHERE resource_id = ? IF holder = ? AND fencing_token = ?"
DELETE = f"DELETE FROM jobs_pending_by_bucket {_WHERE}"
STATUS = f"UPDATE jobs_sharded SET status = ?, attempts = 0 {_WHERE}"
BEGIN = "INSERT INTO job_history (job_id, run_id, worker_id, fencing_token, start_at, status) VALUES (?, ?, ?, ?, ?, ?)"
END = "UPDATE job_history SET end_at = ?, status = ? WHERE job_id = ? AND run_id = ?"


class SpecificationWorker:
    """Runs jobs that do nothing; `done` counts them."""

    def __init__(self, session: Any, buckets: int) -> None:
        self._session, self._buckets, self.done = session, buckets, 0
        texts = (DUE, FIRST_BLOCK, LOCK, RELEASE, DELETE, STATUS, BEGIN, END)
        self._prepared = {text: session.prepare(text) for text in texts}

    def run(self, count: int) -> float:
        """Work until so many are done; how long it took."""
        began = time.perf_counter()
        while self.done < count:
            for bucket in range(self._buckets):
                for scheduled_time, job_id in self._send(DUE, bucket, datetime.now(UTC)):
                    self._run_job((bucket, scheduled_time, job_id))
        return time.perf_counter() - began

    def _run_job(self, key: tuple[int, datetime, UUID]) -> None:
        job_id, resource, run_id, token = str(key[2]), f"job:{key[2]}", uuid4(), 1
        if not self._send(FIRST_BLOCK, resource, BLOCK).was_applied:
            raise RuntimeError(f"{resource} was locked before: the tables are not fresh")
        if not self._send(LOCK, resource, "specification", token, datetime.now(UTC) + TTL).was_applied:
            return
        self._send(DELETE, *key)
        self._send(STATUS, "running", *key)
        self._send(BEGIN, job_id, run_id, "specification", token, datetime.now(UTC), "running")
        self._send(END, datetime.now(UTC), "completed", job_id, run_id)
        self._send(STATUS, "completed", *key)
        self._send(RELEASE, resource, "specification", token)
        self.done += 1

    def _send(self, text: str, *values: object) -> Any:
        return self._session.execute(self._prepared[text], values)
