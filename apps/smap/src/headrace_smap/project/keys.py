"""Requests with an Idempotency-Key, kept in the database: they outlive the process that answered them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from headrace.http import Answer, Attempt, Begun
from headrace_smap.completions import utc_now
from headrace_smap.database import Database
from headrace_smap.project.outbox import held


class DatabaseKeys:
    """See `headrace.http.IdempotencyStore`."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database, self._now = database, now

    async def begin(self, attempt: Attempt) -> Begun:
        values = {"fingerprint": attempt.fingerprint, "seed": attempt.seed, "holder": attempt.holder}
        name = _name(attempt)
        _, ((fingerprint, seed, holder, *answer),) = await self._database.transact(
            ("key_begin", {**name, **values, **held(self._now(), attempt.hold_s)}), ("key_read", name)
        )
        if fingerprint != attempt.fingerprint:
            return Begun("other")
        if answer[0] is not None:
            return Begun("answered", seed, _answer(answer))
        return Begun("granted", seed) if holder == attempt.holder else Begun("in_flight")

    async def finish(self, attempt: Attempt, answer: Answer) -> Answer:
        name, headers = _name(attempt), [list(pair) for pair in answer.headers]
        values = {"status": answer.status, "headers": headers, "body": answer.body}
        _, rows = await self._database.transact(("key_finish", {**name, **values}), ("key_read", name))
        # A key that is no longer there was answered long ago.
        return _answer(rows[0][3:]) if rows else answer

    async def release(self, attempt: Attempt) -> None:
        await self._database.rows("key_release", **_name(attempt), holder=attempt.holder)


def _name(attempt: Attempt) -> dict[str, str]:
    return {"tenant": attempt.tenant, "key": attempt.key}


def _answer(stored: Sequence[Any]) -> Answer:
    status, headers, body = stored
    return Answer(int(status), tuple((name, value) for name, value in headers), bytes(body))
