"""The few frames that come and go by the thousand, read and written by hand; for all others there is `pamqp`.

What others wrote into a message's properties may be anything, and a message must never break the connection that
carries it: what cannot be read is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct, error
from typing import Any

from pamqp import decode
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from headrace.core.errors import CallerError, TooLarge

METHOD, HEADER, BODY = 1, 2, 3
BASIC = 60
PUBLISH, RETURN, DELIVER, ACK, NACK = 40, 50, 60, 80, 120
FRAME_END = b"\xce"
HEARTBEAT = b"\x08\0\0\0\0\0\0" + FRAME_END
SHORT_BYTES_MAX = 255
PERSISTENT = b"\x02"
HAS_CONTENT_TYPE, HAS_ENCODING, HAS_HEADERS, HAS_MODE, HAS_PRIORITY = 1 << 15, 1 << 14, 1 << 13, 1 << 12, 1 << 11
HAS_CORRELATION, HAS_REPLY_TO, HAS_EXPIRATION, HAS_ID, HAS_TIME = 1 << 10, 1 << 9, 1 << 8, 1 << 7, 1 << 6

FRAME_HEAD = Struct(">BHI")
METHOD_HEAD = Struct(">HH")
CONTENT_HEAD = Struct(">HHQ")
FLAGS = Struct(">H")
LENGTH = Struct(">I")
LONG = Struct(">Q")
ANSWER = Struct(">BHIHHQBB")
ANSWER_SIZE = 13
# What the library or a read beyond the end raises. A time that no calendar has is an OverflowError or an OSError.
UNREADABLE = (ValueError, OverflowError, OSError, IndexError, error)


@dataclass(slots=True)
class Arrived:
    """A message as it came, or came back: `tag` is 0 for one that was returned. `written` are its properties."""

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    written: bytes
    body: bytes = b""

    def properties(self) -> Basic.Properties:
        """All of them, as far as they can be read."""
        header = ContentHeader()
        with contextlib.suppress(*UNREADABLE):
            header.unmarshal(CONTENT_HEAD.pack(BASIC, 0, 0) + self.written)
        return header.properties


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message as it goes out; `written` are its properties."""

    exchange: str
    routing_key: str
    message_id: str
    written: bytes
    body: bytes


@dataclass(slots=True)
class Brief:
    """What is asked of the properties of every message."""

    message_id: str = ""
    timestamp: float = 0.0
    headers: Mapping[str, Any] | None = None


def short(text: str) -> bytes:
    """A short string, as names are written; refused if it is not short."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise CallerError(f"{text[:40]!r} cannot be written as UTF-8") from error
    if len(encoded) > SHORT_BYTES_MAX:
        raise TooLarge(f"{text[:40]!r}… is over SHORT_BYTES_MAX = {SHORT_BYTES_MAX} bytes")
    return bytes((len(encoded),)) + encoded


_name = lru_cache(maxsize=1_000)(short)


def write_properties(message_id: str, timestamp: int, headers: Mapping[str, str]) -> bytes:
    """The properties of a persistent message."""
    flags, parts = HAS_MODE | HAS_ID, [b""]
    if headers:
        flags |= HAS_HEADERS
        table = b"".join(
            _name(name) + b"S" + LENGTH.pack(len(encoded)) + encoded
            for name, encoded in ((name, _text(value)) for name, value in headers.items())
        )
        parts += (LENGTH.pack(len(table)), table)
    parts += (PERSISTENT, short(message_id))
    if timestamp > 0:
        flags |= HAS_TIME
        parts.append(LONG.pack(timestamp))
    parts[0] = FLAGS.pack(flags)
    return b"".join(parts)


def _text(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise CallerError(f"a header cannot be written as UTF-8: {error}") from error


def read_brief(written: bytes) -> Brief:
    """Id, time and headers out of written properties, as far as they can be read."""
    brief = Brief()
    with contextlib.suppress(*UNREADABLE):
        _read_brief(written, brief)
    return brief


def _read_brief(written: bytes, brief: Brief) -> None:
    flags, at = FLAGS.unpack_from(written)[0], 2
    for each in (HAS_CONTENT_TYPE, HAS_ENCODING):
        if flags & each:
            at += 1 + written[at]
    if flags & HAS_HEADERS:
        end = at + 4 + LENGTH.unpack_from(written, at)[0]
        with contextlib.suppress(*UNREADABLE):
            brief.headers = _read_table(written, at, end)
        at = end
    at += bool(flags & HAS_MODE) + bool(flags & HAS_PRIORITY)
    for each in (HAS_CORRELATION, HAS_REPLY_TO, HAS_EXPIRATION):
        if flags & each:
            at += 1 + written[at]
    if flags & HAS_ID:
        end = at + 1 + written[at]
        brief.message_id = str(written[at + 1 : end], "utf-8", "backslashreplace")
        at = end
    if flags & HAS_TIME:
        moment = LONG.unpack_from(written, at)[0]
        # Some write milliseconds.
        brief.timestamp = moment / 1000 if moment > 0xFFFFFFFF else float(moment)


def _read_table(written: bytes, start: int, end: int) -> Mapping[str, Any]:
    """Most headers are texts; a table with anything else is for `pamqp`."""
    found, at = {}, start + 4
    while at < end:
        name_end = at + 1 + written[at]
        if written[name_end] != 0x53:
            return decode.field_table(written[start:end])[1]
        value_at = name_end + 5
        value_end = value_at + LENGTH.unpack_from(written, name_end + 1)[0]
        name = str(written[at + 1 : name_end], "utf-8", "backslashreplace")
        found[name] = str(written[value_at:value_end], "utf-8", "backslashreplace")
        at = value_end
    return found


def read_delivery(frame: bytes, start: int) -> Arrived:
    """A `basic.deliver`, from behind its method's head."""
    at = start + 1 + frame[start]
    tag, redelivered = LONG.unpack_from(frame, at)[0], bool(frame[at + 8])
    exchange, at = _short(frame, at + 9)
    routing_key, _ = _short(frame, at)
    return Arrived(tag, redelivered, exchange, routing_key, b"")


def read_return(frame: bytes, start: int) -> Arrived:
    """A `basic.return`, from behind its method's head."""
    _, at = _short(frame, start + 2)
    exchange, at = _short(frame, at)
    routing_key, _ = _short(frame, at)
    return Arrived(0, False, exchange, routing_key, b"")


def _short(frame: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + frame[at]
    return str(frame[at + 1 : end], "utf-8", "backslashreplace"), end


@lru_cache(maxsize=1_000)
def _publish(channel: int, exchange: str, routing_key: str) -> bytes:
    arguments = b"\0\0" + short(exchange) + short(routing_key) + b"\x01"
    return frame_of(METHOD, channel, METHOD_HEAD.pack(BASIC, PUBLISH) + arguments)


def frame_of(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME_HEAD.pack(kind, channel, len(payload)) + payload + FRAME_END


def packed(channel: int, message: Outgoing, frame_max: int) -> bytes:
    """One message, mandatory, ready to be written."""
    body, most = message.body, frame_max - 8
    method = _publish(channel, message.exchange, message.routing_key)
    header = frame_of(HEADER, channel, CONTENT_HEAD.pack(BASIC, 0, len(body)) + message.written)
    if not body:
        return method + header
    if len(body) <= most:
        return b"".join((method, header, FRAME_HEAD.pack(BODY, channel, len(body)), body, FRAME_END))
    parts = [frame_of(BODY, channel, body[start : start + most]) for start in range(0, len(body), most)]
    return b"".join((method, header, *parts))


def packed_acks(channel: int, tags: Iterable[tuple[int, bool]]) -> bytes:
    """Acknowledgements of (tag, and all below it?)."""
    return b"".join(
        ANSWER.pack(METHOD, channel, ANSWER_SIZE, BASIC, ACK, tag, multiple, FRAME_END[0]) for tag, multiple in tags
    )


def packed_nacks(channel: int, tags: Iterable[int]) -> bytes:
    """Messages that go back to their queue."""
    requeue = 0b10
    return b"".join(ANSWER.pack(METHOD, channel, ANSWER_SIZE, BASIC, NACK, tag, requeue, FRAME_END[0]) for tag in tags)
