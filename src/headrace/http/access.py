"""Several API keys: what each of them may do, how often, and where it is written down what was done with it.

A key is a name with scopes. `metrics` may read `/metrics` and nothing else, `read` everything that changes nothing,
`write` everything. A key may be a tenant's: then it may not read `/metrics`, where all tenants are counted together.
Rates are counted in each process, by key and by tenant: a client of several processes has so many times as much.
Without keys there is nobody to tell apart: everything is allowed, and nothing is limited or audited.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.errors import CallerError, HeadraceError
from headrace.http.options import EVERY_TENANT, HARMLESS, NOBODY, Access, Audit, AuditedRequest, KeyScope
from headrace.http.problems import Problem
from headrace.http.routes import route_of

_FORM = "write NAME:SCOPE:KEY or NAME@TENANT:SCOPE:KEY, separated by commas; scopes are metrics, read and write"
_UNANSWERED = 499
REFUSED = frozenset({401, 403, 429})
REFUSALS_PER_S, REFUSALS_MAX = 1.0, 60.0
"""Refusals are written down up to a minute's worth, and then one a second: they cost the caller nothing, so they must
not be able to fill the audit."""
PATH_CHARS_MAX = 200
NAMES_MAX = 10_000
log = structlog.get_logger("headrace.http")


def access_of(text: str, access: Access | None = None) -> Access:
    """Keys as an operator writes them: `grafana:metrics:KEY,shop@acme:write:KEY`. What is refused is not repeated."""
    keys, scopes, tenants = dict[str, str](), dict[str, KeyScope](), dict[str, str]()
    for number, part in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        name, _, rest = part.partition(":")
        scope, _, key = rest.partition(":")
        name, at, tenant = name.partition("@")
        if not name or not key or scope not in list(KeyScope) or (at and not tenant):
            raise CallerError(f"API key {number} is not NAME:SCOPE:KEY", _FORM)
        if tenant and scope == KeyScope.METRICS:
            raise CallerError(f"API key {number} could read nothing: metrics are of all tenants", _FORM)
        if name in keys:
            raise CallerError(f"there are two API keys of the name {name!r}", _FORM)
        keys[name], scopes[name] = key, KeyScope(scope)
        if tenant:
            tenants[name] = tenant
    return replace(access or Access(), api_keys=keys, scopes=scopes, tenants=tenants)


class TokenBuckets:
    """So many a second of everything that has a name, and a reserve of so many."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # Tokens, and when they were counted.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str, per_s: float, reserve: float) -> float:
        """Take one; 0, or how many seconds it takes until there is one."""
        now = self._monotonic()
        tokens, at = self._buckets.get(name, (reserve, now))
        tokens = min(reserve, tokens + (now - at) * per_s)
        short = max(0.0, 1.0 - tokens)
        self._buckets[name] = (tokens if short else tokens - 1.0, now)
        if len(self._buckets) > NAMES_MAX:
            del self._buckets[next(iter(self._buckets))]
        return short / per_s


class RateLimiter:
    """A bucket of tokens for each key and each tenant: a second's worth, and as many again in the next."""

    def __init__(self, app: ASGIApp, access: Access, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.app, self._access = app, access
        self._keys, self._tenants = TokenBuckets(monotonic), TokenBuckets(monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state, access = scope.get("state", {}), self._access
        if state.get("actor", NOBODY) != NOBODY:
            if access.rate_per_s:
                self._take(self._keys, state["actor"], access.rate_per_s, "this API key has used up rate_per_s")
            tenant = state.get("of_tenant", "")
            rate = access.tenant_rates.get(tenant, access.tenant_rates.get(EVERY_TENANT, 0.0)) if tenant else 0.0
            if rate:
                self._take(self._tenants, tenant, rate, f"the tenant {tenant} has used up its rate")
        await self.app(scope, receive, send)

    def _take(self, buckets: TokenBuckets, name: str, per_s: float, words: str) -> None:
        wait_s = buckets.take(name, per_s, max(1.0, per_s))
        if wait_s:
            headers = {"Retry-After": str(math.ceil(wait_s))}
            raise Problem(429, "rate", f"{words} = {per_s:g}", headers=headers)


class Auditor:
    """Writes down every request with a key that may have changed something, also one that failed, and of what was
    refused (no key, not allowed, too many) as much as fits. The answer is on its way before the row is written."""

    def __init__(self, app: ASGIApp, audit: Audit | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.app, self._audit = app, audit
        self._refusals, self._left_out = TokenBuckets(monotonic), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._audit is None or scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, location = _UNANSWERED, ""

        async def sender(message: Message) -> None:
            nonlocal status, location
            if message["type"] == "http.response.start":
                status = message["status"]
                # Elsewhere a location says where to ask instead.
                location = Headers(raw=message["headers"]).get("location", "") if 200 <= status < 300 else ""
            await send(message)

        try:
            await self.app(scope, receive, sender)
        finally:
            if self._wants(scope, status):
                await self._write(replace(self._audited(scope, status), location=location[:PATH_CHARS_MAX]))

    def _wants(self, scope: Scope, status: int) -> bool:
        if status not in REFUSED:
            return scope["method"] not in HARMLESS and scope.get("state", {}).get("actor", NOBODY) != NOBODY
        if self._refusals.take("", REFUSALS_PER_S, REFUSALS_MAX):
            self._left_out += 1
            return False
        return True

    def _audited(self, scope: Scope, status: int) -> AuditedRequest:
        state = scope.get("state", {})
        left_out, self._left_out = (self._left_out, 0) if status in REFUSED else (0, self._left_out)
        path = scope["path"][:PATH_CHARS_MAX]
        actor, tenant = state.get("actor", NOBODY), state.get("of_tenant", "")[:PATH_CHARS_MAX]
        return AuditedRequest(actor, scope["method"], route_of(scope), path, status, tenant, left_out)

    async def _write(self, request: AuditedRequest) -> None:
        """What was done is done: a store that is away costs the row, and the log has it."""
        fields = {"actor": request.actor, "method": request.method, "path": request.path, "status": request.status}
        try:
            assert self._audit is not None
            await self._audit(request)
        except HeadraceError as error:
            log.warning("http.not_audited", error=str(error), **fields)
