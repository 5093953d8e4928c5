"""The application: routes of a service inside everything that is the same for all services.

From the outside in: trace → counts → headers → audit → answers to errors → authentication → rate → what comes in →
repeats → answers to errors → time → HEAD → the routes. Errors become answers in two places: what the handler raises is
an answer that is kept for its repeat, what a door raises is not. The audit is outside of both: a refusal is an answer
that has been sent when its row is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from headrace.http.access import Auditor, RateLimiter
from headrace.http.authentication import Guard, SafeHeaders
from headrace.http.event_streams import OpenStreams
from headrace.http.idempotency import Idempotency, MemoryIdempotency
from headrace.http.limits import Deadline, RequestLimiter
from headrace.http.observability import Observing, observing_routes
from headrace.http.openapi import Described
from headrace.http.options import Options
from headrace.http.problems import Answering, on_http_exception, on_invalid
from headrace.http.routes import Heads, Routes
from headrace.http.trace_context import Tracing

PREFIX = "/api/v1"


def application(options: Options, routers: Sequence[APIRouter]) -> FastAPI:
    """An ASGI application. Every router is there as it is and under `/api/v1`, where OpenAPI describes it; one that is
    not to be described (`include_in_schema=False`: pages for people) only as it is. The first that matches answers."""
    registry = options.registry or CollectorRegistry()
    app = Described(
        title=options.name,
        version=options.version,
        middleware=_layers(options, registry),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: on_http_exception, RequestValidationError: on_invalid},
    )
    app.state.options = options
    app.state.streams = OpenStreams(options.limits.streams_max)
    app.state.routes = known = Routes()
    known.add(app.routes)
    for router in (observing_routes(options, registry), *routers):
        if router.include_in_schema:
            app.include_router(router, prefix=PREFIX)
            known.add(router.routes, PREFIX)
        app.include_router(router, include_in_schema=False)
        known.add(router.routes)
    return app


def _layers(options: Options, registry: CollectorRegistry) -> list[Middleware]:
    store = options.idempotency or MemoryIdempotency()
    return [
        Middleware(Tracing),
        Middleware(Observing, name=options.name, registry=registry),
        Middleware(SafeHeaders),
        Middleware(Auditor, audit=options.access.audit),
        Middleware(Answering),
        Middleware(Guard, options=options),
        Middleware(RateLimiter, access=options.access),
        Middleware(RequestLimiter, limits=options.limits),
        Middleware(Idempotency, store=store, limits=options.limits),
        Middleware(Answering),
        Middleware(Deadline, limits=options.limits),
        Middleware(Heads),
    ]
