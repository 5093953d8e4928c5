"""An HTTP server for tests: it answers as it is told to, and keeps what it was sent.

with HttpReceiver(lambda request: HttpAnswer(503)) as hook:
    notify(hook.url)
assert hook.requests[0].document["type"] == "order.paid"
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

LOOK_S = 0.01
"""How soon it sees that it shall end."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What somebody sent; names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`body` are bytes, or a document for JSON."""

    status: int = 200
    body: object = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpReceiver:
    """Listens on loopback for as long as a block runs. `answer` may be changed at any time."""

    def __init__(self, answer: Callable[[HttpRequest], HttpAnswer] = lambda _request: HttpAnswer()) -> None:
        self.answer = answer
        self.requests: list[HttpRequest] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver._respond(self, HttpRequest(self.command, self.path, headers, self.rfile.read(length)))

            do_GET = do_PUT = do_POST  # noqa: N815 - the names of http.server

            def log_message(self, *_: object) -> None:
                """Whoever wants to know has `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._serving = threading.Thread(target=self._server.serve_forever, args=(LOOK_S,))
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()

    def _respond(self, handler: BaseHTTPRequestHandler, request: HttpRequest) -> None:
        self.requests.append(request)
        answer = self.answer(request)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {"Content-Length": str(len(body)), **answer.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
