"""Requests with an Idempotency-Key, kept in the store: they outlive the process that answered them.

async with headrace.connect(url, tables=(shop, REQUEST_KEYS)) as engine:
    keys = RequestKeys(engine)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.core.idempotency import Answer, Attempt, Begun
from headrace.tables.statements import Statements

if TYPE_CHECKING:
    from headrace.runtime.engine import Engine

REQUEST_KEYS = Statements("headrace.tables", repeatable=True)
"""What `RequestKeys` needs of a store."""


def _now() -> datetime:
    return datetime.now(UTC)


class RequestKeys:
    """`headrace.http.IdempotencyStore` in an application's store. A hold is judged by the clock of PostgreSQL, and in a
    SQLite file by this process's."""

    def __init__(self, engine: Engine, now: Callable[[], datetime] = _now) -> None:
        self._engine, self._now = engine, now

    async def begin(self, attempt: Attempt) -> Begun:
        name, now = _name(attempt), self._now()
        values = {"fingerprint": attempt.fingerprint, "seed": attempt.seed, "holder": attempt.holder}
        held = {"now": now, "hold_s": attempt.hold_s, "until": now + timedelta(seconds=attempt.hold_s)}
        async with self._engine.transaction() as tx:
            tx.run_many("request_key_begin", ({**name, **values, **held},))
            read = tx.run_many("request_key_read", (name,))
        ((fingerprint, seed, holder, *answer),) = read.rows
        if fingerprint != attempt.fingerprint:
            return Begun("other")
        if answer[0] is not None:
            return Begun("answered", seed, _answer(answer))
        return Begun("granted", seed) if holder == attempt.holder else Begun("in_flight")

    async def finish(self, attempt: Attempt, answer: Answer) -> Answer:
        name, headers = _name(attempt), [list(pair) for pair in answer.headers]
        values = {"status": answer.status, "headers": headers, "body": answer.body}
        async with self._engine.transaction() as tx:
            tx.run_many("request_key_finish", ({**name, **values},))
            read = tx.run_many("request_key_read", (name,))
        # A key that is no longer there was answered long ago.
        return _answer(read.rows[0][3:]) if read.rows else answer

    async def release(self, attempt: Attempt) -> None:
        await self._engine.run("request_key_release", **_name(attempt), holder=attempt.holder)

    async def forget(self, kept: timedelta) -> None:
        """Forget those that are older."""
        await self._engine.run("request_key_forget", before=self._now() - kept)


def _name(attempt: Attempt) -> dict[str, Any]:
    return {"tenant": attempt.tenant, "key": attempt.key}


def _answer(stored: Sequence[Any]) -> Answer:
    status, headers, body = stored
    return Answer(int(status), tuple((name, value) for name, value in headers), bytes(body))
