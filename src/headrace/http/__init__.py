"""The HTTP kit: what every service of ours does alike, so that a service only writes its routes.

    from headrace.http import Options, application, serving

    app = application(Options("orders", checks={"database": ping}), [router])
    async with serving(app) as served:
        print(served.url)

- Every error is `application/problem+json`, with words for people; never a traceback, a secret or what was sent.
- Every input has a limit with a name: `Limits`.
- Without an API key it listens on loopback only; with one, every route but `/healthz` and `/readyz` asks for it.
- `Access` has further keys with a scope (metrics, read, write) and a tenant, a rate for each, and an audit of what
  changes and of what is refused; `tenant_of(request)` is whose request it is.
- `Idempotency-Key` on every POST: a handler takes its ids from `seed_of(request)`, and a repeat is the same change.
- `/healthz`, `/readyz`, `/metrics`, and OpenAPI 3.1 under `/api/v1/openapi.json`, where all routes exist as well.
- Every request has a trace (`traceparent`, W3C), its own or a new one: in its log lines and `traceparent_of(request)`.
- `EventStream` is Server-Sent Events that resume, beat, and end when the client or the service goes.

Names are loaded when they are first used; nothing here costs anything before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.core.errors import MissingExtra

if TYPE_CHECKING:
    from headrace.core.idempotency import Answer as Answer
    from headrace.core.idempotency import Attempt as Attempt
    from headrace.core.idempotency import Begun as Begun
    from headrace.core.traces import TRACEPARENT as TRACEPARENT
    from headrace.core.traces import make_traceparent as make_traceparent
    from headrace.core.traces import read_traceparent as read_traceparent
    from headrace.http.access import access_of as access_of
    from headrace.http.asgi_application import application as application
    from headrace.http.authentication import actor_of as actor_of
    from headrace.http.authentication import may_write as may_write
    from headrace.http.authentication import tenant_of as tenant_of
    from headrace.http.cursors import PAGE_DEFAULT as PAGE_DEFAULT
    from headrace.http.cursors import PAGE_MAX as PAGE_MAX
    from headrace.http.cursors import decode_cursor as decode_cursor
    from headrace.http.cursors import encode_cursor as encode_cursor
    from headrace.http.cursors import paged as paged
    from headrace.http.event_streams import EventStream as EventStream
    from headrace.http.event_streams import StreamEvent as StreamEvent
    from headrace.http.event_streams import last_event_id as last_event_id
    from headrace.http.idempotency import IdempotencyStore as IdempotencyStore
    from headrace.http.idempotency import MemoryIdempotency as MemoryIdempotency
    from headrace.http.idempotency import seed_of as seed_of
    from headrace.http.options import Access as Access
    from headrace.http.options import Audit as Audit
    from headrace.http.options import AuditedRequest as AuditedRequest
    from headrace.http.options import Check as Check
    from headrace.http.options import KeyScope as KeyScope
    from headrace.http.options import Limits as Limits
    from headrace.http.options import Options as Options
    from headrace.http.problems import Problem as Problem
    from headrace.http.server import Served as Served
    from headrace.http.server import serving as serving
    from headrace.http.trace_context import new_traceparent as new_traceparent
    from headrace.http.trace_context import traceparent_of as traceparent_of

_NAMES = {
    "http.asgi_application": ("application",),
    "http.idempotency": ("IdempotencyStore", "MemoryIdempotency", "seed_of"),
    "http.access": ("access_of",),
    "http.authentication": ("actor_of", "may_write", "tenant_of"),
    "http.options": ("Access", "Audit", "AuditedRequest", "Check", "KeyScope", "Limits", "Options"),
    "http.cursors": ("PAGE_DEFAULT", "PAGE_MAX", "decode_cursor", "encode_cursor", "paged"),
    "http.problems": ("Problem",),
    "http.server": ("Served", "serving"),
    "http.event_streams": ("EventStream", "StreamEvent", "last_event_id"),
    "http.trace_context": ("new_traceparent", "traceparent_of"),
    "core.idempotency": ("Answer", "Attempt", "Begun"),
    "core.traces": ("TRACEPARENT", "make_traceparent", "read_traceparent"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_EXTRA = {"fastapi", "starlette", "uvicorn", "prometheus_client", "pydantic"}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.http' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"headrace.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _EXTRA:
            raise MissingExtra(f"serving HTTP needs {error.name}", "pip install 'headrace[http]'") from None
        raise


def __dir__() -> list[str]:
    return list(__all__)
