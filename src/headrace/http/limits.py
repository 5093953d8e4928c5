"""What comes in is bounded before anybody looks at it: requests at a time, bytes, the time they take, nesting.

A body is read whole and handed on from memory. So a handler never waits for a slow sender, and what looks at the body
before it (the key of a repeat) need not take it apart.
"""

from __future__ import annotations

import asyncio
import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.http.options import Limits
from headrace.http.problems import Problem, later

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class RequestLimiter:
    """Requests at a time, and their bodies."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._open >= self.limits.requests_max:
            raise later("busy", f"requests_max = {self.limits.requests_max} requests are in hand")
        self._open += 1
        try:
            body = await self._body(Headers(scope=scope), receive)
            scope.setdefault("state", {})["body"] = body
            await self.app(scope, _replayed(body, receive), send)
        finally:
            self._open -= 1

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        if "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
            return b""
        told = headers.get("content-length", "0")
        if not told.isdecimal():
            raise Problem(400, "bad-request", "Content-Length is not a number", headers={"Connection": "close"})
        if int(told) > self.limits.body_bytes_max:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.limits.body_s_max):
                body = await self._read(receive)
        except TimeoutError:
            detail = f"the body took longer than body_s_max = {self.limits.body_s_max:g} s"
            raise Problem(408, "too-slow", detail, headers={"Connection": "close"}) from None
        if "json" in headers.get("content-type", "json") and deeper_than(body, self.limits.depth_max):
            raise Problem(400, "too-deep", f"the JSON is nested deeper than depth_max = {self.limits.depth_max}")
        return body

    async def _read(self, receive: Receive) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "cut", "the body ended early")
            part = message.get("body", b"")
            size += len(part)
            if size > self.limits.body_bytes_max:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> Problem:
        detail = f"the body is over body_bytes_max = {self.limits.body_bytes_max:,}"
        # What was not read would be taken for the next request.
        return Problem(413, "too-large", detail, headers={"Connection": "close"})


class Deadline:
    """An answer must begin in time, and whoever takes it must go on taking it."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        async with asyncio.timeout(self.limits.request_s_max) as limit:

            async def sender(message: Message) -> None:
                limit.reschedule(None)
                async with asyncio.timeout(self.limits.stall_s_max):
                    await send(message)

            await self.app(scope, receive, sender)


def deeper_than(text: bytes, depth_max: int) -> bool:
    """Whether JSON nests deeper than this, told without parsing: a parser may go down with it."""
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0][:1]:
            case b"{" | b"[":
                depth += 1
                if depth > depth_max:
                    return True
            case b"}" | b"]":
                depth -= 1
    return False


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
