"""Several API keys: what each of them may do, how often, and where it is written down what was done with it.

A key is a name with scopes. `metrics` may read `/metrics` and nothing else, `read` everything that changes nothing,
`write` everything. Rates are counted in each process, by key: a client of several processes has so many times as much.
Without keys there is nobody to tell apart: everything is allowed, and nothing is limited or audited.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.errors import CallerError, HeadraceError
from headrace.http.options import HARMLESS, NOBODY, Access, Audit, AuditedRequest, KeyScope
from headrace.http.problems import Problem
from headrace.http.routes import route_of

_FORM = "write NAME:SCOPE:KEY, several separated by commas, with the scope metrics, read or write"
_UNANSWERED = 499
log = structlog.get_logger("headrace.http")


def access_of(text: str, access: Access | None = None) -> Access:
    """Keys as an operator writes them: `grafana:metrics:KEY,ops:write:KEY`. What is refused is not repeated."""
    keys, scopes = dict[str, str](), dict[str, KeyScope]()
    for number, part in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        name, _, rest = part.partition(":")
        scope, _, key = rest.partition(":")
        if not name or not key or scope not in list(KeyScope):
            raise CallerError(f"API key {number} is not NAME:SCOPE:KEY", _FORM)
        if name in keys:
            raise CallerError(f"there are two API keys of the name {name!r}", _FORM)
        keys[name], scopes[name] = key, KeyScope(scope)
    return replace(access or Access(), api_keys=keys, scopes=scopes)


class RateLimiter:
    """A bucket of tokens for each key: a second's worth, and as many again in the next."""

    def __init__(self, app: ASGIApp, rate_per_s: float | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.app, self._rate_per_s, self._monotonic = app, rate_per_s, monotonic
        # Tokens, and when they were counted; as many buckets as there are keys.
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        actor = scope.get("state", {}).get("tenant", NOBODY)
        if self._rate_per_s and actor != NOBODY:
            self._take(actor, self._rate_per_s)
        await self.app(scope, receive, send)

    def _take(self, actor: str, rate_per_s: float) -> None:
        now, most = self._monotonic(), max(1.0, rate_per_s)
        tokens, at = self._buckets.get(actor, (most, now))
        tokens = min(most, tokens + (now - at) * rate_per_s)
        if tokens < 1.0:
            self._buckets[actor] = (tokens, now)
            headers = {"Retry-After": str(math.ceil((1.0 - tokens) / rate_per_s))}
            detail = f"this API key has used up rate_per_s = {rate_per_s:g}"
            raise Problem(429, "rate", detail, headers=headers)
        self._buckets[actor] = (tokens - 1.0, now)


class Auditor:
    """Writes down every request with a key that may have changed something, also one that failed."""

    def __init__(self, app: ASGIApp, audit: Audit | None) -> None:
        self.app, self._audit = app, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        actor = scope.get("state", {}).get("tenant", NOBODY)
        if self._audit is None or actor == NOBODY or scope["method"] in HARMLESS:
            await self.app(scope, receive, send)
            return
        status = _UNANSWERED

        async def sender(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sender)
        except Problem as problem:
            status = problem.status
            raise
        finally:
            await self._write(AuditedRequest(actor, scope["method"], route_of(scope), scope["path"], status))

    async def _write(self, request: AuditedRequest) -> None:
        """What was done is done: a store that is away costs the row, and the log has it."""
        fields = {"actor": request.actor, "method": request.method, "path": request.path, "status": request.status}
        try:
            assert self._audit is not None
            await self._audit(request)
        except HeadraceError as error:
            log.warning("http.not_audited", error=str(error), **fields)
