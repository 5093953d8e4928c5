"""The hot path: messages and confirmations are taken out of the stream before the driver sees them.

The driver reads frame by frame and makes a task for every message, which costs more than all the rest. Here the bytes
of a connection pass through a tap: frames of channels that have a sink are put together and told at once, all others
go on to the driver, which keeps what it is good at: login, TLS, calls and their answers, heartbeats, the end.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable
from typing import Any, Protocol, SupportsIndex

from aiormq import TransportFactory
from yarl import URL

from headrace.adapters.rabbitmq import codec
from headrace.adapters.rabbitmq.codec import Arrived

BEAT_EVERY_S = 1.0


class FrameSink(Protocol):
    """Whoever a channel works for. Called while the connection is being read: must be quick and must not raise."""

    def arrived(self, message: Arrived) -> None: ...

    def returned(self, message: Arrived) -> None: ...

    def confirmed(self, tag: int, multiple: bool, accepted: bool) -> None: ...


class Assembly:
    """Puts the messages of one channel together: a method, its header, and a body in parts."""

    def __init__(self, sink: FrameSink) -> None:
        self.sink = sink
        self._message: Arrived | None = None
        self._missing = 0
        self._parts: list[bytes] = []

    def takes(self, kind: int, data: bytes, start: int, end: int) -> bool:
        """Deal with one frame, if it is one of these. `data[start:end]` is what it carries."""
        if kind == codec.METHOD:
            return self._method(data, start)
        message = self._message
        if message is None:
            return False
        if kind == codec.HEADER:
            self._missing = codec.CONTENT_HEAD.unpack_from(data, start)[2]
            message.written = data[start + codec.CONTENT_HEAD.size : end]
        else:
            self._parts.append(data[start:end])
            self._missing -= end - start
        if self._missing <= 0:
            self._complete(message)
        return True

    def _method(self, data: bytes, start: int) -> bool:
        class_id, method = codec.METHOD_HEAD.unpack_from(data, start)
        start += codec.METHOD_HEAD.size
        if class_id != codec.BASIC:
            return False
        if method == codec.DELIVER:
            self._message = codec.read_delivery(data, start)
        elif method == codec.RETURN:
            self._message = codec.read_return(data, start)
        elif method in (codec.ACK, codec.NACK):
            tag, multiple = codec.LONG.unpack_from(data, start)[0], bool(data[start + 8] & 1)
            self.sink.confirmed(tag, multiple, method == codec.ACK)
        else:
            return False
        return True

    def _complete(self, message: Arrived) -> None:
        parts = self._parts
        message.body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._message, self._parts = None, []
        if message.tag:
            self.sink.arrived(message)
        else:
            self.sink.returned(message)


class Tap(asyncio.StreamReader):
    """What the driver reads from: the stream without the frames that have a sink, by channel in `assemblies`."""

    def __init__(self) -> None:
        super().__init__()
        self.assemblies: dict[int, Assembly] = {}
        self._rest = b""
        self._beaten_at = 0.0

    def feed_data(self, received: Iterable[SupportsIndex]) -> None:
        data = self._rest + bytes(received)
        at, size_of_data, kept = 0, len(data), []
        while size_of_data - at >= codec.FRAME_HEAD.size:
            kind, channel, size = codec.FRAME_HEAD.unpack_from(data, at)
            end = at + codec.FRAME_HEAD.size + size + 1
            if end > size_of_data:
                break
            assembly = self.assemblies.get(channel)
            if assembly is None or not assembly.takes(kind, data, at + codec.FRAME_HEAD.size, end - 1):
                kept.append(data[at:end])
            at = end
        self._rest = data[at:]
        if at and not kept and time.monotonic() > self._beaten_at + BEAT_EVERY_S:
            # The driver takes a line on which it sees nothing for dead.
            kept.append(codec.HEARTBEAT)
            self._beaten_at = time.monotonic()
        if kept:
            super().feed_data(b"".join(kept))

    def feed_eof(self) -> None:
        if self._rest:
            rest, self._rest = self._rest, b""
            super().feed_data(rest)
        super().feed_eof()


class TappedTransport(TransportFactory):
    """Opens the socket of one connection, with a tap in it."""

    def __init__(self) -> None:
        self.tap = Tap()

    async def create(self, url: URL, **given: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        secrets = given.pop("ssl_context_provider")
        context: ssl.SSLContext | None = await secrets.get_context() if url.scheme == "amqps" else None
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self.tap)
        transport, _ = await loop.create_connection(
            lambda: protocol, url.host or "", url.port or 0, ssl=context, **given
        )
        return self.tap, asyncio.StreamWriter(transport, protocol, self.tap, loop)
