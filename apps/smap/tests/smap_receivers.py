"""A receiver of webhooks and of Zalo messages for tests: a real HTTP server that remembers what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


@dataclass(slots=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


Answer = Callable[[Got], tuple[int, dict[str, Any]]]


@dataclass(slots=True)
class Receiver:
    url: str = ""
    got: list[Got] = field(default_factory=list)
    answer: Answer = lambda got: (200, {"error": 0})


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Listens on loopback for as long as the block runs."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            got = Got(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            kept.got.append(got)
            status, document = kept.answer(got)
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            """Tests read `got`, not a log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
