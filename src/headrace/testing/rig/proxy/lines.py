"""The connections through a proxy: lines of two sides and two pipes each, under the faults of one link.

A piece that nothing is wrong with is written on as it comes. Otherwise it waits in its pipe, in order, until it is due.
A pipe that holds much, or whose receiver does not read, stops reading, and the sender feels it as on a direct line. So
it is in a black hole: what was sent stays where it was and arrives after healing, as TCP sends it again after a
partition, even if the sender has given up meanwhile.

Ends are passed on like data: a half-close behind the last byte, a reset when what was sent before it is out.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Literal

from headrace.testing.rig.proxy.cuts import LookOut, Sighting, Trap
from headrace.testing.rig.proxy.faults import Bandwidth, BlackHole, CutAfter, CutBefore, Latency
from headrace.testing.rig.proxy.sides import End, Side

WINDOW_BYTES = 4 << 20
"""What a pipe holds before it stops reading; with a latency, a connection carries so much per latency."""
SLICE_S = 0.02
LAG_S_MAX = 0.05

OneWay = Literal["requests", "replies"]


class Link:
    """What all lines of a proxy share: where they go, what is wrong with them, and what is counted."""

    def __init__(self, host: str, port: int, on_cut: Callable[[], None]) -> None:
        self.host = host
        self.port = port
        self.on_cut = on_cut
        self.lines: set[ProxyLine] = set()
        self.connections = 0
        self.passed: dict[OneWay, int] = {"requests": 0, "replies": 0}
        self.heal()

    def heal(self) -> None:
        self.traps: list[Trap] = []
        self.latency: Latency | None = None
        self.black_hole: BlackHole | None = None
        self.limit(None)

    def limit(self, bandwidth: Bandwidth | None) -> None:
        self.bandwidth = bandwidth
        self.free_at: dict[OneWay, float] = {"requests": 0.0, "replies": 0.0}

    def changed(self) -> None:
        """Let every line feel what was set or healed."""
        for line in tuple(self.lines):
            line.changed()

    async def close(self) -> None:
        """End all lines at once."""
        for line in tuple(self.lines):
            line.close()
        begun = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*begun, return_exceptions=True)
        # Sockets are closed by callbacks in the next rounds of the loop.
        while self.lines:
            await asyncio.sleep(0)

    def holds(self, way: OneWay) -> bool:
        return self.black_hole is not None and self.black_hole.way in (way, "both")

    def delay(self, way: OneWay) -> float:
        if self.latency is None or self.latency.way not in (way, "both"):
            return 0.0
        return self.latency.seconds + random.uniform(0.0, self.latency.jitter_s)

    def rate(self, way: OneWay) -> float | None:
        if self.bandwidth is None or self.bandwidth.way not in (way, "both"):
            return None
        return self.bandwidth.bytes_per_s


class Pipe:
    """One direction of a line."""

    def __init__(self, line: ProxyLine, way: OneWay, source: Side, sink: Side) -> None:
        self.ended = False
        self._line = line
        self._link = line.link
        self._way = way
        self._source = source
        self._sink = sink
        self._look_out = LookOut(way)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, bytes | End]] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def arrived(self, piece: bytes | End) -> None:
        """A piece from the source: on at once if nothing is in its way, else behind those that wait."""
        if self._line.over:
            return
        delay = self._link.delay(self._way)
        if not (delay or self._waiting or self._sink.full) and self._passes() and self._link.rate(self._way) is None:
            self._deliver(piece)
            return
        self._waiting.append((self._loop.time() + delay, piece))
        self._waiting_bytes += _size(piece)
        self.pump()

    def pump(self) -> None:
        """Pass on what is due, as far as the receiver takes it, and read only what can go somewhere."""
        while self._waiting and not self._sink.full and self._passes() and not self._is_early():
            self._deliver(self._take())
        room = self._waiting_bytes < WINDOW_BYTES and not self._sink.full
        self._source.read(room and self._passes())

    def stop(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _passes(self) -> bool:
        return self._line.connected and not self._line.over and not self._link.holds(self._way)

    def _is_early(self) -> bool:
        """Whether the first piece has to wait; if so, the clock is set for it."""
        due = self._waiting[0][0] if self._link.latency is not None else 0.0
        if self._link.rate(self._way) is not None:
            due = max(due, self._link.free_at[self._way])
        if due <= self._loop.time():
            return False
        if self._timer is None or self._timer.when() != due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self.pump)
        return True

    def _take(self) -> bytes | End:
        due, piece = self._waiting.popleft()
        rate = self._link.rate(self._way)
        if rate is not None and isinstance(piece, bytes):
            size = max(1, int(rate * SLICE_S))
            if len(piece) > size:
                self._waiting.appendleft((due, piece[size:]))
                piece = piece[:size]
            # A clock that wakes us late must not make the line slower than it is.
            begun = max(self._link.free_at[self._way], self._loop.time() - LAG_S_MAX)
            self._link.free_at[self._way] = begun + len(piece) / rate
        self._waiting_bytes -= _size(piece)
        return piece

    def _deliver(self, piece: bytes | End) -> None:
        if isinstance(piece, End):
            self.ended = True
            self._line.pass_end(self._sink, piece)
            return
        found = self._look_out.look(self._link.traps, piece) if self._link.traps else None
        if found is not None:
            piece = piece[: found.at]
        self._link.passed[self._way] += len(piece)
        self._sink.write(piece)
        if found is not None:
            self._line.spring(found, self._sink)


class ProxyLine:
    """One connection. If the server cannot be reached, the client is reset: too late to refuse it."""

    def __init__(self, link: Link, client: Side) -> None:
        self.link = link
        self.over = False
        self.connected = False
        self._client = client
        self._server = Side()
        self._requests = Pipe(self, "requests", client, self._server)
        self._replies = Pipe(self, "replies", self._server, client)
        self._connecting: asyncio.Task[None] | None = None
        self._reply_is_lost = False
        client.connect(self._requests.arrived, self._replies.pump, self._side_left)
        self._server.connect(self._reply, self._requests.pump, self._side_left)
        link.lines.add(self)
        link.connections += 1
        self.changed()

    def changed(self) -> None:
        # The handshake is a request too: in a black hole, it is made after healing.
        if self._connecting is None and not self.over and not self.link.holds("requests"):
            self._connecting = asyncio.ensure_future(self._connect())
        self._requests.pump()
        self._replies.pump()

    def pass_end(self, sink: Side, end: End) -> None:
        if end is End.RESET:
            self._finish()
            sink.reset_behind()
        elif self._requests.ended and self._replies.ended:
            self._finish()
            for side in (self._client, self._server):
                side.write_end()
                side.close()
        else:
            sink.write_end()

    def spring(self, found: Sighting, sink: Side) -> None:
        """A cut has found its moment."""
        match found.cut:
            case CutAfter(ending="close"):
                self._cut(self._client.leave, self._server.leave)
            case CutAfter():
                other = self._client if sink is self._server else self._server
                self._cut(other.reset, sink.reset_behind)
            case CutBefore():
                self._cut(self._client.reset, self._server.leave)
            case _:
                self._reply_is_lost = True

    def reset(self) -> None:
        if not self.over:
            self._cut(self._client.reset, self._server.reset)

    def close(self) -> None:
        self._finish()
        self._client.abort()
        self._server.abort()
        if self._connecting is not None:
            self._connecting.cancel()

    def _reply(self, piece: bytes | End) -> None:
        if self._reply_is_lost and not self.over and isinstance(piece, bytes):
            # The server keeps its side until it has read all of the request: a reset might make it look up earlier.
            self._cut(self._client.reset, self._server.leave)
        else:
            self._replies.arrived(piece)

    def _cut(self, *endings: Callable[[], None]) -> None:
        """Counted before it can be felt, so that whoever feels it finds it counted."""
        self._finish()
        self.link.on_cut()
        for end in endings:
            end()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._server, self.link.host, self.link.port)
        except OSError:
            self._finish()
            self._client.reset()
            return
        self.connected = True
        if self.over:
            self._server.reset()
        self.changed()

    def _finish(self) -> None:
        self.over = True
        self._requests.stop()
        self._replies.stop()

    def _side_left(self) -> None:
        if self._client.gone and (self._server.gone or not self.connected):
            self._finish()
            self.link.lines.discard(self)


class ClientSide(Side):
    """The side that came to us, and brings its line into being."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        ProxyLine(self._link, self)


def _size(piece: bytes | End) -> int:
    return len(piece) if isinstance(piece, bytes) else 0
