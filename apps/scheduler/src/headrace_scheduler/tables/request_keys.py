"""Requests with an Idempotency-Key in Cassandra, by conditional writes: one key, one holder, one answer.

Holds are judged by the clock of this process. One that is wrong lets the same request run twice at once, which does no
harm: both have the same seed, and so make the same job.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from headrace.http import Answer, Attempt, Begun
from headrace.tables import Row
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.tables.all_tables import utc_now
from headrace_scheduler.tables.job_tables import JobTables

ROUNDS_MAX = 5


class CassandraRequestKeys:
    """`headrace.http.IdempotencyStore` on the table `request_keys`."""

    def __init__(self, tables: JobTables) -> None:
        self._tables = tables

    async def begin(self, attempt: Attempt) -> Begun:
        held = {"holder": attempt.holder, "until": whole_ms(utc_now() + timedelta(seconds=attempt.hold_s))}
        new = {"fingerprint": attempt.fingerprint, "seed": attempt.seed, **held}
        if _applied(await self._tables.rows("key_begin", **_name(attempt), **new)):
            return Begun("granted", attempt.seed)
        for _ in range(ROUNDS_MAX):
            found = await self._tables.rows("key_read", **_name(attempt))
            if not found:
                break
            begun = _begun(attempt, found[0])
            if begun.state != "granted":
                return begun
            before = {"before": found[0][2], "before_until": found[0][3]}
            if _applied(await self._tables.rows("key_hold", **_name(attempt), **held, **before)):
                return begun
        return Begun("in_flight")

    async def finish(self, attempt: Attempt, answer: Answer) -> Answer:
        headers = json.dumps([list(pair) for pair in answer.headers])
        values = {"status": answer.status, "headers": headers, "body": answer.body, "seed": attempt.seed}
        await self._tables.rows("key_finish", **_name(attempt), **values)
        found = await self._tables.rows("key_read", **_name(attempt))
        return _answer(found[0]) or answer if found else answer

    async def release(self, attempt: Attempt) -> None:
        await self._tables.rows("key_release", **_name(attempt), holder=attempt.holder)


def _name(attempt: Attempt) -> dict[str, str]:
    return {"tenant": attempt.tenant, "key": attempt.key}


def _applied(rows: Sequence[Row]) -> bool:
    return bool(rows and rows[0][0])


def _begun(attempt: Attempt, row: Row) -> Begun:
    """What the key says; `granted` if it is this holder's or nobody's, once that is written."""
    fingerprint, seed, holder, until, *_ = row
    if fingerprint != attempt.fingerprint:
        return Begun("other")
    if (answer := _answer(row)) is not None:
        return Begun("answered", seed, answer)
    live = holder and until is not None and until > utc_now()
    return Begun("in_flight") if live and holder != attempt.holder else Begun("granted", seed)


def _answer(row: Row) -> Answer | None:
    *_, status, headers, body = row
    if status is None:
        return None
    return Answer(int(status), tuple((name, value) for name, value in json.loads(headers)), bytes(body))
