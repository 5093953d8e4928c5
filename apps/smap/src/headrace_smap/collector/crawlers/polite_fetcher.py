"""Fetching politely: one request at a time per host and not too soon after the last, only what robots.txt allows, never
more bytes than agreed, and no longer than agreed. Redirects are followed by hand, so that each is checked anew.

What may be better later is `CrawlLater`; the tasks' own patience does the retrying. Pace and robots.txt are shared by
all tasks of a process.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

import httpx

from headrace_smap.collector.crawlers.addresses import CheckedAddress, checked_place
from headrace_smap.collector.tasks import CrawlBusy, CrawlFailed, CrawlLater
from headrace_smap.collector.wishes import CrawlWishes

REDIRECTS_MAX = 5
ROBOTS_BYTES_MAX = 512 * 1024
ROBOTS_KEEP_S = 3_600.0
ROBOTS_KEPT_MAX = 1_000
PACES_KEPT_MAX = 10_000
DELAY_S_MAX = 60.0
WAIT_S_MAX = 5.0
PATIENCE_S_MAX = 3_600.0
REDIRECTS = frozenset((301, 302, 303, 307, 308))
RAW_BYTES = 65_536
PACKED = "gzip"
NO_HEADERS: Mapping[str, str] = {}
LATER = frozenset((408, 425, 429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True)
class FetchedAnswer:
    """The body of an answer, and where it came from in the end."""

    body: bytes
    url: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class OriginAccess:
    """What requests to one origin carry, and whether its robots.txt is asked there. Other origins get nothing of it,
    whoever leads us to them."""

    origin: str
    headers: Mapping[str, str] = field(repr=False)
    robots: bool = True


class HostPace:
    """When each host may be asked again."""

    def __init__(self) -> None:
        self._turns: dict[str, asyncio.Lock] = {}
        self._free_at: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, origin: str, interval_s: float) -> AsyncIterator[None]:
        """Wait for the host's turn; the next one comes `interval_s` after this one began. `CrawlBusy`: that would be a
        long wait, and others have something to do meanwhile."""
        async with self._turns.setdefault(origin, asyncio.Lock()):
            wait_s = self._free_at.get(origin, 0.0) - asyncio.get_running_loop().time()
            if wait_s > WAIT_S_MAX:
                raise CrawlBusy(wait_s)
            await asyncio.sleep(max(0.0, wait_s))
            self.delay(origin, interval_s)
            yield
        self._forget_some()

    def delay(self, origin: str, seconds: float) -> None:
        """Nobody asks this host before so many seconds have passed."""
        free_at = asyncio.get_running_loop().time() + seconds
        self._free_at[origin] = max(free_at, self._free_at.get(origin, 0.0))

    def _forget_some(self) -> None:
        """Hosts are named by others: what is remembered of them is bounded."""
        if len(self._free_at) <= PACES_KEPT_MAX:
            return
        now = asyncio.get_running_loop().time()
        for origin in [origin for origin, free_at in self._free_at.items() if free_at < now]:
            if not self._turns[origin].locked():
                del self._free_at[origin], self._turns[origin]


class PoliteFetcher:
    """Fetches over HTTP. One per process and setting; any number of tasks share it."""

    def __init__(self, wishes: CrawlWishes) -> None:
        self._wishes, self.pace = wishes, HostPace()
        self._robots: dict[str, tuple[float, RobotFileParser]] = {}
        self._learning: dict[str, asyncio.Lock] = {}
        # A kept connection belongs to a checked address, not to a name: two names at one address must not share it.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.AsyncClient(timeout=wishes.timeout_s, trust_env=False, limits=limits)

    async def fetch(self, url: str, access: OriginAccess | None = None) -> FetchedAnswer:
        """The body at an address, or why there is none."""
        for _ in range(REDIRECTS_MAX + 1):
            place = await checked_place(url, self._wishes.private)
            granted = access if access is not None and access.origin == place.origin else None
            interval_s = self._wishes.interval_s
            if granted is None or granted.robots:
                interval_s = max(interval_s, await self._allowed(place, url))
            async with self.pace.turn(place.origin, interval_s):
                status, headers, body = await self._ask(
                    place, self._wishes.bytes_max, headers=granted.headers if granted else NO_HEADERS
                )
            if status not in REDIRECTS:
                return self._judged(place, url, status, (headers, body))
            url = urljoin(url, headers.get("location", ""))
        raise CrawlFailed(f"more than REDIRECTS_MAX = {REDIRECTS_MAX} redirects")

    async def close(self) -> None:
        await self._client.aclose()

    async def _allowed(self, place: CheckedAddress, url: str) -> float:
        """The seconds between requests that robots.txt asks for; `CrawlFailed` if it forbids this one."""
        robots = await self._robots_of(place)
        if not robots.can_fetch(self._wishes.agent, url):
            raise CrawlFailed(f"the robots.txt of {place.host} forbids this address")
        return min(float(robots.crawl_delay(self._wishes.agent) or 0.0), DELAY_S_MAX)

    def _judged(
        self, place: CheckedAddress, url: str, status: int, answer: tuple[httpx.Headers, bytes]
    ) -> FetchedAnswer:
        headers, body = answer
        if status == 200:
            return FetchedAnswer(body, url, headers.get("content-type", "").lower())
        if status in LATER:
            after_s = patience(headers.get("retry-after", ""), time.time())
            if after_s is not None:
                self.pace.delay(place.origin, min(after_s, DELAY_S_MAX))
            raise CrawlLater(f"{place.host} answers {status}", after_s)
        raise CrawlFailed(f"{place.host} answers {status}")

    async def _ask(
        self, place: CheckedAddress, bytes_max: int, cut: bool = False, headers: Mapping[str, str] = NO_HEADERS
    ) -> tuple[int, httpx.Headers, bytes]:
        ours = {"Host": place.parts.netloc, "User-Agent": self._wishes.agent, "Accept": "*/*"}
        sent = {**headers, **ours, "Accept-Encoding": PACKED}
        request = self._client.build_request("GET", place.url, headers=sent, extensions={"sni_hostname": place.host})
        request.extensions["timeout"] = httpx.Timeout(self._wishes.timeout_s).as_dict()
        try:
            # A server that sends a byte now and then would keep within every timeout but this one.
            async with asyncio.timeout(self._wishes.timeout_s * 2):
                answer = await self._client.send(request, stream=True, follow_redirects=False)
                try:
                    return answer.status_code, answer.headers, await _limited(answer, bytes_max, cut)
                finally:
                    await answer.aclose()
        except TimeoutError:
            raise CrawlLater(f"{place.host} takes longer than {self._wishes.timeout_s * 2:g} s") from None
        except zlib.error as error:
            raise CrawlFailed(f"the answer of {place.host} cannot be unpacked: {error}") from None
        except httpx.HTTPError as error:
            raise CrawlLater(f"{place.host} does not answer: {type(error).__name__} {error}".rstrip()) from None

    async def _robots_of(self, place: CheckedAddress) -> RobotFileParser:
        async with self._learning.setdefault(place.origin, asyncio.Lock()):
            now = asyncio.get_running_loop().time()
            known = self._robots.get(place.origin)
            if known is None or known[0] < now:
                if len(self._robots) >= ROBOTS_KEPT_MAX:
                    self._robots.clear()
                known = self._robots[place.origin] = (now + ROBOTS_KEEP_S, await self._learn(place))
        self._learning.pop(place.origin, None)
        return known[1]

    async def _learn(self, place: CheckedAddress) -> RobotFileParser:
        """robots.txt of an origin. None is leave to all; one that cannot be read now may forbid all, so we wait."""
        url, robots = f"{place.origin}/robots.txt", RobotFileParser()
        for _ in range(REDIRECTS_MAX + 1):
            there = await checked_place(url, self._wishes.private)
            async with self.pace.turn(there.origin, 0.0):
                status, headers, body = await self._ask(there, ROBOTS_BYTES_MAX, cut=True)
            if status not in REDIRECTS:
                break
            url = urljoin(url, headers.get("location", ""))
        if status in LATER:
            raise CrawlLater(f"the robots.txt of {place.host} cannot be read now: {status}")
        robots.parse(body.decode("utf-8", "replace").splitlines() if status == 200 else [])
        return robots


async def _limited(answer: httpx.Response, bytes_max: int, cut: bool) -> bytes:
    """The body up to the limit; what is over it is refused, or cut off."""
    body, unpack = bytearray(), _unpacking(answer.headers.get("content-encoding", ""))
    async for piece in answer.aiter_raw(RAW_BYTES):
        body += unpack(piece, bytes_max + 1 - len(body))
        if len(body) > bytes_max:
            if cut:
                return bytes(body[:bytes_max])
            raise CrawlFailed(f"the answer is over the limit of {bytes_max:,} bytes")
    return bytes(body)


def _unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    """What makes plain bytes of packed ones, never more than it is asked for: a few hundred bytes that are packed twice
    may be gigabytes, and the client would unpack them before anybody can look."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return lambda piece, _: piece
    if name != PACKED:
        raise CrawlFailed(f"the answer is packed as {name[:40]!r}, which nobody asked for")
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    return lambda piece, room: unpacker.decompress(unpacker.unconsumed_tail + piece, max(room, 1))


def patience(text: str, now: float) -> float | None:
    """How long `Retry-After` asks us to wait: seconds, or a date."""
    try:
        if text.strip().isdigit():
            return min(float(text), PATIENCE_S_MAX)
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - now), PATIENCE_S_MAX)
    except (ValueError, TypeError):
        return None
