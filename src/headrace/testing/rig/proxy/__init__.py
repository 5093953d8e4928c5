"""A TCP proxy that stands before any server and breaks its connections on demand.

It runs on an event loop in a thread of its own, so blocking clients, async tests and the keeper of `headrace rig up`
use it alike, from any thread. A fault holds for open and new connections when the call that sets it returns.

    with Proxy(server.url) as proxy:
        client = connect(proxy.url)
        proxy.cut_reply_to(b"COMMIT")
        ...
        assert proxy.cuts == 1
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Self
from urllib.parse import urlsplit

from headrace.core.errors import CallerError
from headrace.testing.rig import ports
from headrace.testing.rig.proxy.cuts import Trap
from headrace.testing.rig.proxy.entrance import Entrance
from headrace.testing.rig.proxy.faults import (
    Bandwidth,
    BlackHole,
    CutAfter,
    CutBefore,
    CutReply,
    Ending,
    Fault,
    Heal,
    Latency,
    Refuse,
    Reset,
    Times,
    Way,
)
from headrace.testing.rig.proxy.lines import ClientSide, Link

HOST = "127.0.0.1"
CLOSE_S_MAX = 10.0
CUT_S_MAX = 10.0


class Proxy:
    """Stands before the server of one URL. Its port is its own from the beginning until `close`.

    Where the server tells its clients an address, the proxy must stand `at` that one: it is the server's to reserve.
    """

    def __init__(self, url: str, at: tuple[str, int] | None = None) -> None:
        self._netloc, host, port = _address(url)
        self._server_url = url
        self._link = Link(host, port, self._count_cut)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._one_fault = threading.Lock()
        self._a_cut = threading.Condition()
        self.cuts = 0
        """Connections that were broken on purpose."""
        self._is_reserved = at is None
        self.host, self.port = at or (HOST, ports.reserve_port())
        self._entrance = Entrance(self.host, self.port, lambda: ClientSide(self._link))

    @property
    def url(self) -> str:
        """The server's URL with our address in it."""
        user, at, _ = self._netloc.rpartition("@")
        return self._server_url.replace(f"//{self._netloc}", f"//{user}{at}{self.host}:{self.port}", 1)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong now; a cut tells how often it is still to happen."""
        link = self._link
        lasting = (link.latency, link.bandwidth, link.black_hole, None if self._entrance.is_open else Refuse())
        waiting = (trap.rest() for trap in tuple(link.traps) if not trap.spent)
        return (*(fault for fault in lasting if fault is not None), *waiting)

    @property
    def connections(self) -> int:
        """How many were accepted since the beginning."""
        return self._link.connections

    @property
    def open_connections(self) -> int:
        return sum(not line.over for line in tuple(self._link.lines))

    @property
    def request_bytes(self) -> int:
        """Passed on to the server since the beginning."""
        return self._link.passed["requests"]

    @property
    def reply_bytes(self) -> int:
        """Passed on to clients since the beginning."""
        return self._link.passed["replies"]

    def latency(self, seconds: float, jitter_s: float = 0.0, way: Way = "both") -> None:
        """Every byte arrives so much later, each way: a round trip takes twice as much longer."""
        self.apply(Latency(seconds, jitter_s, way))

    def bandwidth(self, bytes_per_s: float, way: Way = "both") -> None:
        """All connections together get so many bytes a second, each way."""
        self.apply(Bandwidth(bytes_per_s, way))

    def reset(self) -> None:
        """Break all open connections with an RST, on both sides."""
        self.apply(Reset())

    def refuse(self) -> None:
        """Close the listening socket: new connections are refused until `heal`. Open ones stay."""
        self.apply(Refuse())

    def black_hole(self, way: Way = "both") -> None:
        """Nothing arrives and connections stay open; after `heal`, all that was sent meanwhile arrives."""
        self.apply(BlackHole(way))

    def cut_after(self, byte_count: int, way: Way = "replies", ending: Ending = "reset", times: Times = 1) -> None:
        """Break a connection when exactly so many bytes more have passed on it."""
        self.apply(CutAfter(byte_count, way, ending, times))

    def cut_before(self, pattern: bytes, times: Times = 1) -> None:
        """The next request with this pattern does not arrive: the line is cut where the pattern begins.

        What was sent before it arrives, so a request is cut short rather than left out. The client sees a reset, the
        server a connection that ends in the middle of a request.
        """
        self.apply(CutBefore(pattern, times))

    def cut_reply_to(self, pattern: bytes, times: Times = 1) -> None:
        """The next request with this pattern arrives whole; at the first byte that comes back, the client sees a reset.

        The proxy does not know which request a reply belongs to. If others were sent ahead without waiting for their
        replies, the first byte may belong to one of them: their replies are lost too. The server still gets to read
        everything that was passed on, because on its side the connection ends without a reset.
        """
        self.apply(CutReply(pattern, times))

    def heal(self) -> None:
        """Remove everything that was set. Counters stay."""
        self.apply(Heal())

    def apply(self, fault: Fault) -> None:
        """Set a fault. One of a lasting kind replaces its predecessor, cuts add up."""
        with self._one_fault:
            if self._loop is None:
                raise CallerError("the proxy is not open", "use it as a context manager, or call open()")
            asyncio.run_coroutine_threadsafe(self._apply(fault), self._loop).result()

    def wait_for_cut(self, timeout_s: float = CUT_S_MAX, count: int = 1) -> None:
        """Until there were so many cuts in all."""
        with self._a_cut:
            if not self._a_cut.wait_for(lambda: self.cuts >= count, timeout_s):
                waiting = ", ".join(map(str, self.faults)) or "nothing is set"
                raise TimeoutError(f"{self.cuts} of {count} cuts within {timeout_s:g} s; {waiting}")

    def open(self) -> Self:
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(opened)), name=f"rig-proxy-{self.port}", daemon=True
        )
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End at once, with all connections, and give the port back."""
        with self._one_fault:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(self._end.set)
            self._thread.join(CLOSE_S_MAX)
        if self._is_reserved:
            ports.give_back(self.port)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _serve(self, opened: Future[None]) -> None:
        try:
            self._entrance.open()
        except BaseException as error:
            opened.set_exception(error)
            return
        self._loop = asyncio.get_running_loop()
        opened.set_result(None)
        await self._end.wait()
        self._entrance.close()
        await self._entrance.settle()
        await self._link.close()

    async def _apply(self, fault: Fault) -> None:
        match fault:
            case Latency():
                self._link.latency = fault
            case Bandwidth():
                self._link.limit(fault)
            case BlackHole():
                self._link.black_hole = fault
            case Reset():
                for line in tuple(self._link.lines):
                    line.reset()
            case Refuse():
                self._entrance.close()
            case CutAfter() | CutBefore() | CutReply():
                self._link.traps = [*(trap for trap in self._link.traps if not trap.spent), Trap(fault)]
            case Heal():
                self._link.heal()
                self._entrance.open()
        self._link.changed()

    def _count_cut(self) -> None:
        with self._a_cut:
            self.cuts += 1
            self._a_cut.notify_all()


def _address(url: str) -> tuple[str, str, int]:
    """The part of a URL that names the server, and the server."""
    hint = "such as postgresql://someone@127.0.0.1:5432/name"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise CallerError(f"a proxy cannot stand before {url!r}: {error}", hint) from error
    if host is None or port is None:
        raise CallerError(f"a proxy needs a URL with host and port, not {url!r}", hint)
    return parts.netloc, host, port
