"""Errors as answers: problem+json (RFC 9457) with a type for programs and words for people.

What the caller must change is told in full. What the operator must change is told to the operator, in the log: the
caller learns that it is not its fault and when to come again.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.errors import (
    CallerError,
    ClaimLost,
    Conflict,
    HeadraceError,
    InvalidPayload,
    NotFound,
    StoreFull,
    TooLarge,
)
from headrace.http.routes import route_of, routes_of

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
ERRORS_MAX = 20
TRACE_CHARS_MAX = 4_000
UNREADABLE = "There was an error parsing the body"
"""What the framework says of a body that is no UTF-8, or that holds a number of thousands of digits."""
_NAMES = "urn:headrace:problem:"
_FIELD = re.compile(r"(\w+)(?:\[\d+\]|\.\w+)*")

log = structlog.get_logger("headrace.http")


class Problem(Exception):
    """An answer that is an error. `kind` is for programs and never changes; `detail` and `hint` are for people."""

    def __init__(self, status: int, kind: str, detail: str, **more: Any) -> None:
        """`more`: `hint`, `headers`, `errors` (what is wrong where), and any other member of the answer."""
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.headers: Mapping[str, str] = more.pop("headers", {})
        self.members = {name: value for name, value in more.items() if value}

    def response(self, path: str) -> Response:
        """The answer to a request for this path."""
        document = {
            "type": _NAMES + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "instance": path,
            **self.members,
        }
        return Response(msgspec.json.encode(document), self.status, dict(self.headers), MEDIA_TYPE)


def later(kind: str, detail: str, **more: Any) -> Problem:
    """Right, but not now."""
    return Problem(503, kind, detail, headers={"Retry-After": str(RETRY_AFTER_S)}, **more)


_STATUSES: tuple[tuple[type[CallerError], int, str], ...] = (
    (NotFound, 404, "not-found"),
    (Conflict, 409, "conflict"),
    (ClaimLost, 409, "conflict"),
    (TooLarge, 413, "too-large"),
    (InvalidPayload, 422, "invalid"),
    (CallerError, 400, "bad-request"),
)


def problem_of(error: Exception) -> Problem:
    """What an error is to the caller."""
    match error:
        case Problem():
            return error
        case CallerError():
            status, kind = next((status, kind) for tree, status, kind in _STATUSES if isinstance(error, tree))
            return Problem(status, kind, str(error), hint=error.hint)
        case TimeoutError():
            return later("timed-out", "it took too long and was given up", hint="the same request again is right")
        case StoreFull():
            return later("no-room", "there is no room to keep this; nothing was changed")
        case HeadraceError(heals=True):
            return later("unreachable", "a part that this service needs does not answer now")
        case HeadraceError():
            return Problem(500, "misconfigured", "this service is not set up as it must be; its log says more")
        case _:
            return Problem(500, "internal", "this service made a mistake; its log says more")


class Answering:
    """Whatever is raised below becomes an answer, if none has begun; the log gets what the caller must not see."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def sender(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sender)
        except Exception as error:
            problem = problem_of(error)
            _tell(scope, problem, error, begun)
            # An answer that has begun cannot become another one: the server cuts the connection.
            if not begun:
                await problem.response(scope["path"])(scope, receive, send)


def _tell(scope: Scope, problem: Problem, error: Exception, begun: bool) -> None:
    fields = {"method": scope["method"], "route": route_of(scope), "kind": problem.kind, "error": repr(error)}
    if problem.status == 500:
        # Without the values of variables, which may be somebody's secret.
        log.error("http.failed", trace="".join(traceback.format_exception(error))[-TRACE_CHARS_MAX:], **fields)
    elif problem.status > 500 or begun:
        log.warning("http.cut" if begun else "http.refused", **fields)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """No such route, no such method, and what handlers raise in the framework's words."""
    assert isinstance(error, HTTPException)
    if error.status_code == 400 and error.detail == UNREADABLE:
        return _not_json().response(request.url.path)
    kinds = {404: "not-found", 405: "method-not-allowed"}
    details = {404: "there is nothing under this path", 405: f"{request.method} is not for this path"}
    status = error.status_code
    detail = details.get(status) if error.detail == HTTPStatus(status).phrase else str(error.detail)
    headers = dict(error.headers or {})
    if status == 405 and (methods := routes_of(request.scope).methods(request.scope)):
        # The framework names the methods of one route only.
        headers["Allow"] = ", ".join(methods)
    problem = Problem(status, kinds.get(status, "refused"), detail or HTTPStatus(status).phrase, headers=headers)
    return problem.response(request.url.path)


async def on_invalid(request: Request, error: Exception) -> Response:
    """A request that does not fit its declaration: where, and what would fit. What was sent is not repeated."""
    from fastapi.exceptions import RequestValidationError

    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return _not_json().response(request.url.path)
    if isinstance(error.body, bytes) and any(each["loc"][:1] == ("body",) for each in found):
        # The framework has not looked into the body, because it was not told what it is.
        detail = "the body was not sent as JSON: send it with Content-Type: application/json"
        return Problem(415, "media-type", detail).response(request.url.path)
    errors = [_told(each) for each in found[:ERRORS_MAX]]
    detail = "; ".join(_sentence(**each) for each in errors[:3])
    return Problem(422, "invalid", detail, errors=errors).response(request.url.path)


def _not_json() -> Problem:
    return Problem(400, "not-json", "the body cannot be read as JSON in UTF-8")


def _told(error: Mapping[str, Any]) -> dict[str, str]:
    words = _words(str(error["msg"]))
    whole = str((*error["loc"], "body")[0])
    return {"where": _where(error["loc"]) or _named(words, error.get("input")) or whole, "detail": words}


def _where(place: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[1:]).lstrip(".")


def _named(words: str, given: object) -> str:
    """What is wrong with several fields together is the whole's mistake; its words begin with the field they mean."""
    name = _FIELD.match(words)
    return name[0] if name and isinstance(given, Mapping) and name[1] in given else ""


def _sentence(where: str, detail: str) -> str:
    begins = _FIELD.match(detail)
    return detail if begins and begins[0] == where else f"{where}: {detail}"


def _words(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
