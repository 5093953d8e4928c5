"""As much of Cassandra's native protocol (version 4) as the rig needs: one statement, by a connection of its own.

The driver is for clients: it looks for the whole cluster first, in threads of its own, and the rig only asks one node.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import IO

VERSION = 4
ANSWER_S_MAX = 15.0
# Version, flags, stream, kind and size of a frame.
HEAD = struct.Struct(">BBhBi")
UNAVAILABLE = 0x1000
# Overloaded, still starting, or it did not hear from the others in time: it may answer the next time.
TRANSIENT = (0x1001, 0x1002, 0x1100, 0x1200)


class FrameKind(IntEnum):
    ERROR = 0x00
    STARTUP = 0x01
    READY = 0x02
    QUERY = 0x07
    RESULT = 0x08


class Consistency(IntEnum):
    ONE = 0x0001
    ALL = 0x0005


class StatementRefused(Exception):
    """The node answers with an error; `alive_count` is how many replicas it sees, if that is what it complains of."""

    def __init__(self, code: int, message: str, alive_count: int | None) -> None:
        super().__init__(f"{message} (0x{code:04x})")
        self.alive_count = alive_count


def execute(address: tuple[str, int], statement: str, consistency: Consistency = Consistency.ONE) -> None:
    """Run one statement; ConnectionError if the node does not answer (yet), StatementRefused if it refuses."""
    with socket.create_connection(address, ANSWER_S_MAX) as stream, stream.makefile("rb") as replies:
        stream.sendall(_frame(FrameKind.STARTUP, _text_map({"CQL_VERSION": "3.0.0"})))
        _expect(FrameKind.READY, replies)
        text = statement.encode()
        body = struct.pack(">i", len(text)) + text + struct.pack(">HB", consistency, 0)
        stream.sendall(_frame(FrameKind.QUERY, body))
        _expect(FrameKind.RESULT, replies)


def _frame(kind: FrameKind, body: bytes) -> bytes:
    return HEAD.pack(VERSION, 0, 0, kind, len(body)) + body


def _text_map(pairs: Mapping[str, str]) -> bytes:
    texts = [text.encode() for pair in pairs.items() for text in pair]
    return struct.pack(">H", len(pairs)) + b"".join(struct.pack(">H", len(text)) + text for text in texts)


def _expect(kind: FrameKind, replies: IO[bytes]) -> None:
    """Read one frame, which must be of this kind."""
    head = replies.read(HEAD.size)
    if len(head) < HEAD.size:
        raise ConnectionError("Cassandra ended the connection")
    _, _, _, found, size = HEAD.unpack(head)
    body = replies.read(size)
    if found == FrameKind.ERROR:
        raise _error_of(body)
    if found != kind:
        raise ConnectionError(f"Cassandra answers with a frame of kind {found} instead of {kind.name}")


def _error_of(body: bytes) -> Exception:
    code, size = struct.unpack_from(">iH", body)
    message = body[6 : 6 + size].decode(errors="replace")
    if code in TRANSIENT:
        return ConnectionError(f"Cassandra answers: {message}")
    # Behind the message: the consistency that was asked for, how many it takes and how many there are.
    alive_count = struct.unpack_from(">Hii", body, 6 + size)[2] if code == UNAVAILABLE else None
    return StatementRefused(code, message, alive_count)
