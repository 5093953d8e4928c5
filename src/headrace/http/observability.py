"""Whether a service lives, is ready, and how it does: `/healthz`, `/readyz`, `/metrics`, and the counts behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.http.options import Check, Options
from headrace.http.routes import route_of

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNANSWERED = 499
_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

log = structlog.get_logger("headrace.http")


@dataclass(frozen=True, slots=True)
class Meters:
    """The series of every service that is served by this kit."""

    requests: Counter
    duration_s: Histogram


_METERS: WeakKeyDictionary[CollectorRegistry, Meters] = WeakKeyDictionary()


def meters_of(registry: CollectorRegistry) -> Meters:
    """A registry takes a series once, and services of one process may share it."""
    if registry not in _METERS:
        names = ("service", "method", "route")
        _METERS[registry] = Meters(
            Counter("headrace_http_requests", "Requests answered.", (*names, "status"), registry=registry),
            Histogram(
                "headrace_http_request_duration_seconds",
                "From the request to the end of its answer, or to the beginning of a stream.",
                names,
                registry=registry,
                buckets=_BUCKETS,
            ),
        )
    return _METERS[registry]


class Observing:
    """Counts and times every request by the pattern it matched."""

    def __init__(self, app: ASGIApp, name: str, registry: CollectorRegistry) -> None:
        self.app, self.name, self.meters = app, name, meters_of(registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, ended = time.perf_counter(), _UNANSWERED, 0.0

        async def sender(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
                if any(value.startswith(b"text/event-stream") for _, value in message.get("headers", ())):
                    ended = time.perf_counter()
            await send(message)

        try:
            await self.app(scope, receive, sender)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            labels = (self.name, method, route_of(scope))
            self.meters.requests.labels(*labels, str(status)).inc()
            self.meters.duration_s.labels(*labels).observe((ended or time.perf_counter()) - began)


def observing_routes(options: Options, registry: CollectorRegistry) -> list[Route]:
    """The three routes that operators and their programs ask."""

    async def healthz(_request: Request) -> JSONResponse:
        """Alive: it answers, and so does whatever it cannot live without."""
        alive = all(check["ok"] for check in (await _answers(options, options.health)).values())
        status = "alive" if alive else "not alive"
        return JSONResponse({"status": status, "service": options.name}, 200 if alive else 503)

    async def readyz(request: Request) -> JSONResponse:
        """Ready: every part it needs answers; degraded, and ready all the same, without one that it can do without.
        Which ones there are, and which is missing, is for who has the key."""
        checks, beside = await _answers(options, options.checks), await _answers(options, options.beside(), quiet=True)
        ready = all(check["ok"] for check in checks.values())
        whole = "ready" if all(check["ok"] for check in beside.values()) else "degraded"
        is_told = "tenant" in request.scope.get("state", {})
        details = {"checks": checks, **({"beside": beside} if beside else {})} if is_told else {}
        return JSONResponse({"status": whole if ready else "not ready", **details}, 200 if ready else 503)

    async def metrics(request: Request) -> Response:
        """The series, as Prometheus reads them."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": media_type})

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


async def _answers(options: Options, checks: Mapping[str, Check], quiet: bool = False) -> dict[str, dict[str, object]]:
    """Each is asked at the same time as the others, and has its own time."""
    asked = (_asked(name, check, options.limits.check_s_max, quiet) for name, check in checks.items())
    return dict(await asyncio.gather(*asked))


async def _asked(name: str, check: Check, check_s_max: float, quiet: bool) -> tuple[str, dict[str, object]]:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(check_s_max):
            await check()
    except Exception as error:
        # A check may raise anything; what it says is for the log, because it may name what a caller must not know.
        if not quiet:
            log.warning("http.not_ready", check=name, error=repr(error))
        return name, {"ok": False, "error": type(error).__name__, "took_s": _since(began)}
    return name, {"ok": True, "took_s": _since(began)}


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 4)
