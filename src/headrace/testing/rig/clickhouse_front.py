"""The process behind `ClickHouseServer`: chDB, and as much of ClickHouse's HTTP interface as its Python client needs.

It runs one query at a time; requests wait for each other. Data of an insert come after its statement, in the body: they
are written to a file, which the engine reads in the format that the statement names. Settings in the URL count for
queries and for such inserts.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

# What the interface itself reads; everything else in a URL is a setting of the query.
OWN = {
    "query", "database", "default_format", "user", "password", "role", "quota_key", "compress", "decompress",
    "session_id", "session_timeout", "session_check", "query_id", "client_protocol_version", "wait_end_of_query",
    "enable_http_compression", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
    "cancel_http_readonly_queries_on_client_close", "buffer_size",
}  # fmt: skip
PARAMETER = "param_"
DEFAULT_FORMAT = "TabSeparated"
INSERT = re.compile(r"\s*INSERT\s+INTO\b", re.IGNORECASE)
# The statement of an insert ends with its format; data begin after one line break.
FORMATTED = re.compile(rb"\s+FORMAT\s+(\w+)[ \t]*;?[ \t]*(?:\r?\n|$)", re.IGNORECASE)
READS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
FORMAT_AT_END = re.compile(r"\s+FORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
CODE = re.compile(r"Code: (\d+)")
UNKNOWN_EXCEPTION = "1002"
TOO_MANY_PARTS = "Code: 252. DB::Exception: Too many parts: refused because the test wants it. (TOO_MANY_PARTS)"


class ChdbEngine:
    """chDB on one directory, one query at a time."""

    def __init__(self, data: str, refusals: Path) -> None:
        self._session = Session(data)
        self._refusals = refusals
        self._one_query = threading.Lock()

    def answer(self, text: bytes, fields: Mapping[str, str]) -> tuple[str, bytes]:
        """The format and bytes of what a request asks for; `fields` are those of its URL."""
        parameters = {
            name.removeprefix(PARAMETER): value for name, value in fields.items() if name.startswith(PARAMETER)
        }
        settings = {name: value for name, value in fields.items() if name not in OWN and not name.startswith(PARAMETER)}
        with self._one_query:
            self._session.query(f"USE `{fields.get('database') or 'default'}`")
            if INSERT.match(text[:100].decode(errors="replace")):
                return self._insert(text, settings)
            return self._query(text.decode(), settings, parameters, fields.get("default_format", DEFAULT_FORMAT))

    def _query(
        self, statement: str, settings: Mapping[str, str], parameters: Mapping[str, str], form: str
    ) -> tuple[str, bytes]:
        named = FORMAT_AT_END.search(statement)
        if named:
            form, statement = named[1], statement[: named.start()]
        if settings and READS.match(statement):
            statement += f" SETTINGS {_assigned(settings)}"
        found = self._session.query(statement, form, params=dict(parameters))
        return form, found.bytes() if found is not None else b""

    def _insert(self, text: bytes, settings: Mapping[str, str]) -> tuple[str, bytes]:
        self._refuse_if_wanted()
        named = FORMATTED.search(text)
        written = f" SETTINGS {_assigned(settings)}" if settings else ""
        if named is None or named[1].upper() == b"VALUES":
            self._session.query(text.decode())
            return DEFAULT_FORMAT, b""
        with tempfile.NamedTemporaryFile() as file:
            file.write(text[named.end() :])
            file.flush()
            head = text[: named.start()].decode()
            self._session.query(f"{head} FROM INFILE '{file.name}'{written} FORMAT {named[1].decode()}")
        return DEFAULT_FORMAT, b""

    def _refuse_if_wanted(self) -> None:
        left = int(self._refusals.read_text())
        if left:
            self._refusals.write_text(str(left - 1))
            raise RuntimeError(TOO_MANY_PARTS)


class _Conversation(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    engine: ClassVar[ChdbEngine]

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        fields = dict(parse_qsl(place.query, keep_blank_values=True))
        text = b"\n".join(part for part in (fields.get("query", "").encode(), self._body()) if part)
        if place.path == "/ping" or not text:
            self._reply(200, b"Ok.\n", DEFAULT_FORMAT)
            return
        try:
            form, answer = self.engine.answer(text, fields)
        except Exception as error:
            # Whatever the engine says is an answer.
            self._reply(500, str(error).encode(), DEFAULT_FORMAT)
            return
        self._reply(200, answer, form)

    do_POST = do_GET  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().partition(b";")[0], 16)
        piece = self.rfile.read(size)
        self.rfile.readline()
        return piece

    def _reply(self, status: int, body: bytes, form: str) -> None:
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), "X-ClickHouse-Format": form, "X-ClickHouse-Timezone": "UTC"}
        if status != 200:
            code = CODE.search(body.decode(errors="replace"))
            headers["X-ClickHouse-Exception-Code"] = code[1] if code else UNKNOWN_EXCEPTION
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form: str, *values: Any) -> None:
        """Addresses carry whole statements, and a log of them nobody reads; errors are told to the client."""


def _assigned(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in settings.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def serve(orders: dict[str, Any]) -> None:
    """Serve until the process ends."""
    _Conversation.engine = ChdbEngine(orders["data"], Path(orders["refusals"]))
    server = ThreadingHTTPServer(("127.0.0.1", orders["port"]), _Conversation)
    server.daemon_threads = True
    print(f"chDB listens on 127.0.0.1:{orders['port']}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(json.loads(Path(sys.argv[1]).read_text()))
