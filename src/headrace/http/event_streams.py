"""Server-Sent Events: a stream that a browser resumes by itself.

Events are pulled from their source, one at a time and only as fast as the client takes them: a slow client delays
nobody and fills no memory, and one that takes nothing is cut (`stall_s_max`). While there is nothing to tell, a comment
beats, so that both sides notice when the other is gone. A client that comes again names the last event it has had.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.core.errors import HeadraceError
from headrace.http.problems import Problem, later
from headrace.http.routes import route_of

RETRY_MS = 2_000
BEAT_S = 15.0
EVENT_ID_CHARS_MAX = 256
_BEAT = b": beat\n\n"

log = structlog.get_logger("headrace.http")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. `event_id` is what the client names when it comes again; `kind` is the event's name in a browser."""

    data: str
    event_id: str = ""
    kind: str = ""

    def encoded(self) -> bytes:
        fields = [("id", self.event_id), ("event", self.kind)]
        lines = [f"{name}: {value}" for name, value in fields if value]
        lines += [f"data: {line}" for line in self.data.splitlines() or [""]]
        return ("\n".join(lines) + "\n\n").encode()


def last_event_id(request: Request) -> str:
    """The last event the client has had; empty if it is new here."""
    given = request.headers.get("last-event-id", "")
    if len(given) > EVENT_ID_CHARS_MAX:
        raise Problem(400, "bad-request", f"Last-Event-ID is over {EVENT_ID_CHARS_MAX} characters")
    return given


class EventStream(Response):
    """The answer that streams. The source is closed when the stream ends, whoever ended it: the source itself, the
    client, or the service that stops."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[StreamEvent, None], retry_ms: int = RETRY_MS, beat_s: float = BEAT_S
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._events, self._retry_ms, self._beat_s = events, retry_ms, beat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams: OpenStreams = scope["app"].state.streams
        async with aclosing(self._events):
            streams.enter()
            try:
                await self._stream(scope, receive, send, streams.stopping)
            finally:
                streams.leave()

    async def _stream(self, scope: Scope, receive: Receive, send: Send, stopping: asyncio.Event) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        pump = asyncio.ensure_future(self._pump(send))
        ends = {pump, asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(stopping.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.wait(ends)
        error = None if pump.cancelled() else pump.exception()
        if isinstance(error, HeadraceError):
            # The client comes again by itself and goes on from the last event it has had.
            log.warning("http.stream_ended", route=route_of(scope), error=repr(error))
        elif error is not None:
            raise error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        await _write(send, f"retry: {self._retry_ms}\n\n".encode())
        coming = asyncio.ensure_future(anext(self._events, None))
        try:
            while True:
                ready, _ = await asyncio.wait({coming}, timeout=self._beat_s)
                if not ready:
                    await _write(send, _BEAT)
                    continue
                event = coming.result()
                if event is None:
                    return
                await _write(send, event.encoded())
                coming = asyncio.ensure_future(anext(self._events, None))
        finally:
            coming.cancel()
            await asyncio.wait({coming})


class OpenStreams:
    """The streams of one service: how many may be open, and the word that it stops."""

    def __init__(self, streams_max: int) -> None:
        self.stopping = asyncio.Event()
        self.open = 0
        self._max = streams_max

    def enter(self) -> None:
        if self.open >= self._max:
            raise later("busy", f"streams_max = {self._max} streams are open")
        self.open += 1

    def leave(self) -> None:
        self.open -= 1


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
