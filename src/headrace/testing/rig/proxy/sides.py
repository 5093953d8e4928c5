"""One socket of a connection through the proxy, and its ways to end: politely, hard, or hard behind the last byte."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import fcntl
import socket
import struct
from collections.abc import Callable

LEAVE_S_MAX = 5.0
FLUSH_LOOK_S = 0.002
_BYTES_NOT_SENT = 0x894B
_NO_LINGER = struct.pack("ii", 1, 0)


class End(enum.Enum):
    """How the other end of a socket stopped sending."""

    CLOSED = enum.auto()
    RESET = enum.auto()


class Side(asyncio.Protocol):
    """The client's socket or the server's. Whoever uses it says who hears of it: see `connect`."""

    def __init__(self) -> None:
        self.full = False
        self.gone = False
        self._deaf = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._heard: Callable[[bytes | End], None]
        self._has_room: Callable[[], None]
        self._left: Callable[[], None]

    def connect(
        self, heard: Callable[[bytes | End], None], has_room: Callable[[], None], left: Callable[[], None]
    ) -> None:
        """`heard` gets what comes, `has_room` is called when there is room to write or none, `left` at the end."""
        self._heard, self._has_room, self._left = heard, has_room, left

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # asyncio does so itself, but not for a socket whose listener was made without naming TCP: then a piece would
        # wait for the acknowledgement of the one before, up to 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if not self._deaf:
            self._heard(data)

    def eof_received(self) -> bool:
        if not self._deaf:
            self._heard(End.CLOSED)
        return not self._deaf

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        if not self._deaf:
            self._heard(End.RESET)
        self._left()

    def pause_writing(self) -> None:
        self.full = True
        self._has_room()

    def resume_writing(self) -> None:
        self.full = False
        self._has_room()

    def read(self, wanted: bool) -> None:
        """Read on, or let the sender wait."""
        if self._transport is None or self._deaf:
            return
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write_end(self) -> None:
        """FIN behind what was written; the other direction goes on."""
        # A socket that was reset meanwhile is not connected any more, and will say so itself.
        with contextlib.suppress(OSError):
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write_eof()

    def close(self) -> None:
        """Gone as soon as what was written is out, when both directions have ended."""
        self._deaf = True
        if self._transport is not None:
            self._transport.close()

    def leave(self) -> None:
        """FIN behind what was written. What still comes is thrown away: closing over unread bytes would be a reset."""
        self.write_end()
        self._deaf = True
        if self._transport is not None:
            self._transport.resume_reading()
            self._loop.call_later(LEAVE_S_MAX, self._transport.abort)

    def reset(self) -> None:
        """RST, now: what was written and is not out yet is lost."""
        self._deaf = True
        if self._transport is not None and not self.gone:
            with contextlib.suppress(OSError):
                self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()

    def reset_behind(self) -> None:
        """RST as soon as what was written is out, so that a reader gets all of it first."""
        self._deaf = True
        self._reset_when_sent(self._loop.time() + LEAVE_S_MAX)

    def abort(self) -> None:
        self._deaf = True
        if self._transport is not None:
            self._transport.abort()

    def _reset_when_sent(self, deadline: float) -> None:
        if self.gone or self._transport is None:
            return
        if self._loop.time() < deadline and (self._transport.get_write_buffer_size() or self._not_sent()):
            self._loop.call_later(FLUSH_LOOK_S, self._reset_when_sent, deadline)
        else:
            self.reset()

    def _not_sent(self) -> int:
        """The bytes the kernel has of us and has not sent, because the receiver has no room for them."""
        try:
            answer = fcntl.ioctl(self._socket().fileno(), _BYTES_NOT_SENT, bytes(4))
        except OSError:
            return 0
        return int.from_bytes(answer, "little")

    def _socket(self) -> socket.socket:
        assert self._transport is not None
        found: socket.socket = self._transport.get_extra_info("socket")
        return found
