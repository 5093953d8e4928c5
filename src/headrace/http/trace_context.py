"""Every request belongs to a trace: that of its `traceparent`, or one that begins here. Log lines of the request name
it, and a handler passes it on with `traceparent_of(request)`."""

from __future__ import annotations

import secrets

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.core.traces import TRACEPARENT, make_traceparent, read_traceparent


def new_traceparent() -> str:
    """The beginning of a trace."""
    return make_traceparent(secrets.token_hex(16), secrets.token_hex(8))


def traceparent_of(request: Request) -> str:
    """The trace of a request."""
    return str(request.scope["state"][TRACEPARENT])


class Tracing:
    """Gives every request its trace. Two in one request are none: nobody knows which is meant."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).getlist(TRACEPARENT)
        trace = (read_traceparent(given[0]) if len(given) == 1 else "") or new_traceparent()
        scope.setdefault("state", {})[TRACEPARENT] = trace
        with structlog.contextvars.bound_contextvars(traceparent=trace):
            await self.app(scope, receive, send)
