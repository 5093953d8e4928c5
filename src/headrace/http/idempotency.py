"""The same POST twice is one change and one answer: `Idempotency-Key` (invariant A1).

The first request with a key is written down before its handler runs, together with a *seed*. The handler derives every
id it makes from `seed_of(request)`. So the change and the stored answer need no common transaction: if the process dies
between the two, the repeat runs the handler with the same seed, and its writes meet their own rows. A second request
meanwhile is told to wait (409) until the first has ended or, if its process died, its hold has passed; the first answer
that is stored is the answer for ever, also of one that came late. Another body under the same key is refused (422).

Kept are answers below 500: they say what the request means. After any other the key is free again, with its seed. So it
is after 415: how a body is labelled is not part of what makes two requests the same; and after 429: who is told to come
again must not be told so for ever.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import uuid_utils
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.errors import HeadraceError
from headrace.core.idempotency import Answer, Attempt, Begun
from headrace.http.options import Limits
from headrace.http.problems import Problem

KEY_CHARS_MAX = 255
ANSWER_BYTES_MAX = 1_048_576
ENTRIES_MAX = 10_000
KEPT_S = 86_400.0
NOT_KEPT = frozenset({415, 429})
_KEPT_HEADERS = ("content-type", "location", "retry-after", "link")


class IdempotencyStore(Protocol):
    """Where keys are kept; every call may be repeated as it is after a lost answer."""

    async def begin(self, attempt: Attempt) -> Begun:
        """Take the key if it is new, or if nobody holds it and it has no answer; the first seed stays. Its holder holds
        on by asking again."""

    async def finish(self, attempt: Attempt, answer: Answer) -> Answer:
        """Keep the answer; if there is one already, that stands and is returned."""

    async def release(self, attempt: Attempt) -> None:
        """It ended without an answer worth keeping. Nothing happens if somebody else holds the key by now."""


def seed_of(request: Request) -> str:
    """What the ids that this request makes derive from: the same in every repeat of it."""
    return str(request.scope["state"]["seed"])


class Idempotency:
    """Every POST with a key."""

    def __init__(self, app: ASGIApp, store: IdempotencyStore, limits: Limits) -> None:
        self.app, self.store = app, store
        self._hold_s = limits.key_hold_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["seed"] = str(uuid_utils.uuid7())
        key = Headers(scope=scope).get("idempotency-key")
        if scope["method"] != "POST" or key is None:
            await self.app(scope, receive, send)
            return
        attempt = Attempt(
            state["tenant"], _checked(key), _fingerprint(scope), state["seed"], secrets.token_hex(8), self._hold_s
        )
        begun = await self.store.begin(attempt)
        match begun.state:
            case "in_flight":
                detail = "a request with this key is being worked on"
                raise Problem(
                    409,
                    "in-flight",
                    detail,
                    hint="the same request again, a little later",
                    headers={"Retry-After": "1"},
                )
            case "other":
                raise Problem(
                    422, "key-reused", "this Idempotency-Key was used for another request", hint="take a new key"
                )
        answer = begun.answer or await self._run(scope, receive, replace(attempt, seed=begun.seed))
        await _tell(send, answer, begun.answer is not None)

    async def _run(self, scope: Scope, receive: Receive, attempt: Attempt) -> Answer:
        scope["state"]["seed"] = attempt.seed
        recorder, holding = _Recorder(), asyncio.ensure_future(self._hold(attempt))
        try:
            await self.app(scope, receive, recorder)
        finally:
            holding.cancel()
        answer = recorder.answer()
        if answer.status < 500 and answer.status not in NOT_KEPT and len(answer.body) <= ANSWER_BYTES_MAX:
            return await self.store.finish(attempt, answer)
        await self.store.release(attempt)
        return answer

    async def _hold(self, attempt: Attempt) -> None:
        """Hold the key for as long as it takes. If that fails somebody may run the same, with the same seed."""
        while True:
            await asyncio.sleep(self._hold_s / 3)
            with suppress(HeadraceError):
                await self.store.begin(attempt)


@dataclass(slots=True)
class _Recorder:
    """Takes an answer in place of the client."""

    status: int = 500
    headers: tuple[tuple[str, str], ...] = ()
    parts: list[bytes] = field(default_factory=list)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            told = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", []))
            self.headers = tuple((name, value) for name, value in told if name.lower() in _KEPT_HEADERS)
        else:
            self.parts.append(message.get("body", b""))

    def answer(self) -> Answer:
        return Answer(self.status, self.headers, b"".join(self.parts))


async def _tell(send: Send, answer: Answer, again: bool) -> None:
    headers = [*answer.headers, ("content-length", str(len(answer.body)))]
    if again:
        headers.append(("idempotency-replayed", "true"))
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body})


def _checked(key: str) -> str:
    if not 1 <= len(key) <= KEY_CHARS_MAX or not key.isascii() or not key.isprintable():
        raise Problem(400, "bad-key", f"an Idempotency-Key is 1 to {KEY_CHARS_MAX} printable ASCII characters")
    return key


def _fingerprint(scope: Scope) -> str:
    """What makes two requests the same: path, query and body, each with its length so that none runs into the next."""
    digest = hashlib.sha256()
    for part in (scope["path"].encode(), scope.get("query_string", b""), scope["state"]["body"]):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


@dataclass(slots=True)
class _Entry:
    fingerprint: str
    seed: str
    holder: str
    until: float
    made_at: float
    answer: Answer | None = None


class MemoryIdempotency:
    """Keys of one process, for what does not outlive it either. The oldest go when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], _Entry] = {}

    async def begin(self, attempt: Attempt) -> Begun:
        now = self._clock()
        self._forget(now)
        entry = self._entries.setdefault(
            (attempt.tenant, attempt.key), _Entry(attempt.fingerprint, attempt.seed, "", 0.0, now)
        )
        if entry.fingerprint != attempt.fingerprint:
            return Begun("other")
        if entry.answer is not None:
            return Begun("answered", entry.seed, entry.answer)
        if entry.holder not in ("", attempt.holder) and entry.until > now:
            return Begun("in_flight")
        entry.holder, entry.until = attempt.holder, now + attempt.hold_s
        return Begun("granted", entry.seed)

    async def finish(self, attempt: Attempt, answer: Answer) -> Answer:
        entry = self._entries.get((attempt.tenant, attempt.key))
        if entry is None:
            return answer
        entry.answer = entry.answer or answer
        return entry.answer

    async def release(self, attempt: Attempt) -> None:
        entry = self._entries.get((attempt.tenant, attempt.key))
        if entry is not None and entry.holder == attempt.holder:
            entry.holder = ""

    def _forget(self, now: float) -> None:
        """What stands first is the oldest: one look is enough where nothing is to go."""
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if now - entry.made_at < KEPT_S and len(self._entries) < ENTRIES_MAX:
                return
            del self._entries[name]
