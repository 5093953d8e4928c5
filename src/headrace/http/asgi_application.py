"""The application: routes of a service inside everything that is the same for all services.

From the outside in: trace → counts → headers → audit → answers to errors → authentication → rate → what comes in →
repeats → answers to errors → time → HEAD → the routes. Errors become answers in two places: what the handler raises is
an answer that is kept for its repeat, what a door raises is not. The audit is outside of both: a refusal is an answer
that has been sent when its row is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace.http.access import Auditor, RateLimiter
from headrace.http.authentication import Guard, SafeHeaders
from headrace.http.event_streams import OpenStreams
from headrace.http.idempotency import Idempotency, MemoryIdempotency
from headrace.http.limits import Deadline, RequestLimiter
from headrace.http.observability import Observing, observing_routes
from headrace.http.openapi import complete
from headrace.http.options import Options
from headrace.http.problems import Answering, on_http_exception
from headrace.http.routes import Heads, Routes
from headrace.http.trace_context import Tracing

if TYPE_CHECKING:
    from fastapi import APIRouter

PREFIX = "/api/v1"


def application(options: Options, routers: Sequence[APIRouter]) -> Starlette:
    """An ASGI application. Every router is there as it is and under `/api/v1`, where OpenAPI describes it; one that is
    not to be described (`include_in_schema=False`: pages for people) only as it is. The first that matches answers."""
    registry = options.registry or CollectorRegistry()
    layers, observing = _layers(options, registry), observing_routes(options, registry)
    if routers:
        from headrace.http.described_application import described_application

        app: Starlette = described_application(options, layers, observing, routers, PREFIX)
    else:
        app = _observed(options, layers, observing)
    app.state.options = options
    app.state.streams = OpenStreams(options.limits.streams_max)
    return app


def _observed(options: Options, layers: Sequence[Middleware], observing: Sequence[Route]) -> Starlette:
    """One without routes of its own, and a description that says so."""
    description: dict[str, Any] = {"info": {"title": options.name, "version": options.version}, "paths": {}}
    complete(description)

    async def openapi(_request: Request) -> JSONResponse:
        return JSONResponse({"openapi": "3.1.0", **description})

    routes = [Route(f"{PREFIX}/openapi.json", openapi), *observing]
    app = Starlette(routes=routes, middleware=layers, exception_handlers={HTTPException: on_http_exception})
    app.router.redirect_slashes = False
    app.state.routes = Routes()
    app.state.routes.add(routes)
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
