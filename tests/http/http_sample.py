"""A service that does whatever a test of the kit needs done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace.http import EventStream, Options, StreamEvent, application, last_event_id, seed_of
from headrace.pages import Document, response

KEY = "k" * 32
LOCAL = "http://127.0.0.1"


class Thing(BaseModel):
    """What is made here."""

    name: str = Field(min_length=1)
    parts: list[int] = []

    @model_validator(mode="after")
    def _sensible(self) -> Thing:
        if any(part < 0 for part in self.parts):
            raise ValueError("parts[0] is under nothing")
        if self.name == "hunter2":
            raise ValueError("nobody is called so")
        return self


@dataclass
class Sample:
    """`error` is what the next call raises, `gate` holds answers back, `made` are the things there are."""

    error: Exception | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    made: list[str] = field(default_factory=list)
    calls: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    pages: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def app(self, **options: Any) -> Starlette:
        return application(Options("sample", **options), self.routers())

    def client(self, base_url: str = LOCAL, **options: Any) -> httpx.AsyncClient:
        """A client of the application itself, without a server between."""
        transport = httpx.ASGITransport(self.app(**options))
        return httpx.AsyncClient(transport=transport, base_url=base_url)

    def routers(self) -> list[APIRouter]:
        router, pages = APIRouter(), APIRouter(include_in_schema=False)

        @router.get("/things")
        async def things() -> list[str]:
            self._fail()
            return self.made

        @router.post("/things", status_code=201)
        async def make(thing: Thing, request: Request) -> Response:
            self.calls += 1
            self.entered.set()
            await self.gate.wait()
            self._fail()
            # An id that derives from the seed: the same thing is made once, however often this runs.
            seed = seed_of(request)
            if seed not in self.made:
                self.made.append(seed)
            self._fail_after()
            return JSONResponse({"id": seed, "call": self.calls}, 201, {"Location": f"/things/{seed}"})

        @router.get("/things/{name}")
        async def thing(name: str) -> str:
            return name

        @router.get("/slow")
        async def slow() -> str:
            await self.gate.wait()
            return "at last"

        @router.get("/stream")
        async def stream(request: Request) -> Response:
            return EventStream(self._events(int(last_event_id(request) or 0)), beat_s=0.02)

        @router.get("/flood")
        async def flood() -> Response:
            return EventStream(self._flood())

        @pages.get("/")
        async def front() -> Response:
            html = "<!doctype html><style>p{color:red}</style><script>let a = 1</script><p>hello"
            return response(Document.bundled(html))

        return [router, pages]

    def _fail(self) -> None:
        if self.error is not None and not isinstance(self.error, After):
            raise self.error

    def _fail_after(self) -> None:
        if isinstance(self.error, After):
            raise self.error

    async def _events(self, last: int) -> AsyncGenerator[StreamEvent, None]:
        try:
            for number in range(last + 1, 4):
                self._fail()
                yield StreamEvent(f'{{"number":\n{number}}}', str(number), "count")
            self.entered.set()
            await self.gate.wait()
        finally:
            self.ended.set()

    async def _flood(self) -> AsyncGenerator[StreamEvent, None]:
        try:
            while True:
                self.pages += 1
                yield StreamEvent("x" * 10_000)
        finally:
            self.ended.set()


class After(RuntimeError):
    """Raised when the thing is made and before anybody knows."""
